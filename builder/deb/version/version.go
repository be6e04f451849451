// Package version compares Debian package versions as Debian Policy 5.6.12 and deb-version(7) say.
package version

import (
	"errors"
	"fmt"
	"strings"
)

// maxLen bounds a version; the longest of the archive has some sixty bytes.
const maxLen = 256

// Check reports why a text is not a version: [epoch:]upstream[-revision].
func Check(v string) error {
	if v == "" {
		return errors.New("a version is empty")
	}
	if len(v) > maxLen {
		return fmt.Errorf("version %.40q… is longer than %d bytes", v, maxLen)
	}
	epoch, upstream, revision := split(v)
	if strings.Contains(v, ":") && (epoch == "" || strings.Trim(epoch, "0123456789") != "" || len(strings.TrimLeft(epoch, "0")) > 9) {
		return fmt.Errorf("version %q: the epoch before the colon is not a small number", v)
	}
	if upstream == "" {
		return fmt.Errorf("version %q: the upstream part is empty", v)
	}
	if strings.HasSuffix(v, "-") {
		return fmt.Errorf("version %q: the revision after the hyphen is empty", v)
	}
	for _, part := range []struct{ text, extra string }{{upstream, ".+~-:"}, {revision, ".+~"}} {
		for i := 0; i < len(part.text); i++ {
			if c := part.text[i]; !isDigit(c) && !isLetter(c) && strings.IndexByte(part.extra, c) < 0 {
				return fmt.Errorf("version %q: %q is not allowed there", v, c)
			}
		}
	}
	return nil
}

// Compare is negative when a is the older version, zero when both are the same, positive when a is the newer one. A
// missing epoch is 0, and a missing revision sorts as "0". Texts that Check refuses have some fixed order too.
func Compare(a, b string) int {
	if a == b {
		return 0
	}
	ae, au, ar := split(a)
	be, bu, br := split(b)
	if c := compareDigits(ae, be); c != 0 {
		return c
	}
	if c := comparePart(au, bu); c != 0 {
		return c
	}
	return comparePart(ar, br)
}

// split cuts at the first colon and at the last hyphen.
func split(v string) (epoch, upstream, revision string) {
	upstream = v
	if e, rest, ok := strings.Cut(v, ":"); ok {
		epoch, upstream = e, rest
	}
	if i := strings.LastIndexByte(upstream, '-'); i >= 0 {
		upstream, revision = upstream[:i], upstream[i+1:]
	}
	return epoch, upstream, revision
}

// comparePart takes turns: a run of anything but digits, then a number.
func comparePart(a, b string) int {
	for a != "" || b != "" {
		for (a != "" && !isDigit(a[0])) || (b != "" && !isDigit(b[0])) {
			if c := order(a) - order(b); c != 0 {
				return c
			}
			a, b = a[1:], b[1:] // equal order: neither is at its end or at a digit
		}
		var an, bn string
		an, a = number(a)
		bn, b = number(b)
		if c := compareDigits(an, bn); c != 0 {
			return c
		}
	}
	return 0
}

// order is the weight of the first byte: "~" before the end of the part, then letters, then everything else. A digit
// ends the run and weighs as the end.
func order(s string) int {
	switch {
	case s == "" || isDigit(s[0]):
		return 0
	case s[0] == '~':
		return -1
	case isLetter(s[0]):
		return int(s[0])
	}
	return int(s[0]) + 256
}

func number(s string) (digits, rest string) {
	i := 0
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return s[:i], s[i:]
}

// compareDigits compares numbers of any length; an empty text is zero.
func compareDigits(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
