package text

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/replay/text/getopt"
	"spore/builder/replay/text/stream"
)

// maxSeq is how many numbers seq prints.
const maxSeq = 1_000_000

// seq prints whole numbers.
func seq(_ context.Context, c *command.Call) (int, error) {
	separator, width := "\n", false
	args := c.Args
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && !isNumber(args[0]) {
		switch {
		case args[0] == "--":
		case args[0] == "-w" || args[0] == "--equal-width":
			width = true
		case args[0] == "-s" && len(args) > 1:
			separator, args = args[1], args[1:]
		case strings.HasPrefix(args[0], "-s"):
			separator = args[0][2:]
		case strings.HasPrefix(args[0], "--separator="):
			separator = strings.TrimPrefix(args[0], "--separator=")
		default:
			return c.Unknown(args[0])
		}
		args = args[1:]
	}
	if len(args) == 0 || len(args) > 3 {
		return c.Fail(1, "one to three numbers must be given")
	}
	n := []int64{1, 1, 0}
	for i, a := range args {
		v, err := strconv.ParseInt(a, 10, 64)
		if err != nil {
			if _, float := strconv.ParseFloat(a, 64); float == nil {
				return c.Unknown(a)
			}
			return c.Fail(1, "invalid floating point argument: ‘%s’", a)
		}
		switch {
		case i == len(args)-1:
			n[2] = v
		default:
			n[i] = v
		}
	}
	first, step, last := n[0], n[1], n[2]
	if step == 0 {
		return c.Fail(1, "invalid Zero increment value: ‘0’")
	}
	digits := 0
	if width {
		digits = max(len(strconv.FormatInt(first, 10)), len(strconv.FormatInt(last, 10)))
	}
	count := 0
	for v := first; step > 0 && v <= last || step < 0 && v >= last; v += step {
		if count++; count > maxSeq {
			return 0, fmt.Errorf("%s: over %d numbers: %w", c.Name, maxSeq, files.ErrBound)
		}
		if count > 1 {
			fmt.Fprint(c.Stdout, separator)
		}
		fmt.Fprintf(c.Stdout, "%0*d", digits, v)
	}
	if count > 0 {
		fmt.Fprintln(c.Stdout)
	}
	return 0, nil
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// od dumps bytes: types x1 x2 x4 u1 o1 d1 c a are what scripts ask for.
func od(_ context.Context, c *command.Call) (int, error) {
	options, names, err := getopt.Parse(c, getopt.Spec{Short: "A:t:N:j:vw::bcxd", Long: map[string]rune{
		"address-radix": 'A', "format": 't', "read-bytes": 'N', "skip-bytes": 'j', "output-duplicates": 'v',
		"width": 'w',
	}})
	if err != nil {
		return 0, err
	}
	d := dump{address: "%07o", kind: "o2", width: 16, limit: -1}
	for _, o := range options {
		n, numeric := size(o.Value)
		switch {
		case o.Letter == 'A' && len(o.Value) == 1 && strings.Contains("odxn", o.Value):
			d.address = map[string]string{"o": "%07o", "d": "%07d", "x": "%06x", "n": ""}[o.Value]
		case o.Letter == 't':
			d.kind = o.Value
		case o.Letter == 'v':
			d.all = true
		case strings.ContainsRune("bcxd", o.Letter):
			d.kind = map[rune]string{'b': "o1", 'c': "c", 'x': "x2", 'd': "u2"}[o.Letter]
		case !numeric:
			return c.Unknown("-" + string(o.Letter) + o.Value)
		case o.Letter == 'N':
			d.limit = n
		case o.Letter == 'j':
			d.skip = n
		case o.Letter == 'w' && n > 0 && n <= 4096:
			d.width = n
		default:
			return c.Unknown("-" + string(o.Letter) + o.Value)
		}
	}
	show, bytes, ok := dumper(d.kind)
	if !ok || d.width%bytes != 0 {
		return c.Unknown("-t " + d.kind)
	}
	inputs, failed, err := stream.ReadAll(c, names)
	if err != nil {
		return 0, err
	}
	var data []byte
	for _, in := range inputs {
		data = append(data, in.Data...)
	}
	data = data[min(d.skip, len(data)):]
	if d.limit >= 0 {
		data = data[:min(d.limit, len(data))]
	}
	d.print(c, data, bytes, show)
	return status(failed), nil
}

// dump is what od prints.
type dump struct {
	address, kind      string
	width, skip, limit int
	all                bool
}

func (d dump) print(c *command.Call, data []byte, bytes int, show func([]byte) string) {
	previous, starred := "", false
	for at := 0; at < len(data); at += d.width {
		row := data[at:min(at+d.width, len(data))]
		if !d.all && len(row) == d.width && at > 0 && string(row) == previous {
			if !starred {
				fmt.Fprintln(c.Stdout, "*")
			}
			starred = true
			continue
		}
		previous, starred = string(row), false
		if d.address != "" {
			fmt.Fprintf(c.Stdout, d.address, d.skip+at)
		}
		for i := 0; i < len(row); i += bytes {
			unit := make([]byte, bytes)
			copy(unit, row[i:])
			fmt.Fprint(c.Stdout, " "+show(unit))
		}
		fmt.Fprintln(c.Stdout)
	}
	if d.address != "" {
		fmt.Fprintf(c.Stdout, d.address+"\n", d.skip+len(data))
	}
}

// dumper answers how a unit of bytes, in the order of x86, is shown.
func dumper(kind string) (show func([]byte) string, bytes int, ok bool) {
	if kind == "c" {
		return dumpChar, 1, true
	}
	switch kind {
	case "x", "u", "o", "d":
		kind += "4"
	}
	if len(kind) != 2 || !strings.Contains("xuod", kind[:1]) || !strings.Contains("1248", kind[1:]) {
		return nil, 0, false
	}
	bytes = int(kind[1] - '0')
	widths := map[byte]map[int]int{
		'x': {1: 2, 2: 4, 4: 8, 8: 16}, 'o': {1: 3, 2: 6, 4: 11, 8: 22}, 'u': {1: 3, 2: 5, 4: 10, 8: 20},
		'd': {1: 4, 2: 6, 4: 11, 8: 20},
	}
	width := widths[kind[0]][bytes]
	return func(b []byte) string {
		var v uint64
		for i := len(b) - 1; i >= 0; i-- {
			v = v<<8 | uint64(b[i])
		}
		switch kind[0] {
		case 'x':
			return fmt.Sprintf("%0*x", width, v)
		case 'o':
			return fmt.Sprintf("%0*o", width, v)
		case 'u':
			return fmt.Sprintf("%*d", width, v)
		}
		shift := 64 - 8*uint(len(b))
		return fmt.Sprintf("%*d", width, int64(v<<shift)>>shift)
	}, bytes, true
}

func dumpChar(b []byte) string {
	c := b[0]
	if i := strings.IndexByte("\x00\a\b\f\n\r\t\v", c); i >= 0 {
		return ` \` + "0abfnrtv"[i:i+1]
	}
	if c >= ' ' && c <= '~' {
		return "  " + string(rune(c))
	}
	return fmt.Sprintf("%03o", c)
}
