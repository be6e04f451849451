package fileutils

import (
	"strings"
)

// options are the arguments of a command as getopt_long(3) tells them apart.
type options struct {
	given    []option
	operands []string
}

type option struct {
	// name is the first of the option's names.
	name, value string
	// has tells whether there is a value: an option whose value is optional may have none.
	has bool
}

// permuted and inOrder say whether options may come after operands.
const (
	permuted = false
	inOrder  = true
)

// options reads the arguments. The known options are words of names with "|" between them; "=" after them stands for
// a value and "?" for an optional one: "f|force m|mode= backup?". A name of one letter is written with one dash.
func (j *job) options(known string, inOrder bool) (*options, error) {
	kinds := map[string]byte{}
	firsts := map[string]string{}
	for _, word := range strings.Fields(known) {
		kind := word[len(word)-1]
		if kind == '=' || kind == '?' {
			word = word[:len(word)-1]
		} else {
			kind = 0
		}
		first, _, _ := strings.Cut(word, "|")
		for _, name := range strings.Split(word, "|") {
			kinds[name], firsts[name] = kind, first
		}
	}
	o := &options{}
	for rest := j.Args; len(rest) > 0; {
		arg := rest[0]
		rest = rest[1:]
		switch {
		case arg == "--":
			o.operands = append(o.operands, rest...)
			return o, nil
		case strings.HasPrefix(arg, "--"):
			name, value, has := strings.Cut(arg[2:], "=")
			full := longName(kinds, name)
			kind, ok := kinds[full]
			switch {
			case !ok || has && kind == 0:
				return nil, j.unknown(arg)
			case kind == '=' && !has && len(rest) == 0:
				return nil, j.stop(1, "option '%s' requires an argument", arg)
			case kind == '=' && !has:
				value, has, rest = rest[0], true, rest[1:]
			}
			o.given = append(o.given, option{firsts[full], value, has})
		case len(arg) > 1 && arg[0] == '-':
			for i := 1; i < len(arg); i++ {
				name := arg[i : i+1]
				kind, ok := kinds[name]
				if !ok {
					return nil, j.unknown("-" + name)
				}
				opt := option{name: firsts[name]}
				if kind != 0 && i+1 < len(arg) {
					opt.value, opt.has, i = arg[i+1:], true, len(arg)
				} else if kind == '=' {
					if len(rest) == 0 {
						return nil, j.stop(1, "option requires an argument -- '%s'", name)
					}
					opt.value, opt.has, rest = rest[0], true, rest[1:]
				}
				o.given = append(o.given, opt)
			}
		case inOrder:
			o.operands = append(append(o.operands, arg), rest...)
			return o, nil
		default:
			o.operands = append(o.operands, arg)
		}
	}
	return o, nil
}

// longName completes the beginning of a long option's name, when only one begins so.
func longName(kinds map[string]byte, name string) string {
	if _, ok := kinds[name]; ok && len(name) > 1 {
		return name
	}
	found := ""
	for full := range kinds {
		if len(full) > 1 && strings.HasPrefix(full, name) {
			if found != "" {
				return ""
			}
			found = full
		}
	}
	return found
}

// has tells whether an option is given, by its first name.
func (o *options) has(name string) bool {
	_, ok := o.last(name)
	return ok
}

// last returns the value of an option that was given last.
func (o *options) last(name string) (string, bool) {
	for i := len(o.given) - 1; i >= 0; i-- {
		if o.given[i].name == name {
			return o.given[i].value, true
		}
	}
	return "", false
}

// lastOf returns which of some options was given last, or "".
func (o *options) lastOf(names ...string) string {
	for i := len(o.given) - 1; i >= 0; i-- {
		for _, name := range names {
			if o.given[i].name == name {
				return name
			}
		}
	}
	return ""
}
