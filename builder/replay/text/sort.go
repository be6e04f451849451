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

// sortKey is one key of sort: from a field and character to another one.
type sortKey struct {
	fromField, fromChar, toField, toChar int // from 1; toField 0 is the end of the line, toChar 0 the end of the field
	flags                                string
}

type sorter struct {
	separator      string
	keys           []sortKey
	flags          string
	unique, stable bool
}

// sortLines is the command sort.
func sortLines(_ context.Context, c *command.Call) (int, error) {
	options, names, err := getopt.Parse(c, getopt.Spec{Short: "urnk:t:VfbdighMo:cCsT:S:m", LongValues: "P",
		Long: map[string]rune{
			"unique": 'u', "reverse": 'r', "numeric-sort": 'n', "key": 'k', "field-separator": 't', "version-sort": 'V',
			"ignore-case": 'f', "ignore-leading-blanks": 'b', "dictionary-order": 'd', "output": 'o', "check": 'c',
			"stable":               's',
			"general-numeric-sort": 'g', "temporary-directory": 'T', "buffer-size": 'S', "parallel": 'P', "merge": 'm',
		}})
	if err != nil {
		return 0, err
	}
	s := &sorter{}
	check, output := rune(0), ""
	for _, o := range options {
		switch o.Letter {
		case 'u':
			s.unique = true
		case 's':
			s.stable = true
		case 'r', 'n', 'V', 'f', 'b', 'd', 'g':
			s.flags += string(o.Letter)
		case 'k':
			key, ok := parseKey(o.Value)
			if !ok {
				return c.Fail(2, "invalid field specification ‘%s’", o.Value)
			}
			s.keys = append(s.keys, key)
		case 't':
			if s.separator = o.Value; o.Value == `\0` {
				s.separator = "\x00"
			}
			if len(s.separator) != 1 {
				return c.Fail(2, "multi-character tab ‘%s’", o.Value)
			}
		case 'o':
			output = o.Value
		case 'c', 'C':
			check = o.Letter
		case 'i', 'h', 'M':
			return c.Unknown("-" + string(o.Letter))
		}
	}
	inputs, failed, err := stream.ReadAll(c, names)
	if err != nil {
		return 0, err
	}
	if failed {
		return 2, nil
	}
	var lines []string
	for _, in := range inputs {
		lines = append(lines, stream.Bare(in.Data)...)
	}
	if check != 0 {
		return s.check(c, check, inputs, lines)
	}
	slices.SortStableFunc(lines, s.compare)
	if s.unique {
		lines = slices.CompactFunc(lines, func(a, b string) bool { return s.byKeys(a, b) == 0 })
	}
	if output == "" {
		for _, l := range lines {
			fmt.Fprintln(c.Stdout, l)
		}
		return 0, nil
	}
	var b bytes.Buffer
	for _, l := range lines {
		b.WriteString(l + "\n")
	}
	err = c.Files.WriteFile(c.Path(output), b.Bytes(), 0o644)
	if ended := keep(c, output, err); ended != nil {
		return 0, ended
	}
	return 2 * status(err != nil), nil
}

func (s *sorter) check(c *command.Call, mode rune, inputs []stream.Input, lines []string) (int, error) {
	for i := 1; i < len(lines); i++ {
		order := s.compare(lines[i-1], lines[i])
		if order < 0 || order == 0 && !s.unique || s.unique && s.byKeys(lines[i-1], lines[i]) < 0 {
			continue
		}
		if mode == 'c' {
			return c.Fail(1, "%s:%d: disorder: %s", inputs[0].Name, i+1, lines[i])
		}
		return 1, nil
	}
	return 0, nil
}

// compare orders by the keys, and then, but for -s and -u, by all bytes.
func (s *sorter) compare(a, b string) int {
	if order := s.byKeys(a, b); order != 0 || s.stable || s.unique {
		return order
	}
	order := strings.Compare(a, b)
	if strings.Contains(s.flags, "r") {
		return -order
	}
	return order
}

func (s *sorter) byKeys(a, b string) int {
	if len(s.keys) == 0 {
		return compareBy(s.flags, a, b)
	}
	for _, k := range s.keys {
		flags := k.flags
		if strings.Trim(flags, "beE") == "" && !strings.ContainsAny(flags, "b") {
			flags = s.flags + flags
		}
		if order := compareBy(flags, s.extract(k, flags, a), s.extract(k, flags, b)); order != 0 {
			return order
		}
	}
	return 0
}

func compareBy(flags, a, b string) int {
	order := 0
	if strings.ContainsAny(flags, "bngV") {
		a, b = strings.TrimLeft(a, " \t"), strings.TrimLeft(b, " \t")
	}
	switch {
	case strings.Contains(flags, "V"):
		order = compareVersions(a, b)
	case strings.Contains(flags, "n"):
		order = compareNumbers(a, b)
	case strings.Contains(flags, "g"):
		order = compareFloats(a, b)
	default:
		if strings.Contains(flags, "d") {
			a, b = dictionary(a), dictionary(b)
		}
		if strings.Contains(flags, "f") {
			a, b = upper(a), upper(b)
		}
		order = strings.Compare(a, b)
	}
	if strings.Contains(flags, "r") {
		return -order
	}
	return order
}

func dictionary(s string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '\t' || r >= '0' && r <= '9' || r|32 >= 'a' && r|32 <= 'z' {
			return r
		}
		return -1
	}, s)
}

func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'a' && c <= 'z' {
			b[i] = c - 32
		}
	}
	return string(b)
}

// number splits what -n reads into sign, whole part and fraction.
func number(s string) (negative bool, whole, fraction string) {
	if strings.HasPrefix(s, "-") {
		negative, s = true, s[1:]
	}
	end := 0
	for end < len(s) && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	whole = strings.TrimLeft(s[:end], "0")
	if s = s[end:]; strings.HasPrefix(s, ".") {
		end = 1
		for end < len(s) && s[end] >= '0' && s[end] <= '9' {
			end++
		}
		fraction = strings.TrimRight(s[1:end], "0")
	}
	return negative && whole+fraction != "", whole, fraction
}

// compareNumbers compares as -n does, of any length.
func compareNumbers(a, b string) int {
	an, aw, af := number(a)
	bn, bw, bf := number(b)
	if an != bn {
		if an {
			return -1
		}
		return 1
	}
	order := len(aw) - len(bw)
	if order == 0 {
		order = strings.Compare(aw, bw)
	}
	if order == 0 {
		order = strings.Compare(af, bf)
	}
	if an {
		return -order
	}
	return order
}

func compareFloats(a, b string) int {
	x, xOK := leadingFloat(a)
	y, yOK := leadingFloat(b)
	switch {
	case xOK != yOK && yOK, xOK && yOK && x < y:
		return -1
	case xOK != yOK, x > y:
		return 1
	}
	return 0
}

func leadingFloat(s string) (float64, bool) {
	for end := min(len(s), 64); end > 0; end-- {
		if f, err := strconv.ParseFloat(s[:end], 64); err == nil {
			return f, true
		}
	}
	return 0, false
}

// compareVersions compares as filevercmp of gnulib, which -V uses: texts and numbers take turns, ~ is before the end,
// letters are before other bytes. A suffix such as .tar.gz counts only among names that are the same without it.
func compareVersions(a, b string) int {
	if a == b {
		return 0
	}
	for _, special := range []string{"", ".", ".."} {
		if a == special {
			return -1
		}
		if b == special {
			return 1
		}
	}
	aDot, bDot := strings.HasPrefix(a, "."), strings.HasPrefix(b, ".")
	if aDot != bDot {
		if aDot {
			return -1
		}
		return 1
	}
	if aDot {
		a, b = a[1:], b[1:]
	}
	aStem, bStem := stem(a), stem(b)
	if order := verrevcmp(aStem, bStem); order != 0 {
		return order
	}
	return verrevcmp(a, b)
}

// stem is a name without suffixes that match (\.[A-Za-z~][A-Za-z0-9~]*)*$.
func stem(s string) string {
	for end := len(s); ; {
		dot := strings.LastIndexByte(s[:end], '.')
		if dot < 0 || dot == 0 || dot+1 == end || !(letter(s[dot+1]) || s[dot+1] == '~') {
			return s[:end]
		}
		for _, c := range []byte(s[dot+1 : end]) {
			if !(letter(c) || digit(c) || c == '~') {
				return s[:end]
			}
		}
		end = dot
	}
}

func letter(c byte) bool { return c|32 >= 'a' && c|32 <= 'z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

func verrevcmp(a, b string) int {
	order := func(s string, i int) int {
		switch {
		case i >= len(s):
			return -1
		case s[i] == '~':
			return -2
		case digit(s[i]):
			return 0
		case letter(s[i]):
			return int(s[i])
		}
		return int(s[i]) + 256
	}
	i, k := 0, 0
	for i < len(a) || k < len(b) {
		for i < len(a) && !digit(a[i]) || k < len(b) && !digit(b[k]) {
			if x, y := order(a, i), order(b, k); x != y {
				return x - y
			}
			i++
			k++
		}
		for i < len(a) && a[i] == '0' {
			i++
		}
		for k < len(b) && b[k] == '0' {
			k++
		}
		difference := 0
		for i < len(a) && k < len(b) && digit(a[i]) && digit(b[k]) {
			if difference == 0 {
				difference = int(a[i]) - int(b[k])
			}
			i++
			k++
		}
		switch {
		case i < len(a) && digit(a[i]):
			return 1
		case k < len(b) && digit(b[k]):
			return -1
		case difference != 0:
			return difference
		}
	}
	return 0
}

func parseKey(s string) (k sortKey, ok bool) {
	from, to, ranged := strings.Cut(s, ",")
	var flags string
	if k.fromField, k.fromChar, flags, ok = keyPlace(from); !ok || k.fromField < 1 {
		return k, false
	}
	k.fromChar = max(k.fromChar, 1)
	k.flags = flags
	if ranged {
		if k.toField, k.toChar, flags, ok = keyPlace(to); !ok || k.toField < 1 {
			return k, false
		}
		k.flags += flags
	}
	return k, true
}

func keyPlace(s string) (field, char int, flags string, ok bool) {
	digits := strings.TrimRight(s, "bdfgnrV")
	flags = s[len(digits):]
	f, c, dotted := strings.Cut(digits, ".")
	field, err := strconv.Atoi(f)
	if err == nil && dotted {
		char, err = strconv.Atoi(c)
	}
	return field, char, flags, err == nil && field < 1<<20 && char >= 0 && char < 1<<30
}

// extract takes the key out of a line.
func (s *sorter) extract(k sortKey, flags, line string) string {
	blanks := strings.Contains(flags, "b")
	start, _ := s.field(line, k.fromField)
	if blanks {
		start += len(line[start:]) - len(strings.TrimLeft(line[start:], " \t"))
	}
	start = min(start+k.fromChar-1, len(line))
	end := len(line)
	if k.toField > 0 {
		begin, stop := s.field(line, k.toField)
		if end = stop; k.toChar > 0 {
			if blanks {
				begin += len(line[begin:]) - len(strings.TrimLeft(line[begin:], " \t"))
			}
			end = min(begin+k.toChar, len(line))
		}
	}
	return line[start:max(start, end)]
}

// field answers where a field begins and ends. Without a separator the blanks before a field belong to it.
func (s *sorter) field(line string, n int) (start, end int) {
	at := 0
	for i := 1; ; i++ {
		start, end = at, at
		if s.separator != "" {
			if k := strings.Index(line[at:], s.separator); k >= 0 {
				end = at + k
			} else {
				end = len(line)
			}
		} else {
			for end < len(line) && (line[end] == ' ' || line[end] == '\t') {
				end++
			}
			for end < len(line) && line[end] != ' ' && line[end] != '\t' {
				end++
			}
		}
		if i == n {
			return start, end
		}
		if end == len(line) {
			return end, end
		}
		if at = end; s.separator != "" {
			at++
		}
	}
}

// uniq joins lines that follow each other and are the same.
func uniq(_ context.Context, c *command.Call) (int, error) {
	options, names, err := getopt.Parse(c, getopt.Spec{Short: "cduif:s:w:", Long: map[string]rune{
		"count": 'c', "repeated": 'd', "unique": 'u', "ignore-case": 'i', "skip-fields": 'f', "skip-chars": 's',
		"check-chars": 'w',
	}})
	if err != nil {
		return 0, err
	}
	has := map[rune]bool{}
	numbers := map[rune]int{'w': 1 << 30}
	for _, o := range options {
		has[o.Letter] = true
		if strings.ContainsRune("fsw", o.Letter) {
			if numbers[o.Letter], err = strconv.Atoi(o.Value); err != nil || numbers[o.Letter] < 0 {
				return c.Fail(1, "%s: invalid number", o.Value)
			}
		}
	}
	if len(names) > 2 {
		return c.Fail(1, "extra operand ‘%s’", names[2])
	}
	inputs, failed, err := stream.ReadAll(c, names[:min(len(names), 1)])
	if err != nil || failed {
		return 1, err
	}
	key := func(line string) string {
		for range numbers['f'] {
			line = strings.TrimLeft(line, " \t")
			if i := strings.IndexAny(line, " \t"); i >= 0 {
				line = line[i:]
			} else {
				line = ""
			}
			if line == "" {
				break
			}
		}
		line = line[min(numbers['s'], len(line)):]
		if line = line[:min(numbers['w'], len(line))]; has['i'] {
			line = upper(line)
		}
		return line
	}
	var out bytes.Buffer
	lines := stream.Bare(inputs[0].Data)
	for i := 0; i < len(lines); {
		n := 1
		for i+n < len(lines) && key(lines[i+n]) == key(lines[i]) {
			n++
		}
		if !(has['d'] && n == 1) && !(has['u'] && n > 1) {
			if has['c'] {
				fmt.Fprintf(&out, "%7d ", n)
			}
			out.WriteString(lines[i] + "\n")
		}
		i += n
	}
	if len(names) == 2 && names[1] != "-" {
		err := c.Files.WriteFile(c.Path(names[1]), out.Bytes(), 0o644)
		if ended := keep(c, names[1], err); ended != nil {
			return 0, ended
		}
		return status(err != nil), nil
	}
	c.Stdout.Write(out.Bytes())
	return 0, nil
}
