package text

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/replay/text/getopt"
	"spore/builder/replay/text/stream"
)

// keep prints the message of a file that could not be written, and answers the error if it must end the replay.
func keep(c *command.Call, name string, err error) error {
	if errors.Is(err, files.ErrBound) || errors.Is(err, files.ErrRefused) {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	if err != nil {
		fmt.Fprintf(c.Stderr, "%s: %s: %s\n", c.Name, name, stream.Message(err))
	}
	return nil
}

// span is a range of positions from 1; to 0 is without end.
type span struct{ from, to int }

func spans(list string) ([]span, bool) {
	var out []span
	for _, item := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		from, to, isRange := strings.Cut(item, "-")
		s := span{from: 1}
		var err error
		if from != "" {
			if s.from, err = strconv.Atoi(from); err != nil || s.from < 1 {
				return nil, false
			}
		}
		switch {
		case !isRange:
			s.to = s.from
		case to != "":
			if s.to, err = strconv.Atoi(to); err != nil || s.to < s.from {
				return nil, false
			}
		case from == "":
			return nil, false
		}
		out = append(out, s)
	}
	return out, len(out) > 0
}

func within(all []span, n int) bool {
	for _, s := range all {
		if n >= s.from && (s.to == 0 || n <= s.to) {
			return true
		}
	}
	return false
}

// cut prints parts of lines.
func cut(_ context.Context, c *command.Call) (int, error) {
	options, names, err := getopt.Parse(c, getopt.Spec{Short: "d:f:c:b:sn", LongValues: "O", Long: map[string]rune{
		"delimiter": 'd', "fields": 'f', "characters": 'c', "bytes": 'b', "only-delimited": 's',
		"output-delimiter": 'O',
		"complement":       'C',
	}})
	if err != nil {
		return 0, err
	}
	delimiter, output, list := "\t", "", ""
	var mode rune
	var only, complement, given bool
	for _, o := range options {
		switch o.Letter {
		case 'd':
			if delimiter = o.Value; len(delimiter) != 1 {
				return c.Fail(1, "the delimiter must be a single character")
			}
		case 'O':
			output, given = o.Value, true
		case 's':
			only = true
		case 'C':
			complement = true
		case 'f', 'c', 'b':
			if mode != 0 {
				return c.Fail(1, "only one list may be specified")
			}
			mode, list = o.Letter, o.Value
		}
	}
	if mode == 0 {
		return c.Fail(1, "you must specify a list of bytes, characters, or fields")
	}
	chosen, ok := spans(list)
	if !ok {
		return c.Fail(1, "invalid field range: ‘%s’", list)
	}
	inputs, failed, err := stream.ReadAll(c, names)
	if err != nil {
		return 0, err
	}
	if !given && mode == 'f' {
		output = delimiter
	}
	for _, in := range inputs {
		for _, line := range stream.Bare(in.Data) {
			if mode != 'f' {
				fmt.Fprintln(c.Stdout, cutBytes(line, chosen, complement, output))
				continue
			}
			if !strings.Contains(line, delimiter) {
				if !only {
					fmt.Fprintln(c.Stdout, line)
				}
				continue
			}
			var out []string
			for i, f := range strings.Split(line, delimiter) {
				if within(chosen, i+1) != complement {
					out = append(out, f)
				}
			}
			fmt.Fprintln(c.Stdout, strings.Join(out, output))
		}
	}
	return status(failed), nil
}

func cutBytes(line string, chosen []span, complement bool, output string) string {
	var b strings.Builder
	last := -1
	for i := range len(line) {
		if within(chosen, i+1) == complement {
			continue
		}
		if last >= 0 && last < i-1 {
			b.WriteString(output)
		}
		last = i
		b.WriteByte(line[i])
	}
	return b.String()
}

// paste puts lines beside each other.
func paste(_ context.Context, c *command.Call) (int, error) {
	options, names, err := getopt.Parse(c, getopt.Spec{Short: "d:s", Long: map[string]rune{"delimiters": 'd',
		"serial": 's'}})
	if err != nil {
		return 0, err
	}
	delimiters, serial := []string{"\t"}, false
	for _, o := range options {
		if o.Letter == 's' {
			serial = true
		} else {
			delimiters = pasteDelimiters(o.Value)
		}
	}
	inputs, failed, err := stream.ReadAll(c, names)
	if err != nil {
		return 0, err
	}
	if failed {
		return 1, nil
	}
	columns := make([]*[]string, len(inputs))
	var standard []string // each - takes the next line of the same standard input
	for i, in := range inputs {
		lines := stream.Bare(in.Data)
		if columns[i] = &lines; in.Name == "-" {
			standard = append(standard, lines...)
			columns[i] = &standard
		}
		if serial {
			pasteRow(c, lines, delimiters)
		}
	}
	for !serial {
		row, more := make([]string, len(columns)), false
		for i, lines := range columns {
			if len(*lines) > 0 {
				row[i], *lines, more = (*lines)[0], (*lines)[1:], true
			}
		}
		if !more {
			break
		}
		pasteRow(c, row, delimiters)
	}
	return 0, nil
}

func pasteRow(c *command.Call, row, delimiters []string) {
	for i, s := range row {
		if i > 0 {
			fmt.Fprint(c.Stdout, delimiters[(i-1)%len(delimiters)])
		}
		fmt.Fprint(c.Stdout, s)
	}
	fmt.Fprintln(c.Stdout)
}

func pasteDelimiters(s string) (out []string) {
	for i := 0; i < len(s); i++ {
		d := s[i : i+1]
		if d == `\` && i+1 < len(s) {
			i++
			d = map[byte]string{'n': "\n", 't': "\t", '0': ""}[s[i]]
			if d == "" && s[i] != '0' {
				d = s[i : i+1]
			}
		}
		out = append(out, d)
	}
	if len(out) == 0 {
		return []string{""}
	}
	return out
}

// two reads the two files of comm, join, cmp and diff.
func two(c *command.Call, names []string, failure int) (a, b []byte, status int, err error) {
	if len(names) != 2 {
		status, _ := c.Fail(failure, "two files must be named")
		return nil, nil, status, nil
	}
	var data [2][]byte
	for i, name := range names {
		if data[i], err = stream.Read(c, name); errors.Is(err, files.ErrBound) {
			return nil, nil, 0, err
		}
		if err != nil {
			status, _ = c.Fail(failure, "%s: %s", name, stream.Message(err))
			return nil, nil, status, nil
		}
	}
	return data[0], data[1], 0, nil
}

// comm compares two sorted files.
func comm(_ context.Context, c *command.Call) (int, error) {
	options, names, err := getopt.Parse(c, getopt.Spec{Short: "123", Long: map[string]rune{"nocheck-order": 'k'}})
	if err != nil {
		return 0, err
	}
	hide := map[rune]bool{}
	for _, o := range options {
		hide[o.Letter] = true
	}
	left, right, failed, err := two(c, names, 1)
	if err != nil || failed != 0 {
		return failed, err
	}
	indent2, indent3 := "\t", "\t\t"
	if hide['1'] {
		indent2, indent3 = "", "\t"
	}
	if hide['2'] {
		indent3 = strings.TrimPrefix(indent3, "\t")
	}
	print := func(column rune, indent, line string) {
		if !hide[column] {
			fmt.Fprintln(c.Stdout, indent+line)
		}
	}
	a, b := stream.Bare(left), stream.Bare(right)
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			print('1', "", a[0])
			a = a[1:]
		case len(a) == 0 || b[0] < a[0]:
			print('2', indent2, b[0])
			b = b[1:]
		default:
			print('3', indent3, a[0])
			a, b = a[1:], b[1:]
		}
	}
	return 0, nil
}

// join prints the lines of two sorted files that have a field in common.
func join(_ context.Context, c *command.Call) (int, error) {
	options, names, err := getopt.Parse(c, getopt.Spec{Short: "t:1:2:j:a:v:"})
	if err != nil {
		return 0, err
	}
	separator, key1, key2 := "", 1, 1
	alone, only := map[string]bool{}, false
	for _, o := range options {
		n, err := strconv.Atoi(o.Value)
		if o.Letter != 't' && (err != nil || n < 1) {
			return c.Fail(1, "invalid field number: ‘%s’", o.Value)
		}
		switch o.Letter {
		case 't':
			separator = o.Value
		case '1':
			key1 = n
		case '2':
			key2 = n
		case 'j':
			key1, key2 = n, n
		case 'a':
			alone[o.Value] = true
		case 'v':
			alone[o.Value], only = true, true
		}
	}
	left, right, failed, err := two(c, names, 1)
	if err != nil || failed != 0 {
		return failed, err
	}
	j := joiner{c: c, separator: separator, out: separator}
	if separator == "" {
		j.out = " "
	}
	a, b := j.rows(left, key1), j.rows(right, key2)
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].key < b[0].key:
			if alone["1"] {
				j.print(a[0].key, a[0].rest)
			}
			a = a[1:]
		case len(a) == 0 || b[0].key < a[0].key:
			if alone["2"] {
				j.print(b[0].key, b[0].rest)
			}
			b = b[1:]
		default:
			key, same := a[0].key, 0
			for same < len(b) && b[same].key == key {
				same++
			}
			for ; len(a) > 0 && a[0].key == key; a = a[1:] {
				for _, r := range b[:same] {
					if !only {
						j.print(key, append(append([]string{}, a[0].rest...), r.rest...))
					}
				}
			}
			b = b[same:]
		}
	}
	return 0, nil
}

type joiner struct {
	c              *command.Call
	separator, out string
}

type joinRow struct {
	key  string
	rest []string
}

func (j joiner) rows(data []byte, key int) (out []joinRow) {
	for _, line := range stream.Bare(data) {
		fields := strings.Fields(line)
		if j.separator != "" {
			fields = strings.Split(line, j.separator)
		}
		var r joinRow
		for i, f := range fields {
			if i+1 == key {
				r.key = f
			} else {
				r.rest = append(r.rest, f)
			}
		}
		out = append(out, r)
	}
	return out
}

func (j joiner) print(key string, rest []string) {
	fmt.Fprintln(j.c.Stdout, strings.Join(append([]string{key}, rest...), j.out))
}
