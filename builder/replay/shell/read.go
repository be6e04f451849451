package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// maxLine bounds one line that a script reads, in bytes.
const maxLine = 1 << 20

// readsHere tells whether read(1) is called as POSIX has it: with names, and no option but -r.
func readsHere(args []string) bool {
	for i, a := range args[1:] {
		if strings.HasPrefix(a, "-") && !(a == "-r" && i == 0) {
			return false
		}
	}
	return len(args) > 1 && args[len(args)-1] != "-r"
}

// read is read(1) of POSIX. That of the interpreter takes every character of IFS for a blank, so that an empty first
// field is lost (mvdan/sh, seen with v3.14.1): update-shells(8) of Debian depends on it.
func (l *level) read(ctx context.Context, args []string) ([]string, error) {
	hc := interp.HandlerCtx(ctx)
	raw, names := false, args[1:]
	if names[0] == "-r" {
		raw, names = true, names[1:]
	}
	line, whole, err := readLine(hc.Stdin, raw)
	if err != nil {
		return nil, l.at(ctx, fmt.Errorf("read: %w", err))
	}
	ifs := " \t\n"
	if v := hc.Env.Get("IFS"); v.IsSet() {
		ifs = v.String()
	}
	var out strings.Builder
	for i, value := range splitFields(line, ifs, len(names)) {
		quoted, err := syntax.Quote(value, syntax.LangBash)
		if err != nil {
			return nil, l.at(ctx, fmt.Errorf("read %q: %w", value, err))
		}
		if !syntax.ValidName(names[i]) {
			return nil, l.at(ctx, fmt.Errorf("read: %q is not a name", names[i]))
		}
		fmt.Fprintf(&out, "%s=%s; ", names[i], quoted)
	}
	status := 0
	if !whole {
		status = 1
	}
	fmt.Fprintf(&out, "spore-status %d", status)
	return []string{"eval", out.String()}, nil
}

// readLine reads up to a line feed, byte by byte, so that the next command finds the rest. Without raw, a backslash
// keeps the character behind it, and is marked by a NUL before that; one before a line feed joins two lines.
func readLine(r io.Reader, raw bool) (line string, whole bool, err error) {
	var out []byte
	b := make([]byte, 1)
	escaped := false
	for {
		n, err := r.Read(b)
		switch {
		case n == 0 && (err == nil || errors.Is(err, io.EOF)):
			if err == nil {
				continue
			}
			return string(out), false, nil
		case n == 0:
			return "", false, err
		case len(out) > maxLine:
			return "", false, fmt.Errorf("a line of over %d bytes: %w", maxLine, ErrBound)
		case escaped && b[0] == '\n':
			escaped = false
		case escaped:
			out = append(out, 0, b[0])
			escaped = false
		case b[0] == '\\' && !raw:
			escaped = true
		case b[0] == '\n':
			return string(out), true, nil
		case b[0] != 0:
			out = append(out, b[0])
		}
	}
}

// splitFields splits a line into n fields (POSIX, Shell Command Language 2.6.5, and read): blanks of ifs at both ends
// and around fields go, each other character of it ends a field, and the last field has all that is left.
func splitFields(line, ifs string, n int) []string {
	blank := func(c byte) bool { return strings.IndexByte(ifs, c) >= 0 && strings.IndexByte(" \t\n", c) >= 0 }
	stop := func(c byte) bool { return strings.IndexByte(ifs, c) >= 0 }
	i := 0
	skip := func() {
		for i < len(line) && blank(line[i]) {
			i++
		}
	}
	next := func() string {
		start := i
		for i < len(line) && !stop(line[i]) {
			if line[i] == 0 {
				i++
			}
			i++
		}
		i = min(i, len(line))
		return line[start:i]
	}
	delimiter := func() {
		skip()
		if i < len(line) && stop(line[i]) && !blank(line[i]) {
			i++
			skip()
		}
	}
	out := make([]string, n)
	skip()
	for f := range n - 1 {
		out[f] = plain(next())
		delimiter()
	}
	start := i
	last := next()
	delimiter()
	if i < len(line) { // more than one field is left: it stays as it is
		last = line[start:]
		for len(last) > 0 && blank(last[len(last)-1]) && (len(last) < 2 || last[len(last)-2] != 0) {
			last = last[:len(last)-1]
		}
	}
	out[n-1] = plain(last)
	return out
}

func plain(s string) string { return strings.ReplaceAll(s, "\x00", "") }
