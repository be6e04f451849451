package text

import (
	"context"
	"fmt"
	"strings"

	"spore/builder/replay/command"
	"spore/builder/replay/text/getopt"
)

// getoptCommand is getopt(1) of util-linux: it prints the arguments of a script in order, options first, each quoted
// for eval.
func getoptCommand(_ context.Context, c *command.Call) (int, error) {
	options, words, err := getopt.Parse(c, getopt.Spec{Short: "o:l:n:s:qQuaT", First: true, Long: map[string]rune{
		"options": 'o', "longoptions": 'l', "name": 'n', "shell": 's', "quiet": 'q', "quiet-output": 'Q', "unquoted": 'u',
		"alternative": 'a', "test": 'T',
	}})
	if err != nil {
		return 0, err
	}
	short, long, name, given := "", "", c.Name, false
	for _, o := range options {
		switch o.Letter {
		case 'o':
			short, given = o.Value, true
		case 'l':
			long += "," + o.Value
		case 'n':
			name = o.Value
		case 'T':
			return 4, nil // this is the enhanced getopt
		case 'q':
		case 's':
			if o.Value != "sh" && o.Value != "bash" {
				return c.Unknown("-s " + o.Value)
			}
		default:
			return c.Unknown("-" + string(o.Letter))
		}
	}
	if !given { // the first word has the short options
		if len(words) == 0 || len(c.Args) > 0 && !strings.HasPrefix(c.Args[0], "-") {
			return c.Unknown("of the old form, without quotes")
		}
		short, words = words[0], words[1:]
	}
	s, names := scriptOptions(short, long)
	call := *c
	call.Name, call.Args = name, words
	found, operands, err := getopt.Parse(&call, s)
	if err != nil {
		return c.Fail(1, "%v", err)
	}
	for _, o := range found {
		fmt.Fprint(c.Stdout, " ", names[o.Letter].text)
		if names[o.Letter].value {
			fmt.Fprint(c.Stdout, " ", quoted(o.Value))
		}
	}
	fmt.Fprint(c.Stdout, " --")
	for _, word := range operands {
		fmt.Fprint(c.Stdout, " ", quoted(word))
	}
	fmt.Fprintln(c.Stdout)
	return 0, nil
}

// scriptOption is an option of the script as it is printed, and whether it has a value.
type scriptOption struct {
	text  string
	value bool
}

// scriptOptions reads -o and -l. Long options have letters of their own, from a range that no script uses.
func scriptOptions(short, long string) (getopt.Spec, map[rune]scriptOption) {
	s := getopt.Spec{Short: strings.TrimLeft(short, "+-"), Long: map[string]rune{}, First: strings.HasPrefix(short, "+")}
	names := map[rune]scriptOption{}
	for i, letter := range s.Short {
		if letter != ':' {
			names[letter] = scriptOption{"-" + string(letter), strings.HasPrefix(s.Short[i+len(string(letter)):], ":")}
		}
	}
	letter := rune(0xE000)
	for _, word := range strings.FieldsFunc(long, func(r rune) bool { return r == ',' || r == ' ' }) {
		name := strings.TrimRight(word, ":")
		s.Long[name] = letter
		names[letter] = scriptOption{"--" + name, name != word}
		if name != word {
			s.LongValues += string(letter)
		}
		letter++
	}
	return s, names
}

func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
