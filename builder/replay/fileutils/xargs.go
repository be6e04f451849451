package fileutils

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxCommand is the length in bytes of a command line that xargs makes, unless -s says less: that of findutils.
const maxCommand = 128 << 10

type xargser struct {
	*job
	command           []string
	replace           string
	skipEmpty, trace  bool
	maxArgs, maxLines int
	maxChars          int
}

func xargs(j *job) error {
	o, err := j.options("0|null r|no-run-if-empty n|max-args= L= l|max-lines? I= i|replace? d|delimiter= "+
		"t|verbose P|max-procs= "+
		"s|max-chars= a|arg-file= x|exit", inOrder)
	if err != nil {
		return err
	}
	x := &xargser{job: j, command: o.operands, skipEmpty: o.has("r"), trace: o.has("t"), maxChars: maxCommand}
	if len(x.command) == 0 {
		x.command = []string{"echo"}
	}
	delimiter, quoting := byte(0), true
	for _, opt := range o.given {
		switch opt.name {
		case "0":
			delimiter, quoting = 0, false
		case "d":
			text, err := unescape(opt.value)
			if err != nil || len(text) != 1 {
				return j.stop(1, "invalid input delimiter specification %s", opt.value)
			}
			delimiter, quoting = text[0], false
		default:
			if err := x.option(opt); err != nil {
				return err
			}
		}
	}
	data, err := x.input(o)
	if err != nil {
		return err
	}
	lines, err := splitItems(data, quoting, delimiter, x.replace != "")
	if err != nil {
		return x.stop(1, "%s", err)
	}
	return x.run(lines)
}

// option takes the options about numbers; of -I, -L and -n the last one counts.
func (x *xargser) option(opt option) error {
	count := func() (int, error) {
		n, err := strconv.Atoi(opt.value)
		if err == nil && n < 1 {
			return 0, x.stop(1, "value %d for -%s option should be >= 1", n, opt.name)
		}
		if err != nil {
			return 0, x.stop(1, "invalid number \"%s\" for -%s option", opt.value, opt.name)
		}
		return n, nil
	}
	var err error
	switch opt.name {
	case "n":
		x.maxLines = 0
		x.maxArgs, err = count()
		if x.maxArgs == 1 && x.replace != "" {
			x.maxArgs = 0
			return err
		}
		x.replace = ""
	case "L", "l":
		x.maxArgs, x.replace = 0, ""
		if !opt.has {
			x.maxLines = 1
			return nil
		}
		x.maxLines, err = count()
	case "I", "i":
		x.maxArgs, x.maxLines = 0, 0
		if x.replace = opt.value; opt.value == "" {
			x.replace = "{}"
		}
	case "s":
		x.maxChars, err = count()
		x.maxChars = min(x.maxChars, maxCommand)
	case "P": // one after the other: the result must not hang on their race
		if _, err := strconv.Atoi(opt.value); err != nil {
			return x.stop(1, "invalid number \"%s\" for -P option", opt.value)
		}
	}
	return err
}

func (x *xargser) input(o *options) ([]byte, error) {
	name, ok := o.last("a")
	if !ok || name == "-" {
		return read(x.Stdin)
	}
	data, err := x.Files.ReadFile(x.abs(name))
	if err != nil && !hard(err) {
		return nil, x.stop(1, "Cannot open input file '%s': %s", name, reason(err))
	}
	return data, err
}

// splitItems reads the items of each line. With quoting, blanks separate items, quotes and backslashes protect, and a
// blank at the end of a line joins the next one to it; else a delimiter ends each item. With whole, a line is one
// item.
func splitItems(data []byte, quoting bool, delimiter byte, whole bool) ([][]string, error) {
	if !quoting {
		var out [][]string
		text := string(data)
		for text != "" {
			item, rest, _ := strings.Cut(text, string([]byte{delimiter}))
			out = append(out, []string{item})
			text = rest
		}
		return out, nil
	}
	var lines [][]string
	var line []string
	var item []byte
	inItem := false
	endItem := func() {
		if inItem {
			line = append(line, string(item))
		}
		item, inItem = nil, false
	}
	for i := 0; i < len(data); i++ {
		b := data[i]
		switch {
		case b == '\n':
			trailing := i > 0 && (data[i-1] == ' ' || data[i-1] == '\t') && len(line) > 0 && !inItem && !whole
			endItem()
			if len(line) > 0 && !trailing {
				lines = append(lines, line)
				line = nil
			}
		case b == ' ' || b == '\t':
			if whole && inItem {
				item = append(item, b)
			} else {
				endItem()
			}
		case b == '\'' || b == '"':
			end := bytes.IndexAny(data[i+1:], string([]byte{b, '\n'}))
			if end < 0 || data[i+1+end] == '\n' {
				kind := map[byte]string{'\'': "single", '"': "double"}[b]
				return nil, fmt.Errorf("unmatched %s quote; by default quotes are special to xargs unless you use "+
					"the -0 option", kind)
			}
			item, inItem = append(item, data[i+1:i+1+end]...), true
			i += end + 1
		case b == '\\':
			if i++; i == len(data) {
				return nil, errors.New("backslash at EOF")
			}
			item, inItem = append(item, data[i]), true
		default:
			item, inItem = append(item, b), true
		}
	}
	endItem()
	if len(line) > 0 {
		lines = append(lines, line)
	}
	return lines, nil
}

func (x *xargser) run(lines [][]string) error {
	if x.replace != "" {
		for _, line := range lines {
			args := make([]string, len(x.command))
			for i, arg := range x.command {
				args[i] = arg
				if i > 0 {
					args[i] = strings.ReplaceAll(arg, x.replace, line[0])
				}
			}
			if err := x.once(args); err != nil {
				return err
			}
		}
		return nil
	}
	batch := append([]string{}, x.command...)
	count, inLines, length := 0, 0, commandLength(x.command)
	ran := false
	flush := func() error {
		args := batch
		batch, count, inLines, length, ran = append([]string{}, x.command...), 0, 0, commandLength(x.command), true
		return x.once(args)
	}
	for _, line := range lines {
		for _, item := range line {
			if count > 0 && length+len(item)+1 > x.maxChars {
				if err := flush(); err != nil {
					return err
				}
			}
			if length+len(item)+1 > x.maxChars {
				return x.stop(1, "argument line too long")
			}
			batch = append(batch, item)
			length += len(item) + 1
			if count++; count == x.maxArgs {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		if inLines++; inLines == x.maxLines && count > 0 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if count > 0 || !ran && !x.skipEmpty {
		return flush()
	}
	return nil
}

func commandLength(args []string) int {
	length := 0
	for _, arg := range args {
		length += len(arg) + 1
	}
	return length
}

// once runs the command and takes its status into that of xargs.
func (x *xargser) once(args []string) error {
	if err := x.ctx.Err(); err != nil {
		return err
	}
	if x.trace {
		fmt.Fprintln(x.Stderr, strings.Join(args, " "))
	}
	status, err := x.Run(x.ctx, args, strings.NewReader(""), x.Stdout)
	switch {
	case err != nil:
		return err
	case status == 255:
		return x.stop(124, "%s: exited with status 255; aborting", args[0])
	case status == 126 || status == 127:
		x.status = status
		return errStop
	case status != 0:
		x.status = 123
	}
	return nil
}
