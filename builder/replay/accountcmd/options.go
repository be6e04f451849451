package accountcmd

import (
	"fmt"
	"strings"

	"spore/builder/replay/command"
)

// style says how a command reads its options.
type style int

const (
	// gnu is getopt_long(3): options may follow operands.
	gnu style = iota
	// first is gnu up to the first operand.
	first
	// perl is Getopt::Long(3perl): one dash is as good as two, and there are no letters in a bundle.
	perl
)

// options are the options and operands of a call.
type options struct {
	// values has the last value of each option under its first name; an option without value is "".
	values   map[string]string
	operands []string
}

func (o options) has(name string) bool { _, ok := o.values[name]; return ok }

// option is one that a command knows.
type option struct {
	names []string
	// value says that it has one; maybe that it may be missing.
	value, maybe bool
}

// parse reads options. Each spec is names with commas between them, such as "quiet,q", with = at its end if the
// option has a value, and =? if the value may be missing. Unknown options end the replay.
func parse(c *command.Call, s style, specs ...string) (options, error) {
	known := make([]option, 0, len(specs))
	for _, spec := range specs {
		names, value, has := strings.Cut(spec, "=")
		known = append(known, option{strings.Split(names, ","), has, value == "?"})
	}
	o := options{values: map[string]string{}}
	args := c.Args
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			o.operands = append(o.operands, args...)
			return o, nil
		case arg == "-" || !strings.HasPrefix(arg, "-"):
			o.operands = append(o.operands, arg)
			if s == first {
				o.operands = append(o.operands, args...)
				return o, nil
			}
			continue
		}
		var err error
		if strings.HasPrefix(arg, "--") || s == perl {
			args, err = o.long(c, known, arg, args)
		} else {
			args, err = o.letters(c, known, arg, args)
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// long reads "--name", "--name=value" and "--name value"; a beginning that only one option has stands for it.
func (o *options) long(c *command.Call, known []option, arg string, args []string) ([]string, error) {
	name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	opt, ok := longOption(known, name)
	if !ok || has && !opt.value {
		_, err := c.Unknown(arg)
		return nil, err
	}
	if opt.value && !has {
		switch {
		case opt.maybe && (len(args) == 0 || strings.HasPrefix(args[0], "-")):
		case len(args) == 0:
			return nil, fmt.Errorf("%s: the option %s has no value", c.Name, arg)
		default:
			value, args = args[0], args[1:]
		}
	}
	o.values[opt.names[0]] = value
	return args, nil
}

func longOption(known []option, name string) (option, bool) {
	var found []option
	for _, opt := range known {
		begins := false
		for _, n := range opt.names {
			if n == name {
				return opt, true
			}
			begins = begins || len(n) > 1 && len(name) > 1 && strings.HasPrefix(n, name)
		}
		if begins {
			found = append(found, opt)
		}
	}
	if len(found) != 1 {
		return option{}, false
	}
	return found[0], true
}

// letters reads "-a", "-ab", "-avalue" and "-a value".
func (o *options) letters(c *command.Call, known []option, arg string, args []string) ([]string, error) {
	for i := 1; i < len(arg); i++ {
		opt, ok := letterOption(known, arg[i:i+1])
		if !ok {
			_, err := c.Unknown("-" + arg[i:i+1])
			return nil, err
		}
		if !opt.value {
			o.values[opt.names[0]] = ""
			continue
		}
		value := arg[i+1:]
		if value == "" {
			if len(args) == 0 {
				return nil, fmt.Errorf("%s: the option -%s has no value", c.Name, arg[i:i+1])
			}
			value, args = args[0], args[1:]
		}
		o.values[opt.names[0]] = value
		break
	}
	return args, nil
}

func letterOption(known []option, letter string) (option, bool) {
	for _, opt := range known {
		for _, n := range opt.names {
			if n == letter {
				return opt, true
			}
		}
	}
	return option{}, false
}
