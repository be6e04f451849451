package text

import (
	"context"
	"strings"

	"spore/builder/replay/command"
	"spore/builder/replay/text/getopt"
	"spore/builder/replay/text/regex"
	"spore/builder/replay/text/stream"
)

// tr translates, deletes and squeezes bytes.
func tr(_ context.Context, c *command.Call) (int, error) {
	options, sets, err := getopt.Parse(c, getopt.Spec{Short: "cCdst", First: true, Long: map[string]rune{
		"complement": 'c', "delete": 'd', "squeeze-repeats": 's', "truncate-set1": 't',
	}})
	if err != nil {
		return 0, err
	}
	has := map[rune]bool{}
	for _, o := range options {
		has[o.Letter] = true
	}
	del, squeeze, complement := has['d'], has['s'], has['c'] || has['C']
	most := 2
	if del && !squeeze {
		most = 1
	}
	least := 2
	if del != squeeze {
		least = 1
	}
	if len(sets) < least {
		return c.Fail(1, "missing operand")
	}
	if len(sets) > most {
		return c.Fail(1, "extra operand ‘%s’", sets[most])
	}
	from, msg := trSet(sets[0], 0)
	if msg != "" {
		return c.Fail(1, "%s", msg)
	}
	if complement {
		from = others(from)
	}
	var to []byte
	if len(sets) == 2 {
		if to, msg = trSet(sets[1], len(from)); msg != "" {
			return c.Fail(1, "%s", msg)
		}
	}
	data, err := stream.Read(c, "-")
	if err != nil {
		return 0, err
	}
	c.Stdout.Write(translate(data, from, to, del, squeeze, has['t'], len(sets) == 2))
	return 0, nil
}

func translate(data, from, to []byte, del, squeeze, truncate, second bool) []byte {
	var table [256]byte
	var inFrom, squeezed [256]bool
	for i := range table {
		table[i] = byte(i)
	}
	for i, b := range from {
		inFrom[b] = true
		if !second || del || len(to) == 0 {
			continue
		}
		if i < len(to) {
			table[b] = to[i]
		} else if !truncate {
			table[b] = to[len(to)-1]
		}
	}
	last := from
	if second {
		last = to
	}
	for _, b := range last {
		squeezed[b] = squeeze
	}
	out := make([]byte, 0, len(data))
	for _, b := range data {
		if del && inFrom[b] {
			continue
		}
		b = table[b]
		if n := len(out); squeezed[b] && n > 0 && out[n-1] == b {
			continue
		}
		out = append(out, b)
	}
	return out
}

func others(set []byte) (out []byte) {
	for b := range 256 {
		if !strings.Contains(string(set), string([]byte{byte(b)})) {
			out = append(out, byte(b))
		}
	}
	return out
}

// trSet expands a set: escapes, ranges, [:classes:], [=c=] and [c*n], which fills up to length. The message is for a
// bad set.
func trSet(s string, length int) (out []byte, msg string) {
	fillAt, fillWith := -1, byte(0)
	for s != "" {
		if class, rest, ok := bracketed(s, "[:", ":]"); ok {
			members := regex.Class(class)
			if members == nil {
				return nil, "invalid character class ‘" + class + "’"
			}
			out, s = append(out, members...), rest
			continue
		}
		if char, rest, ok := bracketed(s, "[=", "=]"); ok && len(char) == 1 {
			out, s = append(out, char[0]), rest
			continue
		}
		if char, n, rest, ok := repeated(s); ok {
			if s = rest; n == 0 {
				fillAt, fillWith = len(out), char
			}
			for range n {
				out = append(out, char)
			}
			continue
		}
		lo, size := trChar(s)
		s = s[size:]
		if len(s) < 2 || s[0] != '-' {
			out = append(out, lo)
			continue
		}
		hi, size := trChar(s[1:])
		s = s[1+size:]
		if lo > hi {
			ends := string(rune(lo)) + "-" + string(rune(hi))
			return nil, "range-endpoints of ‘" + ends + "’ are in reverse collating sequence order"
		}
		for b := int(lo); b <= int(hi); b++ {
			out = append(out, byte(b))
		}
	}
	if fillAt >= 0 {
		var fill []byte
		for len(out)+len(fill) < length {
			fill = append(fill, fillWith)
		}
		out = append(out[:fillAt:fillAt], append(fill, out[fillAt:]...)...)
	}
	return out, ""
}

func bracketed(s, open, end string) (inside, rest string, ok bool) {
	if !strings.HasPrefix(s, open) {
		return "", "", false
	}
	return strings.Cut(s[len(open):], end)
}

// repeated reads [c*n].
func repeated(s string) (char byte, n int, rest string, ok bool) {
	if len(s) < 4 || s[0] != '[' {
		return 0, 0, "", false
	}
	char, size := trChar(s[1:])
	s = s[1+size:]
	if s == "" || s[0] != '*' {
		return 0, 0, "", false
	}
	digits, rest, ok := strings.Cut(s[1:], "]")
	base := 10
	if strings.HasPrefix(digits, "0") {
		base = 8
	}
	for _, d := range digits {
		if d < '0' || int(d-'0') >= base || n > 1<<16 {
			return 0, 0, "", false
		}
		n = n*base + int(d-'0')
	}
	return char, n, rest, ok
}

// trChar reads one character and says how many bytes name it.
func trChar(s string) (byte, int) {
	if s[0] != '\\' || len(s) == 1 {
		return s[0], 1
	}
	if i := strings.IndexByte("abfnrtv\\", s[1]); i >= 0 {
		return "\a\b\f\n\r\t\v\\"[i], 2
	}
	n, size := 0, 1
	for size < len(s) && size < 4 && s[size] >= '0' && s[size] <= '7' && n*8+int(s[size]-'0') < 256 {
		n = n*8 + int(s[size]-'0')
		size++
	}
	if size > 1 {
		return byte(n), size
	}
	return s[1], 2
}
