package text

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"spore/builder/replay/command"
	"spore/builder/replay/text/getopt"
)

// What scripts are told of the machine: the same for every build, and never what the building machine is.
const (
	hostName = "localhost"
	// kernelRelease is not the release of any kernel, so that no script finds modules or headers for it. It begins with
	// a number, as scripts that compare expect it, and the number is lower than that of any kernel.
	kernelRelease = "0.0.0-spore"
	machine       = "x86_64"
)

// uname prints names of a system that has the kernel's fixed facts.
func uname(_ context.Context, c *command.Call) (int, error) {
	options, operands, err := getopt.Parse(c, getopt.Spec{Short: "asnrvmpio", Long: map[string]rune{
		"all": 'a', "kernel-name": 's', "nodename": 'n', "kernel-release": 'r', "kernel-version": 'v', "machine": 'm',
		"processor": 'p', "hardware-platform": 'i', "operating-system": 'o',
	}})
	if err != nil {
		return 0, err
	}
	if len(operands) > 0 {
		return c.Fail(1, "extra operand ‘%s’", operands[0])
	}
	chosen := ""
	for _, o := range options {
		chosen += string(o.Letter)
	}
	if chosen == "" {
		chosen = "s"
	}
	if strings.Contains(chosen, "a") {
		chosen = "snrvmo"
	}
	var out []string
	for _, f := range []struct{ letter, value string }{
		{"s", "Linux"}, {"n", hostName}, {"r", kernelRelease}, {"v", "#1 SMP Debian"}, {"m", machine}, {"p", "unknown"},
		{"i", "unknown"}, {"o", "GNU/Linux"},
	} {
		if strings.Contains(chosen, f.letter) {
			out = append(out, f.value)
		}
	}
	fmt.Fprintln(c.Stdout, strings.Join(out, " "))
	return 0, nil
}

func arch(_ context.Context, c *command.Call) (int, error) {
	fmt.Fprintln(c.Stdout, machine)
	return 0, nil
}

// nproc says that there is one processor.
func nproc(_ context.Context, c *command.Call) (int, error) {
	fmt.Fprintln(c.Stdout, 1)
	return 0, nil
}

// hostname prints the name of every machine at build; the domain of it is empty.
func hostname(_ context.Context, c *command.Call) (int, error) {
	options, operands, err := getopt.Parse(c, getopt.Spec{Short: "fsdiIyA", Long: map[string]rune{
		"fqdn": 'f', "long": 'f', "short": 's', "domain": 'd', "ip-address": 'i', "all-ip-addresses": 'I', "nis": 'y',
		"all-fqdns": 'A',
	}})
	if err != nil {
		return 0, err
	}
	if len(operands) > 0 {
		return c.Unknown(operands[0])
	}
	name := hostName
	for _, o := range options {
		switch o.Letter {
		case 'd', 'I', 'A':
			name = ""
		case 'i':
			name = "127.0.0.1"
		case 'y':
			return c.Fail(1, "Local domain name not set")
		}
	}
	fmt.Fprintln(c.Stdout, name)
	return 0, nil
}

// locale is locale(1) of a node, whose locale is C.UTF-8: scripts choose by it what the console shows.
func locale(_ context.Context, c *command.Call) (int, error) {
	switch strings.Join(c.Args, " ") {
	case "":
		fmt.Fprintln(c.Stdout, "LANG=\nLANGUAGE=")
		for _, name := range []string{
			"CTYPE", "NUMERIC", "TIME", "COLLATE", "MONETARY", "MESSAGES", "PAPER", "NAME", "ADDRESS", "TELEPHONE", "MEASUREMENT",
			"IDENTIFICATION",
		} {
			fmt.Fprintf(c.Stdout, "LC_%s=\"C.UTF-8\"\n", name)
		}
		fmt.Fprintln(c.Stdout, "LC_ALL=C.UTF-8")
	case "charmap":
		fmt.Fprintln(c.Stdout, "UTF-8")
	case "-a", "--all-locales":
		fmt.Fprintln(c.Stdout, "C\nC.utf8\nPOSIX")
	default:
		return c.Unknown(strings.Join(c.Args, " "))
	}
	return 0, nil
}

// tty says that no terminal is there.
func tty(_ context.Context, c *command.Call) (int, error) {
	options, _, err := getopt.Parse(c, getopt.Spec{Short: "s", Long: map[string]rune{"silent": 's', "quiet": 's'}})
	if err != nil {
		return 0, err
	}
	if len(options) == 0 {
		fmt.Fprintln(c.Stdout, "not a tty")
	}
	return 1, nil
}

// date prints the time of the build's files, in UTC; it is the only time that there is.
func date(_ context.Context, c *command.Call) (int, error) {
	options, operands, err := getopt.Parse(c, getopt.Spec{Short: "ud:RI::r:", LongValues: "", Long: map[string]rune{
		"utc": 'u', "universal": 'u', "date": 'd', "rfc-email": 'R', "rfc-2822": 'R', "iso-8601": 'I', "reference": 'r',
	}})
	if err != nil {
		return 0, err
	}
	now := time.Unix(c.Files.MTime, 0).UTC()
	format := "%a %b %e %H:%M:%S UTC %Y"
	for _, o := range options {
		switch o.Letter {
		case 'd':
			t, ok := parseDate(o.Value, now)
			if !ok {
				return c.Unknown("-d " + o.Value)
			}
			now = t
		case 'r':
			n, err := c.Files.Stat(c.Path(o.Value))
			if err != nil {
				return c.Fail(1, "%s: No such file or directory", o.Value)
			}
			now = time.Unix(n.MTime, 0).UTC()
		case 'R':
			format = "%a, %d %b %Y %H:%M:%S %z"
		case 'I':
			var ok bool
			if format, ok = map[string]string{"": "%Y-%m-%d", "date": "%Y-%m-%d", "hours": "%Y-%m-%dT%H+00:00",
				"minutes": "%Y-%m-%dT%H:%M+00:00", "seconds": "%Y-%m-%dT%H:%M:%S+00:00"}[o.Value]; !ok {
				return c.Unknown("-I" + o.Value)
			}
		}
	}
	for _, operand := range operands {
		if !strings.HasPrefix(operand, "+") {
			return c.Unknown(operand)
		}
		format = operand[1:]
	}
	text, bad := formatDate(format, now)
	if bad != "" {
		return c.Unknown("+" + bad)
	}
	fmt.Fprintln(c.Stdout, text)
	return 0, nil
}

// parseDate reads the dates that need no calendar of words: @SECONDS, now, and ISO dates, in UTC.
func parseDate(s string, now time.Time) (time.Time, bool) {
	s = strings.TrimSpace(s)
	if rest, ok := strings.CutPrefix(s, "@"); ok {
		n, err := strconv.ParseInt(rest, 10, 64)
		return time.Unix(n, 0).UTC(), err == nil && n > -1<<40 && n < 1<<40
	}
	switch s {
	case "now", "0 days", "today":
		return now, true
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02", "2006-01-02 15:04", "2006-01-02 15:04:05", "20060102",
		time.RFC1123Z, time.UnixDate, "Mon Jan _2 15:04:05 2006"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return now, false
}

// formatDate knows the conversions of strftime; bad is one that it does not know.
func formatDate(format string, t time.Time) (text, bad string) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		start := i
		i++
		plain := i < len(format) && format[i] == '-'
		if plain {
			i++
		}
		if i == len(format) {
			return b.String() + format[start:], ""
		}
		piece, ok := conversion(format[i], t)
		if !ok {
			return "", format[start : i+1]
		}
		if plain && len(piece) > 1 {
			piece = strings.TrimLeft(piece[:len(piece)-1], "0 ") + piece[len(piece)-1:]
		}
		b.WriteString(piece)
	}
	return b.String(), ""
}

func conversion(c byte, t time.Time) (string, bool) {
	layouts := map[byte]string{
		'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'y': "06", 'b': "Jan", 'h': "Jan",
		'B': "January",
		'a': "Mon", 'A': "Monday", 'e': "_2", 'I': "03", 'p': "PM", 'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06",
		'R': "15:04", 'j': "002", 'z': "-0700", 'Z': "MST", 'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06",
		'X': "15:04:05",
	}
	if layout, ok := layouts[c]; ok {
		return t.Format(layout), true
	}
	switch c {
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case 's':
		return strconv.FormatInt(t.Unix(), 10), true
	case 'N':
		return "000000000", true
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100), true
	case 'k':
		return fmt.Sprintf("%2d", t.Hour()), true
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), true
	case 'w':
		return strconv.Itoa(int(t.Weekday())), true
	case 'G', 'V':
		year, week := t.ISOWeek()
		if c == 'G' {
			return strconv.Itoa(year), true
		}
		return fmt.Sprintf("%02d", week), true
	}
	return "", false
}
