package fileutils

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"spore/builder/tree"
)

// dirSize is the size in bytes of a directory, as on ext4.
const dirSize = 4096

func stat(j *job) error {
	o, err := j.options("L|dereference c|format= printf=", permuted)
	if err != nil {
		return err
	}
	if len(o.operands) == 0 {
		return j.missing(nil)
	}
	format, end := "", "\n"
	switch o.lastOf("c", "printf") {
	case "c":
		format, _ = o.last("c")
	case "printf":
		format, _ = o.last("printf")
		if format, err = unescape(format); err != nil {
			return j.refuse(err.Error())
		}
		end = ""
	default:
		return j.refuse("a call without -c")
	}
	for _, name := range o.operands {
		n, err := j.look(name, o.has("L"))
		if err != nil {
			if err := j.soft(err, "cannot statx '%s'", name); err != nil {
				return err
			}
			continue
		}
		text, err := j.statText(format, name, n)
		if err != nil {
			return err
		}
		j.print(text + end)
	}
	return nil
}

// statText fills the directives of stat(1) in. A directive has flags, a width and a precision as those of printf.
func (j *job) statText(format, name string, n *tree.Inode) (string, error) {
	var out strings.Builder
	for format != "" {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			out.WriteString(format)
			break
		}
		out.WriteString(format[:i])
		format = format[i+1:]
		if format == "" {
			out.WriteByte('%')
			break
		}
		flags := format[:len(format)-len(strings.TrimLeft(format, "#-+0 123456789"))]
		format = format[len(flags):]
		if format == "" || strings.ContainsAny(flags, "#+ ") || len(flags) > 3 {
			return "", j.refuse("the format directive %" + flags)
		}
		if format[0] == '%' {
			out.WriteByte('%')
			format = format[1:]
			continue
		}
		value, err := j.statValue(format[0], name, n)
		if err != nil {
			return "", err
		}
		format = format[1:]
		switch v := value.(type) {
		case string:
			fmt.Fprintf(&out, "%"+strings.TrimLeft(flags, "0")+"s", v)
		case octalNumber:
			fmt.Fprintf(&out, "%"+flags+"o", uint32(v))
		case hexNumber:
			fmt.Fprintf(&out, "%"+flags+"x", uint32(v))
		default:
			fmt.Fprintf(&out, "%"+flags+"d", v)
		}
	}
	return out.String(), nil
}

type (
	octalNumber uint32
	hexNumber   uint32
)

func (j *job) statValue(directive byte, name string, n *tree.Inode) (any, error) {
	switch directive {
	case 'a':
		return octalNumber(n.Mode), nil
	case 'A':
		return modeText(n), nil
	case 'b':
		return (size(n) + 4095) / 4096 * 8, nil
	case 'B':
		return int64(512), nil
	case 'f':
		return hexNumber(kernelType(n.Type) | n.Mode), nil
	case 'F':
		return typeName(n), nil
	case 'g':
		return int64(n.GID), nil
	case 'G':
		return statName(j.names.GroupName(n.GID)), nil
	case 'h':
		return int64(j.linkCount(n)), nil
	case 'm':
		return "/", nil
	case 'n':
		return name, nil
	case 'N':
		if n.Type == tree.Symlink {
			return quoted(name) + " -> " + quoted(n.Target), nil
		}
		return quoted(name), nil
	case 's':
		return size(n), nil
	case 't':
		return hexNumber(n.Major), nil
	case 'T':
		return hexNumber(n.Minor), nil
	case 'u':
		return int64(n.UID), nil
	case 'U':
		return statName(j.names.UserName(n.UID)), nil
	case 'y':
		return time.Unix(n.MTime, 0).UTC().Format("2006-01-02 15:04:05.000000000 -0700"), nil
	case 'Y':
		return n.MTime, nil
	}
	return nil, j.refuse("the format directive %" + string(directive))
}

// statName is the name of an account as stat prints it: never a number.
func statName(name string) string {
	if name == "" {
		return "UNKNOWN"
	}
	return name
}

// size is st_size.
func size(n *tree.Inode) int64 {
	switch n.Type {
	case tree.Regular:
		return n.Content.Size()
	case tree.Symlink:
		return int64(len(n.Target))
	case tree.Dir:
		return dirSize
	}
	return 0
}

// kernelType is the type in st_mode (inode(7)).
func kernelType(t tree.Type) uint32 {
	return map[tree.Type]uint32{tree.Dir: 0o040000, tree.Regular: 0o100000, tree.Symlink: 0o120000,
		tree.CharDevice:  0o020000,
		tree.BlockDevice: 0o060000, tree.Fifo: 0o010000}[t]
}

func typeName(n *tree.Inode) string {
	if n.Type == tree.Regular && n.Content.Size() == 0 {
		return "regular empty file"
	}
	return map[tree.Type]string{tree.Dir: "directory", tree.Regular: "regular file", tree.Symlink: "symbolic link",
		tree.CharDevice: "character special file", tree.BlockDevice: "block special file", tree.Fifo: "fifo"}[n.Type]
}

// unescape replaces the backslash sequences of printf.
func unescape(text string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		i++
		if at := strings.IndexByte(`abefnrtv\"`, text[i]); at >= 0 {
			out.WriteByte("\a\b\x1b\f\n\r\t\v\\\""[at])
			continue
		}
		end := i
		for end < len(text) && end < i+3 && isOctal(text[end]) {
			end++
		}
		value, err := strconv.ParseUint(text[i:end], 8, 8)
		if err != nil {
			return "", fmt.Errorf("the escape \\%c in a format", text[i])
		}
		out.WriteByte(byte(value))
		i = end - 1
	}
	return out.String(), nil
}
