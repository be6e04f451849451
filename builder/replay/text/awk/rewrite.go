package awk

import (
	"errors"
	"fmt"
	"strings"
)

// Names of functions that take the place of what the library would do itself.
const (
	filenameFunc = own + "filename"
	stderrFunc   = own + "stderr"
	environFunc  = own + "environ"
)

// token is a piece of a program: a word, a string, a comment, or one other byte.
type token struct {
	text string
	kind byte // w word, s string, r expression, c comment, n newline, b blank, o other
}

// tokens cuts a program into pieces. A slash begins an expression unless a value stands before it.
func tokens(program string) []token {
	var out []token
	value := false
	for i := 0; i < len(program); {
		start, c := i, program[i]
		kind := byte('o')
		switch {
		case wordByte(c):
			for i < len(program) && wordByte(program[i]) {
				i++
			}
			kind = 'w'
		case c == '"' || c == '/' && !value:
			i = closing(program, i)
			kind = map[byte]byte{'"': 's', '/': 'r'}[c]
		case c == '#':
			for i < len(program) && program[i] != '\n' {
				i++
			}
			kind = 'c'
		case c == '\n':
			i++
			kind = 'n'
		case c == ' ' || c == '\t' || c == '\\' && strings.HasPrefix(program[i:], "\\\n"):
			if i++; c == '\\' {
				i++
			}
			kind = 'b'
		default:
			i++
		}
		t := token{program[start:i], kind}
		out = append(out, t)
		if kind != 'b' && kind != 'c' {
			value = kind == 's' || kind == 'r' || t.text == ")" || t.text == "]" || t.text == "$" ||
				kind == 'w' && t.text != "print" && t.text != "printf" && t.text != "return" && t.text != "in"
		}
	}
	return out
}

// closing answers the index behind a string or an expression.
func closing(program string, i int) int {
	end, inSet := program[i], false
	for i++; i < len(program) && program[i] != '\n'; i++ {
		switch c := program[i]; {
		case c == '\\':
			i++
		case end == '/' && c == '[' && !inSet:
			if inSet = true; i+1 < len(program) && (program[i+1] == ']' || program[i+1] == '^') {
				i++
			}
		case c == ']' && inSet:
			inSet = false
		case c == end && !inSet:
			return i + 1
		}
	}
	return min(i, len(program))
}

var errRefused = errors.New("is not replayed")

// rewrite puts functions in the place of FILENAME and around a print to standard error, refuses what depends on the
// machine that builds, and answers which variables of the environment the program reads.
func rewrite(program string) (out string, environ []string, err error) {
	all := tokens(program)
	if environ, err = inspect(all); err != nil {
		return "", nil, err
	}
	printAt := -1
	for i := range all {
		switch t := &all[i]; {
		case t.kind == 'w' && t.text == "ENVIRON":
			dynamic(all, i)
		case t.kind == 'r':
			t.text = escapeSlashes(t.text)
		case t.kind == 'w' && t.text == "FILENAME":
			t.text = filenameFunc + "()"
		case t.kind == 'w' && (t.text == "print" || t.text == "printf"):
			printAt = i
		case t.kind == 'n' || t.text == ";" || t.text == "{":
			printAt = -1
		case (t.text == ">" || t.text == "|") && printAt >= 0:
			redirect(all, i, printAt)
		}
	}
	walks := ordered(all)
	var b strings.Builder
	for _, t := range all {
		b.WriteString(t.text)
	}
	if walks {
		b.WriteString(sortedSource)
	}
	return b.String(), environ, nil
}

// after answers the index of the next piece that is not a blank, len(all) without one.
func after(all []token, i int) int {
	for i++; i < len(all) && all[i].kind == 'b'; i++ {
	}
	return i
}

// redirect rewrites a print to standard output or standard error, by its name or through a cat.
func redirect(all []token, i, printAt int) {
	to := after(all, i)
	if all[i].text == ">" && to < len(all) && all[to].text == ">" {
		to = after(all, to)
	}
	if to >= len(all) || all[to].kind != 's' {
		return
	}
	target := strings.ReplaceAll(strings.Trim(all[to].text, `"`), " ", "")
	isFile := all[i].text == ">"
	switch {
	case isFile && (target == "/dev/stdout" || target == "-"), !isFile && target == "cat":
		blank(all[i : to+1])
	case isFile && target == "/dev/stderr", !isFile && (target == "cat1>&2" || target == "cat>&2"):
		blank(all[i : to+1])
		all[printAt].text = "{ " + stderrFunc + "(1); " + all[printAt].text
		all[to].text = "; " + stderrFunc + "(0) }"
		if next := after(all, to); next < len(all) && all[next].text == ";" {
			if word := after(all, next); word < len(all) && (all[word].text == "else" || all[word].kind == 'n') {
				all[next].text = ""
			}
		}
	}
}

// dynamic makes a call of ENVIRON with an index that is not a literal; inspect has seen that there is one.
func dynamic(all []token, i int) {
	open := after(all, i)
	index := after(all, open)
	if end := after(all, index); end < len(all) && all[index].kind == 's' && all[end].text == "]" {
		return
	}
	depth := 0
	for end := open; end < len(all); end++ {
		switch all[end].text {
		case "[":
			depth++
		case "]":
			if depth--; depth == 0 {
				all[i].text, all[open].text, all[end].text = environFunc, "(", ")"
				return
			}
		}
	}
}

// escapeSlashes puts a backslash before the slashes in bracket expressions, which the library needs.
func escapeSlashes(expression string) string {
	if len(expression) < 2 {
		return expression
	}
	var b strings.Builder
	for i := 1; i < len(expression)-1; i++ {
		switch c := expression[i]; {
		case c == '\\':
			b.WriteString(expression[i : i+2])
			i++
		case c == '/':
			b.WriteString(`\/`)
		default:
			b.WriteByte(c)
		}
	}
	return expression[:1] + b.String() + expression[max(1, len(expression)-1):]
}

func blank(all []token) {
	for i := range all {
		all[i].text = ""
	}
}

// inspect looks for what cannot be the same on every machine.
func inspect(all []token) (environ []string, err error) {
	for i, t := range all {
		if t.kind != 'w' {
			continue
		}
		next := after(all, i)
		word := func(i int) string {
			if i < len(all) {
				return all[i].text
			}
			return ""
		}
		switch t.text {
		case "srand":
			if word(next) != "(" || word(after(all, next)) == ")" {
				return nil, fmt.Errorf("srand() by the clock %w", errRefused)
			}
		case "ARGV", "ARGC", "nextfile":
			return nil, fmt.Errorf("%s %w", t.text, errRefused)
		case "ENVIRON":
			if word(next) != "[" {
				return nil, fmt.Errorf("ENVIRON without an index %w", errRefused)
			}
			if name := after(all, next); name < len(all) && all[name].kind == 's' && word(after(all, name)) == "]" {
				environ = append(environ, strings.Trim(all[name].text, `"`))
			}
		}
		if strings.HasPrefix(t.text, own) {
			return nil, fmt.Errorf("a program with the name %s %w", t.text, errRefused)
		}
	}
	return environ, nil
}
