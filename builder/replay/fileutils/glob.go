package fileutils

import (
	"fmt"
	"regexp"
	"strings"
)

// glob makes a regular expression of a pattern of fnmatch(3) without flags: "*" and "?" match "/" and a dot in front
// too.
func glob(pattern string, ignoreCase bool) (*regexp.Regexp, error) {
	var out strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			out.WriteString(".*")
		case '?':
			out.WriteByte('.')
		case '[':
			class, length, err := bracket(pattern[i:], true)
			if err != nil {
				return nil, err
			}
			if length == 0 {
				out.WriteString(`\[`)
				continue
			}
			out.WriteString(class)
			i += length - 1
		case '\\':
			if i++; i < len(pattern) {
				out.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
			} else {
				out.WriteString(`\\`)
			}
		default:
			end := i + 1
			for end < len(pattern) && !strings.ContainsRune(`*?[\`, rune(pattern[end])) {
				end++
			}
			out.WriteString(regexp.QuoteMeta(pattern[i:end]))
			i = end - 1
		}
	}
	return compile(out.String(), ignoreCase)
}

func compile(expression string, ignoreCase bool) (*regexp.Regexp, error) {
	flags := "(?s)"
	if ignoreCase {
		flags = "(?si)"
	}
	return regexp.Compile(flags + `\A(?:` + expression + `)\z`)
}

// bracket translates a bracket expression at the beginning of a text (POSIX.1-2017, 9.3.5); its length is 0 when it
// does not end. In patterns a backslash protects, in regular expressions it is itself.
func bracket(text string, isGlob bool) (string, int, error) {
	var out strings.Builder
	out.WriteByte('[')
	i := 1
	if i < len(text) && (text[i] == '^' || isGlob && text[i] == '!') {
		out.WriteByte('^')
		i++
	}
	for start := i; i < len(text); i++ {
		switch c := text[i]; {
		case c == ']' && i > start:
			out.WriteByte(']')
			return out.String(), i + 1, nil
		case c == '[' && i+1 < len(text) && text[i+1] == ':':
			end := strings.Index(text[i:], ":]")
			if end < 0 {
				return "", 0, nil
			}
			out.WriteString(text[i : i+end+2])
			i += end + 1
		case c == '[' && i+1 < len(text) && (text[i+1] == '.' || text[i+1] == '='):
			return "", 0, fmt.Errorf("the collating element in %q is not replayed", text)
		case c == '\\' && isGlob && i+1 < len(text):
			i++
			quoteInBracket(&out, text[i])
		case c == '-' && i > start && i+1 < len(text) && text[i+1] != ']':
			out.WriteByte('-')
		default:
			if c >= 0x80 { // a character of several bytes stays as it is
				out.WriteByte(c)
				continue
			}
			quoteInBracket(&out, c)
		}
	}
	return "", 0, nil
}

func quoteInBracket(out *strings.Builder, c byte) {
	if strings.IndexByte(`[]\^-&~`, c) >= 0 {
		out.WriteByte('\\')
	}
	out.WriteByte(c)
}

// Regular expressions of find: emacs is the default, posix-extended that of egrep.
const (
	emacs    = "emacs"
	extended = "posix-extended"
	basic    = "posix-basic"
)

// posixRegexp translates a regular expression of a type to Go's syntax. What differs is which of the operators need a
// backslash.
func posixRegexp(text, kind string, ignoreCase bool) (*regexp.Regexp, error) {
	plain := map[string]string{emacs: "*+?.^$", extended: "*+?.^$(){}|", basic: "*.^$"}[kind]
	escaped := map[string]string{emacs: "()|", extended: "", basic: "(){}|+?"}[kind]
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '[':
			class, length, err := bracket(text[i:], false)
			if err != nil {
				return nil, err
			}
			if length == 0 {
				return nil, fmt.Errorf("unmatched [ in %q", text)
			}
			out.WriteString(class)
			i += length - 1
		case c == '\\' && i+1 < len(text):
			i++
			switch e := text[i]; {
			case strings.IndexByte(escaped, e) >= 0:
				out.WriteByte(e)
			case e >= '0' && e <= '9' || e >= 'a' && e <= 'z' || e >= 'A' && e <= 'Z' || e == '<' || e == '>' ||
				e == '`' || e == '\'':
				return nil, fmt.Errorf("the operator \\%c of a regular expression is not replayed", e)
			default:
				out.WriteString(regexp.QuoteMeta(string(e)))
			}
		case strings.IndexByte(plain, c) >= 0:
			out.WriteByte(c)
		case c < 0x80:
			out.WriteString(regexp.QuoteMeta(string(rune(c))))
		default:
			out.WriteByte(c)
		}
	}
	return compile(out.String(), ignoreCase)
}
