package text

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"spore/builder/replay/command"
	"spore/builder/replay/text/getopt"
	"spore/builder/replay/text/stream"
)

// maxDiff is how many lines the differing middle of two files may have for diff to print it: its work is the product of
// both.
const maxDiff = 4000

// cmp compares two files byte by byte.
func cmp(_ context.Context, c *command.Call) (int, error) {
	options, names, err := getopt.Parse(c, getopt.Spec{Short: "sn:", Long: map[string]rune{
		"silent": 's', "quiet": 's', "bytes": 'n',
	}})
	if err != nil {
		return 0, err
	}
	silent, limit := false, -1
	for _, o := range options {
		if o.Letter == 's' {
			silent = true
			continue
		}
		var ok bool
		if limit, ok = size(o.Value); !ok {
			return c.Fail(2, "invalid --bytes value '%s'", o.Value)
		}
	}
	if len(names) == 1 {
		names = append(names, "-")
	}
	quiet := *c
	if silent {
		quiet.Stderr = new(bytes.Buffer)
	}
	a, b, failed, err := two(&quiet, names, 2)
	if err != nil || failed != 0 {
		return failed, err
	}
	if limit >= 0 {
		a, b = a[:min(limit, len(a))], b[:min(limit, len(b))]
	}
	if bytes.Equal(a, b) {
		return 0, nil
	}
	if silent {
		return 1, nil
	}
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	line := bytes.Count(a[:at], []byte("\n")) + 1
	switch {
	case at == len(a) && at == 0:
		return c.Fail(1, "EOF on %s which is empty", names[0])
	case at == len(b) && at == 0:
		return c.Fail(1, "EOF on %s which is empty", names[1])
	case at == len(a):
		return c.Fail(1, "EOF on %s after byte %d, %s", names[0], at, eofLine(a[:at], line))
	case at == len(b):
		return c.Fail(1, "EOF on %s after byte %d, %s", names[1], at, eofLine(b[:at], line))
	}
	fmt.Fprintf(c.Stdout, "%s %s differ: char %d, line %d\n", names[0], names[1], at+1, line)
	return 1, nil
}

func eofLine(before []byte, line int) string {
	if bytes.HasSuffix(before, []byte("\n")) {
		return fmt.Sprintf("line %d", line-1)
	}
	return fmt.Sprintf("in line %d", line)
}

// diff compares two files line by line: status 0 the same, 1 not, 2 an error. Both the plain and the unified output are
// there; directories are not compared.
func diff(_ context.Context, c *command.Call) (int, error) {
	options, names, err := getopt.Parse(c, getopt.Spec{Short: "quNabwBiU:", LongValues: "l", Long: map[string]rune{
		"brief": 'q', "unified": 'u', "new-file": 'N', "text": 'a', "ignore-space-change": 'b', "ignore-all-space": 'w',
		"ignore-blank-lines": 'B', "ignore-case": 'i', "label": 'l',
	}})
	if err != nil {
		return 0, err
	}
	brief, unified, absent := false, false, false
	var labels []string
	for _, o := range options {
		switch o.Letter {
		case 'q':
			brief = true
		case 'u':
			unified = true
		case 'N':
			absent = true
		case 'l':
			labels = append(labels, o.Value)
		case 'a':
		case 'U':
			if o.Value != "3" {
				return c.Unknown("-U" + o.Value)
			}
			unified = true
		default:
			return c.Unknown("-" + string(o.Letter))
		}
	}
	read := slices.Clone(names)
	for i, name := range names {
		if c.Files.IsDir(c.Path(name)) {
			return c.Unknown("of directories, " + name)
		}
		if absent && len(names) == 2 && name != "-" && !c.Files.Exists(c.Path(name)) {
			read[i] = "/dev/null"
		}
	}
	a, b, failed, err := two(c, read, 2)
	if err != nil || failed != 0 {
		return failed, err
	}
	switch {
	case bytes.Equal(a, b):
		return 0, nil
	case brief:
		fmt.Fprintf(c.Stdout, "Files %s and %s differ\n", names[0], names[1])
		return 1, nil
	}
	edits, ok := edit(stream.Lines(a), stream.Lines(b))
	if !ok {
		fmt.Fprintf(c.Stdout, "Files %s and %s differ\n", names[0], names[1])
		return 1, nil
	}
	if unified {
		for i, mark := range []string{"---", "+++"} {
			if i < len(labels) {
				fmt.Fprintf(c.Stdout, "%s %s\n", mark, labels[i])
			} else {
				fmt.Fprintf(c.Stdout, "%s %s\n", mark, names[i])
			}
		}
		printUnified(c, edits)
	} else {
		printPlain(c, edits)
	}
	return 1, nil
}

// change is a line that both files have (' '), that only the first ('-') or only the second ('+') has.
type change struct {
	kind byte
	line []byte
}

// edit finds a shortest list of changes by the longest common subsequence.
func edit(a, b [][]byte) ([]change, bool) {
	var head, tail []change
	for len(a) > 0 && len(b) > 0 && bytes.Equal(a[0], b[0]) {
		head = append(head, change{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && bytes.Equal(a[len(a)-1], b[len(b)-1]) {
		tail = append([]change{{' ', a[len(a)-1]}}, tail...)
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) > maxDiff || len(b) > maxDiff {
		return nil, false
	}
	common := make([][]int32, len(a)+1)
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for k := len(b) - 1; k >= 0; k-- {
			common[i][k] = max(common[i+1][k], common[i][k+1])
			if bytes.Equal(a[i], b[k]) {
				common[i][k] = common[i+1][k+1] + 1
			}
		}
	}
	out := head
	i, k := 0, 0
	for i < len(a) || k < len(b) {
		switch {
		case i < len(a) && k < len(b) && bytes.Equal(a[i], b[k]):
			out = append(out, change{' ', a[i]})
			i++
			k++
		case k == len(b) || i < len(a) && common[i+1][k] >= common[i][k+1]:
			out = append(out, change{'-', a[i]})
			i++
		default:
			out = append(out, change{'+', b[k]})
			k++
		}
	}
	return append(out, tail...), true
}

func printLine(c *command.Call, prefix string, line []byte) {
	fmt.Fprintf(c.Stdout, "%s%s", prefix, line)
	if !bytes.HasSuffix(line, []byte("\n")) {
		fmt.Fprint(c.Stdout, "\n\\ No newline at end of file\n")
	}
}

func printPlain(c *command.Call, edits []change) {
	x, y := 0, 0 // lines of both files before the present one
	for i := 0; i < len(edits); {
		if edits[i].kind == ' ' {
			x, y, i = x+1, y+1, i+1
			continue
		}
		end, minus, plus := i, 0, 0
		for ; end < len(edits) && edits[end].kind != ' '; end++ {
			if edits[end].kind == '-' {
				minus++
			} else {
				plus++
			}
		}
		switch {
		case plus == 0:
			fmt.Fprintf(c.Stdout, "%sd%d\n", lineRange(x+1, minus), y)
		case minus == 0:
			fmt.Fprintf(c.Stdout, "%da%s\n", x, lineRange(y+1, plus))
		default:
			fmt.Fprintf(c.Stdout, "%sc%s\n", lineRange(x+1, minus), lineRange(y+1, plus))
		}
		for _, e := range edits[i:end] {
			if e.kind == '-' {
				printLine(c, "< ", e.line)
			}
		}
		if minus > 0 && plus > 0 {
			fmt.Fprintln(c.Stdout, "---")
		}
		for _, e := range edits[i:end] {
			if e.kind == '+' {
				printLine(c, "> ", e.line)
			}
		}
		x, y, i = x+minus, y+plus, end
	}
}

func lineRange(first, n int) string {
	if n == 1 {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d,%d", first, first+n-1)
}

// printUnified prints hunks with three lines around.
func printUnified(c *command.Call, edits []change) {
	const around = 3
	x, y := 0, 0
	for i := 0; i < len(edits); {
		if edits[i].kind == ' ' {
			x, y, i = x+1, y+1, i+1
			continue
		}
		start := max(i-around, 0)
		for k := start; k < i; k++ {
			if edits[k].kind != ' ' {
				start = k + 1
			}
		}
		end, last := i, i
		for end = i; end < len(edits) && end <= last+2*around; end++ {
			if edits[end].kind != ' ' {
				last = end
			}
		}
		end = min(last+1+around, len(edits))
		x, y = x-(i-start), y-(i-start)
		minus, plus := 0, 0
		for _, e := range edits[start:end] {
			if e.kind != '+' {
				minus++
			}
			if e.kind != '-' {
				plus++
			}
		}
		fmt.Fprintf(c.Stdout, "@@ -%s +%s @@\n", hunkRange(x, minus), hunkRange(y, plus))
		for _, e := range edits[start:end] {
			printLine(c, string(rune(e.kind)), e.line)
		}
		x, y, i = x+minus, y+plus, end
	}
}

func hunkRange(before, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", before)
	case 1:
		return fmt.Sprint(before + 1)
	}
	return fmt.Sprintf("%d,%d", before+1, n)
}
