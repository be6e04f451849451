// Package getopt reads the arguments of commands as GNU's getopt_long does: options and operands in any order, -- ends
// the options, short ones may stand together, long ones may be shortened as long as they are unambiguous.
package getopt

import (
	"fmt"
	"strings"

	"spore/builder/replay/command"
)

// Spec says which options a command has.
type Spec struct {
	// Short has the letters of the options; a colon behind one says that it has a value, two that the value is optional
	// and stands in the same argument.
	Short string
	// Long has the letter for each long name; the letter may be one that is not in Short for options without a short
	// form, then LongValues names those with a value.
	Long map[string]rune
	// LongValues has letters of Long that have a value and are not in Short.
	LongValues string
	// First stops at the first operand, as expr and xargs do.
	First bool
}

// Option is one option of a call.
type Option struct {
	Letter rune
	Value  string
}

// Parse reads the arguments of a call. Its error is that of Call.Unknown for an option that the spec does not have.
func Parse(c *command.Call, s Spec) (options []Option, operands []string, err error) {
	args := c.Args
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			return options, append(operands, args...), nil
		case strings.HasPrefix(arg, "--"):
			o, used, err := s.long(c, arg[2:], args)
			if err != nil {
				return nil, nil, err
			}
			options, args = append(options, o), args[used:]
		case len(arg) > 1 && arg[0] == '-':
			some, used, err := s.short(c, arg[1:], args)
			if err != nil {
				return nil, nil, err
			}
			options, args = append(options, some...), args[used:]
		case s.First:
			return options, append(append(operands, arg), args...), nil
		default:
			operands = append(operands, arg)
		}
	}
	return options, operands, nil
}

// value tells whether an option has a value: 0 no, 1 yes, 2 optional.
func (s Spec) value(letter rune) (int, bool) {
	if strings.ContainsRune(s.LongValues, letter) {
		return 1, true
	}
	i := strings.IndexRune(s.Short, letter)
	if i < 0 || letter == ':' {
		return 0, false
	}
	rest := s.Short[i+len(string(letter)):]
	return len(rest) - len(strings.TrimLeft(rest, ":")), true
}

func (s Spec) short(c *command.Call, letters string, args []string) (out []Option, used int, err error) {
	for i, letter := range letters {
		kind, ok := s.value(letter)
		if !ok {
			return nil, 0, unknown(c, "-"+string(letter))
		}
		rest := letters[i+len(string(letter)):]
		switch {
		case kind == 0:
			out = append(out, Option{Letter: letter})
			continue
		case rest != "" || kind == 2:
			return append(out, Option{letter, rest}), 0, nil
		case len(args) == 0:
			return nil, 0, fmt.Errorf("%s: the option -%c has no value", c.Name, letter)
		}
		return append(out, Option{letter, args[0]}), 1, nil
	}
	return out, 0, nil
}

func (s Spec) long(c *command.Call, text string, args []string) (Option, int, error) {
	name, value, given := strings.Cut(text, "=")
	letter, ok := s.Long[name]
	if !ok {
		var letters = map[rune]bool{}
		for full, l := range s.Long {
			if strings.HasPrefix(full, name) {
				letters[l], letter = true, l
			}
		}
		if len(letters) != 1 {
			return Option{}, 0, unknown(c, "--"+name)
		}
	}
	kind, _ := s.value(letter)
	switch {
	case given && kind == 0:
		return Option{}, 0, unknown(c, "--"+text)
	case given || kind != 1:
		return Option{letter, value}, 0, nil
	case len(args) == 0:
		return Option{}, 0, fmt.Errorf("%s: the option --%s has no value", c.Name, name)
	}
	return Option{letter, args[0]}, 1, nil
}

func unknown(c *command.Call, option string) error {
	_, err := c.Unknown(option)
	return err
}
