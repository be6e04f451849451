package text

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spore/builder/replay/command"
	"spore/builder/replay/text/getopt"
	"spore/builder/replay/text/stream"
)

func status(failed bool) int {
	if failed {
		return 1
	}
	return 0
}

// cat prints files one after the other.
func cat(_ context.Context, c *command.Call) (int, error) {
	options, names, err := getopt.Parse(c, getopt.Spec{Short: "nbEeTtvAsu", Long: map[string]rune{
		"number": 'n', "number-nonblank": 'b', "show-ends": 'E', "show-tabs": 'T', "show-nonprinting": 'v',
		"show-all":      'A',
		"squeeze-blank": 's',
	}})
	if err != nil {
		return 0, err
	}
	var number, nonblank, ends, tabs, visible, squeeze bool
	for _, o := range options {
		switch o.Letter {
		case 'n':
			number = true
		case 'b':
			nonblank = true
		case 's':
			squeeze = true
		}
		ends = ends || strings.ContainsRune("EeA", o.Letter)
		tabs = tabs || strings.ContainsRune("TtA", o.Letter)
		visible = visible || strings.ContainsRune("etvA", o.Letter)
	}
	inputs, failed, err := stream.ReadAll(c, names)
	if err != nil {
		return 0, err
	}
	count, blank := 0, false
	for _, in := range inputs {
		if !number && !nonblank && !ends && !tabs && !visible && !squeeze {
			c.Stdout.Write(in.Data)
			continue
		}
		for _, line := range stream.Lines(in.Data) {
			empty := len(line) == 1 && line[0] == '\n'
			if squeeze && empty && blank {
				continue
			}
			if blank = empty; nonblank && !empty || number && !nonblank {
				count++
				fmt.Fprintf(c.Stdout, "%6d\t", count)
			}
			c.Stdout.Write(show(line, visible, tabs, ends))
		}
	}
	return status(failed), nil
}

// show makes bytes visible that are not printed.
func show(line []byte, visible, tabs, ends bool) []byte {
	var out []byte
	for _, b := range line {
		switch {
		case b == '\n' && ends:
			out = append(out, "$\n"...)
		case b == '\n', b == '\t' && !tabs:
			out = append(out, b)
		case b == '\t':
			out = append(out, "^I"...)
		case !visible:
			out = append(out, b)
		default:
			if b >= 128 {
				out = append(out, "M-"...)
				b -= 128
			}
			if b < 32 || b == 127 {
				out = append(out, '^', b^64)
			} else {
				out = append(out, b)
			}
		}
	}
	return out
}

// tac prints lines in the reverse order.
func tac(_ context.Context, c *command.Call) (int, error) {
	_, names, err := getopt.Parse(c, getopt.Spec{})
	if err != nil {
		return 0, err
	}
	inputs, failed, err := stream.ReadAll(c, names)
	if err != nil {
		return 0, err
	}
	for _, in := range inputs {
		for _, line := range slices.Backward(stream.Lines(in.Data)) {
			c.Stdout.Write(line)
		}
	}
	return status(failed), nil
}

// obsolete turns the old form -NUM, and +NUM for tail, into -n NUM.
func obsolete(c *command.Call, signs string) *command.Call {
	call := *c
	if len(c.Args) == 0 {
		return c
	}
	first := c.Args[0]
	if len(first) < 2 || strings.IndexByte(signs, first[0]) < 0 || first[1] < '0' || first[1] > '9' {
		return c
	}
	number := strings.TrimRight(first, "cln")
	option := "-n"
	if strings.HasSuffix(first, "c") {
		option = "-c"
	}
	if first[0] == '-' {
		number = number[1:]
	}
	call.Args = append([]string{option, number}, c.Args[1:]...)
	return &call
}

// part is what head and tail take of their inputs.
type part struct {
	bytes, quiet, verbose bool
	sign                  byte // the sign before the number, 0 none
	n                     int
}

func readPart(c *command.Call, signs string) (p part, names []string, status int, err error) {
	options, names, err := getopt.Parse(obsolete(c, signs), getopt.Spec{Short: "n:c:qv", Long: map[string]rune{
		"lines": 'n', "bytes": 'c', "quiet": 'q', "silent": 'q', "verbose": 'v',
	}})
	if err != nil {
		return p, nil, 0, err
	}
	p.n = 10
	for _, o := range options {
		switch o.Letter {
		case 'q':
			p.quiet, p.verbose = true, false
		case 'v':
			p.quiet, p.verbose = false, true
		default:
			p.bytes, p.sign = o.Letter == 'c', 0
			number := o.Value
			if number != "" && (number[0] == '-' || number[0] == '+') {
				p.sign, number = number[0], number[1:]
			}
			var ok bool
			if p.n, ok = size(number); !ok {
				what := map[bool]string{true: "bytes", false: "lines"}[p.bytes]
				status, _ := c.Fail(1, "invalid number of %s: ‘%s’", what, o.Value)
				return p, nil, status, nil
			}
		}
	}
	return p, names, 0, nil
}

// size reads a number with one of the suffixes b, K, M, G, KB, kB, MB.
func size(s string) (int, bool) {
	digits := strings.TrimRight(s, "bkKMGBi")
	n, err := strconv.Atoi(digits)
	factor, ok := map[string]int{"": 1, "b": 512, "K": 1 << 10, "k": 1 << 10, "KiB": 1 << 10, "kB": 1000, "KB": 1000,
		"M": 1 << 20, "MiB": 1 << 20, "MB": 1_000_000, "G": 1 << 30}[s[len(digits):]]
	if err != nil || n < 0 || !ok || n > 1<<40 {
		return 0, false
	}
	return n * factor, true
}

// each prints a part of each input with headers where there are several.
func (p part) each(c *command.Call, names []string, take func(data []byte) []byte) (int, error) {
	inputs, failed, err := stream.ReadAll(c, names)
	if err != nil {
		return 0, err
	}
	for i, in := range inputs {
		if p.verbose || len(names) > 1 && !p.quiet {
			if i > 0 {
				fmt.Fprintln(c.Stdout)
			}
			name := in.Name
			if name == "-" {
				name = "standard input"
			}
			fmt.Fprintf(c.Stdout, "==> %s <==\n", name)
		}
		c.Stdout.Write(take(in.Data))
	}
	return status(failed), nil
}

// cutAt is the length of the first n units, bytes or lines, of data.
func (p part) cutAt(data []byte, n int) int {
	if p.bytes {
		return min(max(n, 0), len(data))
	}
	at := 0
	for ; n > 0 && at < len(data); n-- {
		i := bytes.IndexByte(data[at:], '\n')
		if i < 0 {
			return len(data)
		}
		at += i + 1
	}
	return at
}

// units is how many units data has.
func (p part) units(data []byte) int {
	if p.bytes {
		return len(data)
	}
	return len(stream.Lines(data))
}

// head prints the first part of files.
func head(_ context.Context, c *command.Call) (int, error) {
	p, names, status, err := readPart(c, "-")
	if err != nil || status != 0 {
		return status, err
	}
	return p.each(c, names, func(data []byte) []byte {
		n := p.n
		if p.sign == '-' {
			n = p.units(data) - p.n
		}
		return data[:p.cutAt(data, n)]
	})
}

// tail prints the last part of files.
func tail(_ context.Context, c *command.Call) (int, error) {
	p, names, status, err := readPart(c, "-+")
	if err != nil || status != 0 {
		return status, err
	}
	return p.each(c, names, func(data []byte) []byte {
		n := p.n - 1
		if p.sign != '+' {
			n = p.units(data) - p.n
		}
		return data[p.cutAt(data, n):]
	})
}

// wc counts lines, words and bytes.
func wc(_ context.Context, c *command.Call) (int, error) {
	options, names, err := getopt.Parse(c, getopt.Spec{Short: "lwcmL", Long: map[string]rune{
		"lines": 'l', "words": 'w', "bytes": 'c', "chars": 'm', "max-line-length": 'L',
	}})
	if err != nil {
		return 0, err
	}
	chosen := map[rune]bool{}
	for _, o := range options {
		chosen[o.Letter] = true
	}
	if len(chosen) == 0 {
		chosen = map[rune]bool{'l': true, 'w': true, 'c': true}
	}
	inputs, failed, err := stream.ReadAll(c, names)
	if err != nil {
		return 0, err
	}
	var rows [][]int
	total := make([]int, 5)
	for _, in := range inputs {
		row := counts(in.Data)
		for i, n := range row {
			total[i] += n
		}
		total[4] = max(total[4]-row[4], row[4])
		rows = append(rows, row)
	}
	width := wcWidth(len(chosen), names, total[3])
	for i, row := range rows {
		name := inputs[i].Name
		if len(names) == 0 {
			name = ""
		}
		wcRow(c, chosen, row, width, name)
	}
	if len(names) > 1 {
		wcRow(c, chosen, total, width, "total")
	}
	return status(failed), nil
}

func wcWidth(columns int, names []string, largest int) int {
	switch {
	case columns == 1 && len(names) < 2:
		return 1
	case len(names) == 0 || slices.Contains(names, "-"):
		return 7
	}
	return len(strconv.Itoa(largest))
}

// counts answers lines, words, characters, bytes and the longest line.
func counts(data []byte) []int {
	longest := 0
	for _, l := range stream.Lines(data) {
		longest = max(longest, len(bytes.TrimSuffix(l, []byte("\n"))))
	}
	words := len(bytes.FieldsFunc(data, func(r rune) bool { return r == ' ' || r >= '\t' && r <= '\r' }))
	return []int{bytes.Count(data, []byte("\n")), words, len(data), len(data), longest}
}

func wcRow(c *command.Call, chosen map[rune]bool, row []int, width int, name string) {
	var fields []string
	for i, letter := range "lwmcL" {
		if chosen[letter] {
			fields = append(fields, fmt.Sprintf("%*d", width, row[i]))
		}
	}
	if name != "" {
		fields = append(fields, name)
	}
	fmt.Fprintln(c.Stdout, strings.Join(fields, " "))
}

// nl numbers lines.
func nl(_ context.Context, c *command.Call) (int, error) {
	options, names, err := getopt.Parse(c, getopt.Spec{Short: "b:w:s:v:n:", Long: map[string]rune{
		"body-numbering": 'b', "number-width": 'w', "number-separator": 's', "starting-line-number": 'v',
		"number-format": 'n',
	}})
	if err != nil {
		return 0, err
	}
	body, width, separator, number, format := "t", 6, "\t", 1, "%*d"
	for _, o := range options {
		n, numeric := strconv.Atoi(o.Value)
		switch {
		case o.Letter == 'b' && (o.Value == "a" || o.Value == "t" || o.Value == "n"):
			body = o.Value
		case o.Letter == 'w' && numeric == nil && n > 0 && n < 100:
			width = n
		case o.Letter == 's':
			separator = o.Value
		case o.Letter == 'v' && numeric == nil:
			number = n
		case o.Letter == 'n' && o.Value == "ln":
			format = "%-*d"
		case o.Letter == 'n' && o.Value == "rz":
			format = "%0*d"
		case o.Letter == 'n' && o.Value == "rn":
			format = "%*d"
		default:
			return c.Unknown("-" + string(o.Letter) + " " + o.Value)
		}
	}
	inputs, failed, err := stream.ReadAll(c, names)
	if err != nil {
		return 0, err
	}
	for _, in := range inputs {
		for _, line := range stream.Bare(in.Data) {
			if body == "n" || body == "t" && line == "" {
				fmt.Fprintf(c.Stdout, "%s%s\n", strings.Repeat(" ", width+len(separator)), line)
				continue
			}
			fmt.Fprintf(c.Stdout, format+"%s%s\n", width, number, separator, line)
			number++
		}
	}
	return status(failed), nil
}

// fold breaks long lines.
func fold(_ context.Context, c *command.Call) (int, error) {
	options, names, err := getopt.Parse(c, getopt.Spec{Short: "sbw:", Long: map[string]rune{
		"spaces": 's', "bytes": 'b', "width": 'w',
	}})
	if err != nil {
		return 0, err
	}
	width, spaces := 80, false
	for _, o := range options {
		switch o.Letter {
		case 's':
			spaces = true
		case 'w':
			if width, err = strconv.Atoi(o.Value); err != nil || width < 1 {
				return c.Fail(1, "invalid number of columns: ‘%s’", o.Value)
			}
		}
	}
	inputs, failed, err := stream.ReadAll(c, names)
	if err != nil {
		return 0, err
	}
	for _, in := range inputs {
		for _, line := range stream.Lines(in.Data) {
			for len(bytes.TrimSuffix(line, []byte("\n"))) > width {
				at := width
				if i := bytes.LastIndexAny(line[:width], " \t"); spaces && i >= 0 {
					at = i + 1
				}
				fmt.Fprintf(c.Stdout, "%s\n", line[:at])
				line = line[at:]
			}
			c.Stdout.Write(line)
		}
	}
	return status(failed), nil
}

// rev prints each line from its end to its begin.
func rev(_ context.Context, c *command.Call) (int, error) {
	_, names, err := getopt.Parse(c, getopt.Spec{})
	if err != nil {
		return 0, err
	}
	inputs, failed, err := stream.ReadAll(c, names)
	if err != nil {
		return 0, err
	}
	for _, in := range inputs {
		for _, line := range stream.Lines(in.Data) {
			bare := bytes.TrimSuffix(line, []byte("\n"))
			end := line[len(bare):]
			bare = bytes.Clone(bare)
			slices.Reverse(bare)
			c.Stdout.Write(append(bare, end...))
		}
	}
	return status(failed), nil
}

// tee prints its input and writes it to files.
func tee(_ context.Context, c *command.Call) (int, error) {
	options, names, err := getopt.Parse(c, getopt.Spec{Short: "ai", Long: map[string]rune{
		"append": 'a', "ignore-interrupts": 'i',
	}})
	if err != nil {
		return 0, err
	}
	appended := false
	for _, o := range options {
		appended = appended || o.Letter == 'a'
	}
	data, err := stream.Read(c, "-")
	if err != nil {
		return 0, err
	}
	c.Stdout.Write(data)
	failed := false
	for _, name := range names {
		if name == "/dev/stderr" {
			c.Stderr.Write(data)
			continue
		}
		w, err := c.Files.Create(c.Path(name), 0o644, appended)
		if err == nil {
			_, err = w.Write(data)
		}
		if err == nil {
			err = w.Close()
		}
		if err := keep(c, name, err); err != nil {
			return 0, err
		}
		failed = failed || err != nil
	}
	return status(failed), nil
}
