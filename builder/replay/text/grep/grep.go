// Package grep has the command grep, as GNU grep does it in the locale C. Left out: Perl's expressions (-P), but for
// those that say the same as extended ones, colours, -z, and what is said of binary files: each file is text.
package grep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/replay/text/getopt"
	"spore/builder/replay/text/regex"
	"spore/builder/replay/text/stream"
	"spore/builder/tree"
)

type mode int

const (
	basic mode = iota
	extended
	fixed
	perl
)

// settings are the options of one call.
type settings struct {
	mode                            mode
	patterns                        []string
	given                           bool // -e or -f came, the first operand is a file
	quiet, invert, fold, word, line bool
	count, with, without, only      bool
	numbers, silent, recursive      bool
	names                           int // 1 always (-H), -1 never (-h)
	max, before, after              int
	include, exclude, excludeDir    []string
}

func spec() getopt.Spec {
	return getopt.Spec{
		Short: "EFGPqviwxclLnohHse:f:rRm:A:B:C:abyU0::1::2::3::4::5::6::7::8::9::",
		Long: map[string]rune{
			"extended-regexp": 'E', "fixed-strings": 'F', "basic-regexp": 'G', "perl-regexp": 'P', "quiet": 'q',
			"silent":       'q',
			"invert-match": 'v', "ignore-case": 'i', "word-regexp": 'w', "line-regexp": 'x', "count": 'c',
			"files-with-matches": 'l', "files-without-match": 'L', "line-number": 'n', "only-matching": 'o',
			"no-filename":   'h',
			"with-filename": 'H', "no-messages": 's', "regexp": 'e', "file": 'f', "recursive": 'r',
			"dereference-recursive": 'R',
			"max-count":             'm', "after-context": 'A', "before-context": 'B', "context": 'C', "text": 'a',
			"include": 'I', "exclude": 'X', "exclude-dir": 'D', "line-buffered": 'U',
		},
		LongValues: "IXD",
	}
}

// Command is the command grep, egrep or fgrep.
func Command(name string) command.Func {
	return stream.Buffered(func(ctx context.Context, c *command.Call) (int, error) {
		s := &settings{max: -1}
		switch name {
		case "egrep":
			s.mode = extended
		case "fgrep":
			s.mode = fixed
		}
		operands, status, err := s.read(c)
		if err != nil || status != 0 {
			return status, err
		}
		match, err := s.matcher()
		if errors.Is(err, files.ErrBound) || errors.Is(err, errPerl) {
			return 0, fmt.Errorf("%s: %w", c.Name, err)
		}
		if err != nil {
			return c.Fail(2, "%v", err)
		}
		return s.search(ctx, c, match, operands)
	})
}

func (s *settings) read(c *command.Call) (operands []string, status int, err error) {
	c = plainCall(c)
	options, operands, err := getopt.Parse(c, spec())
	if err != nil {
		return nil, 0, err
	}
	for _, o := range options {
		if status, err := s.option(c, o); err != nil || status != 0 {
			return nil, status, err
		}
	}
	if !s.given {
		if len(operands) == 0 {
			status, _ := c.Fail(2, "no pattern; usage: grep [OPTION]... PATTERNS [FILE]...")
			return nil, status, nil
		}
		s.patterns, operands = strings.Split(operands[0], "\n"), operands[1:]
	}
	if s.names == 0 && (s.recursive || len(operands) > 1) {
		s.names = 1
	}
	return operands, 0, nil
}

// plainCall leaves out --color, which means nothing where no terminal is.
func plainCall(c *command.Call) *command.Call {
	call := *c
	call.Args = nil
	for i, a := range c.Args {
		if a == "--" {
			call.Args = append(call.Args, c.Args[i:]...)
			break
		}
		if a == "--color" || a == "--colour" || strings.HasPrefix(a, "--color=") || strings.HasPrefix(a, "--colour=") {
			continue
		}
		call.Args = append(call.Args, a)
	}
	return &call
}

func (s *settings) option(c *command.Call, o getopt.Option) (int, error) {
	switch o.Letter {
	case 'E':
		s.mode = extended
	case 'F':
		s.mode = fixed
	case 'G':
		s.mode = basic
	case 'P':
		s.mode = perl
	case 'q':
		s.quiet = true
	case 'v':
		s.invert = true
	case 'i', 'y':
		s.fold = true
	case 'w':
		s.word = true
	case 'x':
		s.line = true
	case 'c':
		s.count = true
	case 'l':
		s.with, s.without = true, false
	case 'L':
		s.with, s.without = false, true
	case 'n':
		s.numbers = true
	case 'o':
		s.only = true
	case 'h':
		s.names = -1
	case 'H':
		s.names = 1
	case 's':
		s.silent = true
	case 'e':
		s.patterns, s.given = append(s.patterns, strings.Split(o.Value, "\n")...), true
	case 'f':
		return s.patternFile(c, o.Value)
	case 'r', 'R':
		s.recursive = true
	case 'I':
		s.include = append(s.include, o.Value)
	case 'X':
		s.exclude = append(s.exclude, o.Value)
	case 'D':
		s.excludeDir = append(s.excludeDir, o.Value)
	case 'm', 'A', 'B', 'C':
		return s.number(c, o)
	case 'a', 'U':
	case 'b':
		return c.Unknown("-b")
	default: // -NUM
		return s.number(c, getopt.Option{Letter: 'C', Value: string(o.Letter) + o.Value})
	}
	return 0, nil
}

func (s *settings) patternFile(c *command.Call, name string) (int, error) {
	data, err := stream.Read(c, name)
	if errors.Is(err, files.ErrBound) {
		return 0, err
	}
	if err != nil {
		return c.Fail(2, "%s: %s", name, stream.Message(err))
	}
	s.patterns, s.given = append(s.patterns, stream.Bare(data)...), true
	return 0, nil
}

func (s *settings) number(c *command.Call, o getopt.Option) (int, error) {
	n, err := strconv.Atoi(o.Value)
	if err != nil || n < 0 {
		return c.Fail(2, "%s: invalid context length argument", o.Value)
	}
	switch o.Letter {
	case 'm':
		s.max = n
	case 'A':
		s.after = n
	case 'B':
		s.before = n
	default:
		s.before, s.after = n, n
	}
	return 0, nil
}

// matcher finds the next match of a line at or after a position; nil means none.
type matcher func(line []byte, from int) ([]int, error)

func (s *settings) matcher() (matcher, error) {
	var all []matcher
	for _, p := range s.patterns {
		m, err := s.one(p)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return func(line []byte, from int) (best []int, err error) {
		for _, m := range all {
			loc, err := m(line, from)
			if err != nil {
				return nil, err
			}
			if loc != nil && (best == nil || loc[0] < best[0] || loc[0] == best[0] && loc[1] > best[1]) {
				best = loc
			}
		}
		return best, nil
	}, nil
}

func (s *settings) one(pattern string) (matcher, error) {
	m := s.mode
	switch m {
	case perl:
		var err error
		if pattern, err = fromPerl(pattern); err != nil {
			return nil, err
		}
		m = extended
	case fixed:
		pattern, m = quote(pattern), basic
	}
	re, err := regex.Compile(pattern, regex.Options{Extended: m == extended, IgnoreCase: s.fold})
	if err != nil {
		return nil, err
	}
	if s.line && re.Groups() < 9 {
		format := `^\(%s\)$` // a group of its own, so that alternatives stay inside
		if m == extended {
			format = "^(%s)$"
		}
		o := regex.Options{Extended: m == extended, IgnoreCase: s.fold}
		whole, err := regex.Compile(fmt.Sprintf(format, shiftRefs(pattern)), o)
		if err != nil {
			return nil, err
		}
		return whole.Match, nil
	}
	if s.word && !s.line {
		return words(re), nil
	}
	return re.Match, nil
}

// shiftRefs raises the numbers of back-references by one, for the group that goes around.
func shiftRefs(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		b.WriteByte(pattern[i])
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
			if c := pattern[i]; c >= '1' && c <= '8' {
				b.WriteByte(c + 1)
			} else {
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}

func quote(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(`\.*[]^$`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// words takes a match only where no word goes on beside it; it tries shorter ones at the same place first, as grep
// does.
func words(re *regex.Regex) matcher {
	return func(line []byte, from int) ([]int, error) {
		for at := from; at <= len(line); {
			loc, err := re.Match(line, at)
			if loc == nil || err != nil {
				return nil, err
			}
			start, end := loc[0], loc[1]
			for start == loc[0] {
				if edge(line, start, end) {
					return []int{start, end}, nil
				}
				if end == start || start > 0 && wordByte(line[start-1]) {
					break
				}
				shorter, err := re.Match(line[:end-1], start)
				if err != nil {
					return nil, err
				}
				if shorter == nil || shorter[0] != start {
					break
				}
				end = shorter[1]
			}
			at = start + 1
		}
		return nil, nil
	}
}

func edge(line []byte, start, end int) bool {
	return (start == 0 || !wordByte(line[start-1])) && (end == len(line) || !wordByte(line[end]))
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

var (
	errPerl = errors.New("an expression of Perl that is not an extended one too is not replayed")
	// What extended expressions lack or read in another way: lazy and possessive operators, look around, \K and other
	// escapes.
	perlOnly = regexp.MustCompile(`\(\?[^:]|[*+?}][?+]|\\[^dDwWsSbBtnfr.\\/*+?()\[\]{}|^$"'#@:,=<>_ -]`)
	perlSet  = regexp.MustCompile(`\[[^]]*\\`)
)

// fromPerl translates an expression of Perl that means the same as an extended one.
func fromPerl(pattern string) (string, error) {
	if perlOnly.MatchString(pattern) || perlSet.MatchString(pattern) || strings.ContainsAny(pattern, "<>") {
		return "", fmt.Errorf("-P %q: %w", pattern, errPerl)
	}
	return strings.NewReplacer(`\\`, `\\`, `\d`, "[0-9]", `\D`, "[^0-9]", "(?:", "(", `\t`, "\t", `\n`, "\n",
		`\f`, "\f",
		`\r`, "\r").Replace(pattern), nil
}

// search looks through all files and answers the exit status: 0 a line was selected, 1 none, 2 an error.
func (s *settings) search(ctx context.Context, c *command.Call, match matcher, names []string) (int, error) {
	if len(names) == 0 {
		names = []string{"-"}
		if s.recursive {
			names = []string{""} // the working directory; its files are named without ./
		}
	}
	if s.recursive {
		names = s.walk(c, names)
	}
	found, failed := false, false
	for _, name := range names {
		data, err := stream.Read(c, name)
		if errors.Is(err, files.ErrBound) {
			return 0, err
		}
		if err != nil {
			failed = true
			if !s.silent {
				fmt.Fprintf(c.Stderr, "%s: %s: %s\n", c.Name, name, stream.Message(err))
			}
			continue
		}
		hit, err := s.file(ctx, c, match, name, data)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", c.Name, err)
		}
		found = found || hit
		if found && s.quiet {
			return 0, nil
		}
	}
	switch {
	case failed:
		return 2, nil
	case found:
		return 0, nil
	}
	return 1, nil
}

// walk replaces directories by the regular files below them.
func (s *settings) walk(c *command.Call, names []string) (out []string) {
	for _, name := range names {
		if name == "-" || !c.Files.IsDir(c.Path(name)) {
			out = append(out, name)
			continue
		}
		children, err := c.Files.ReadDir(c.Path(name))
		if err != nil {
			continue
		}
		for _, child := range children {
			p := name + "/" + child
			if name == "" {
				p = child
			}
			n, err := c.Files.Lstat(c.Path(p))
			switch {
			case err != nil:
			case n.Type == tree.Dir && !matchesAny(s.excludeDir, child):
				out = append(out, s.walk(c, []string{p})...)
			case n.Type == tree.Regular && !matchesAny(s.exclude, child) &&
				(len(s.include) == 0 || matchesAny(s.include, child)):
				out = append(out, p)
			}
		}
	}
	return out
}

func matchesAny(globs []string, name string) bool {
	for _, g := range globs {
		if ok, err := path.Match(g, name); err == nil && ok {
			return true
		}
	}
	return false
}

// file looks through one file and tells whether a line was selected; with -L, whether none was.
func (s *settings) file(ctx context.Context, c *command.Call, match matcher, name string, data []byte) (bool, error) {
	p := &printer{c: c, s: s, name: name, printed: -1}
	if name == "-" {
		p.name = "(standard input)"
	}
	p.lines = stream.Lines(data)
	selected := 0
	for i, line := range p.lines {
		if i%1024 == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		if s.max >= 0 && selected >= s.max {
			break
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		loc, err := match(line, 0)
		if err != nil {
			return false, err
		}
		if (loc != nil) == s.invert {
			p.context(i)
			continue
		}
		if selected++; s.quiet || s.with || s.without {
			break
		}
		if !s.count {
			if err := p.selected(i, line, loc, match); err != nil {
				return false, err
			}
		}
	}
	for i := p.until; !s.count && p.printed >= 0 && i > p.printed+1 && p.printed+1 < len(p.lines); {
		p.context(p.printed + 1)
	}
	switch {
	case s.quiet:
	case s.without && selected == 0, s.with && selected > 0:
		fmt.Fprintln(c.Stdout, p.name)
	case s.count && !s.with && !s.without:
		if s.names > 0 {
			fmt.Fprintf(c.Stdout, "%s:", p.name)
		}
		fmt.Fprintln(c.Stdout, selected)
	}
	if s.without && !s.quiet {
		return selected == 0, nil
	}
	return selected > 0, nil
}

// printer prints selected lines and those around them.
type printer struct {
	c       *command.Call
	s       *settings
	name    string
	lines   [][]byte
	printed int // the last line that was printed, -1 none
	until   int // lines before this one are context of a selected one
}

func (p *printer) head(i int, mark byte) {
	if p.s.names > 0 {
		fmt.Fprintf(p.c.Stdout, "%s%c", p.name, mark)
	}
	if p.s.numbers {
		fmt.Fprintf(p.c.Stdout, "%d%c", i+1, mark)
	}
}

func (p *printer) line(i int, mark byte) {
	if p.printed >= 0 && i > p.printed+1 && (p.s.before > 0 || p.s.after > 0) {
		fmt.Fprintln(p.c.Stdout, "--")
	}
	p.printed = i
	p.head(i, mark)
	p.c.Stdout.Write(bytes.TrimSuffix(p.lines[i], []byte("\n")))
	p.c.Stdout.Write([]byte("\n"))
}

// context prints a line that was not selected if it follows a selected one closely.
func (p *printer) context(i int) {
	if i < p.until && i > p.printed && !p.s.count && !p.s.only && !p.s.quiet {
		p.line(i, '-')
	}
}

func (p *printer) selected(i int, line []byte, loc []int, match matcher) error {
	if p.s.only {
		if p.s.invert {
			return nil
		}
		return p.matches(i, line, loc, match)
	}
	for k := max(i-p.s.before, p.printed+1); k < i; k++ {
		p.line(k, '-')
	}
	p.line(i, ':')
	p.until = i + 1 + p.s.after
	return nil
}

// matches prints each match of a line that is not empty, for -o.
func (p *printer) matches(i int, line []byte, loc []int, match matcher) (err error) {
	for loc != nil {
		at := loc[1]
		if loc[1] > loc[0] {
			p.head(i, ':')
			fmt.Fprintf(p.c.Stdout, "%s\n", line[loc[0]:loc[1]])
		} else {
			at++
		}
		if at > len(line) {
			return nil
		}
		if loc, err = match(line, at); err != nil {
			return err
		}
	}
	return nil
}
