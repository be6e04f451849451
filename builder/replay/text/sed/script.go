package sed

import (
	"fmt"
	"strconv"
	"strings"

	"spore/builder/replay/files"
	"spore/builder/replay/text/regex"
)

// Bounds of a script.
const (
	maxScript   = 1 << 20
	maxCommands = 20_000
)

// script is a parsed program: its commands in one list, a block jumps over itself.
type script struct {
	commands []*instruction
	quiet    bool // the first line is #n
	writes   []string
}

type addressKind int

const (
	lineNumber addressKind = iota
	lastLine
	expression
	firstStep  // n~step
	plusLines  // ,+n
	toMultiple // ,~n
)

type address struct {
	kind    addressKind
	n, step int
	re      *regex.Regex // nil: the last one that was used
}

// instruction is one command with its addresses.
type instruction struct {
	from, to *address
	not      bool
	name     byte
	text     string // of a i c, label of : b t T, file of r R w W
	number   int    // exit status of q Q, target of b t T {
	re       *regex.Regex
	replace  []part
	global   bool
	print    bool
	nth      int
	file     string // of s///w
	table    *[256]byte

	active bool // between from and to
	end    int  // last line of a range that ends at a number
}

// part is a piece of a replacement: text, a group, or a change of case.
type part struct {
	text  string
	group int  // -1 none
	kase  byte // L U l u E, 0 none
}

// parser reads a script.
type parser struct {
	text     string
	pos      int
	extended bool
	out      *script
	blocks   []int
	labels   map[string]int
}

// syntaxError is what sed prints of a bad script.
type syntaxError struct {
	pos int
	msg string
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("-e expression #1, char %d: %s", e.pos, e.msg)
}

// labelError is a jump to a label that the script does not have.
type labelError struct{ label string }

func (e *labelError) Error() string { return fmt.Sprintf("can't find label for jump to `%s'", e.label) }

// parse reads a script. Its error is a syntaxError or labelError, an unknownError, or wraps files.ErrBound.
func parse(text string, extended bool) (*script, error) {
	if len(text) > maxScript {
		return nil, fmt.Errorf("a script of %d bytes, over %d: %w", len(text), maxScript, files.ErrBound)
	}
	p := &parser{text: text, extended: extended, out: &script{}, labels: map[string]int{}}
	if text == "#n" || strings.HasPrefix(text, "#n\n") {
		p.out.quiet = true
	}
	for {
		p.skip(" \t\n;")
		if p.pos == len(p.text) {
			break
		}
		if err := p.command(); err != nil {
			return nil, err
		}
		if len(p.out.commands) > maxCommands {
			return nil, fmt.Errorf("a script of over %d commands: %w", maxCommands, files.ErrBound)
		}
	}
	if len(p.blocks) > 0 {
		return nil, &syntaxError{0, "unmatched `{'"}
	}
	return p.out, p.resolve()
}

// resolve turns labels into targets.
func (p *parser) resolve() error {
	for _, i := range p.out.commands {
		if i.name != 'b' && i.name != 't' && i.name != 'T' {
			continue
		}
		if i.text == "" {
			i.number = len(p.out.commands)
			continue
		}
		target, ok := p.labels[i.text]
		if !ok {
			return &labelError{i.text}
		}
		i.number = target
	}
	return nil
}

func (p *parser) fail(msg string) error { return &syntaxError{p.pos, msg} }

func (p *parser) skip(chars string) {
	for p.pos < len(p.text) && strings.IndexByte(chars, p.text[p.pos]) >= 0 {
		p.pos++
	}
}

func (p *parser) peek() byte {
	if p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

func (p *parser) command() error {
	i := &instruction{}
	var err error
	if i.from, err = p.address(false); err != nil {
		return err
	}
	if i.from != nil {
		p.skip(" \t")
		if p.peek() == ',' {
			p.pos++
			p.skip(" \t")
			if i.to, err = p.address(true); err != nil {
				return err
			}
			if i.to == nil {
				return p.fail("unexpected `,'")
			}
		}
		if i.from.kind == lineNumber && i.from.n == 0 && (i.to == nil || i.to.kind != expression) {
			return p.fail("invalid usage of line address 0")
		}
	}
	for p.skip(" \t"); p.peek() == '!'; p.skip(" \t") {
		i.not = true
		p.pos++
	}
	if p.pos == len(p.text) {
		return p.fail("missing command")
	}
	i.name = p.text[p.pos]
	p.pos++
	return p.body(i)
}

func (p *parser) number() int {
	n := 0
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		if n = n*10 + int(c-'0'); n > 1<<30 {
			n = 1 << 30
		}
		p.pos++
	}
	return n
}

// address reads one address, nil if there is none.
func (p *parser) address(second bool) (*address, error) {
	c := p.peek()
	switch {
	case c >= '0' && c <= '9':
		a := &address{kind: lineNumber, n: p.number()}
		if p.peek() == '~' && !second {
			p.pos++
			a.kind, a.step = firstStep, p.number()
		}
		return a, nil
	case c == '$':
		p.pos++
		return &address{kind: lastLine}, nil
	case second && (c == '+' || c == '~'):
		p.pos++
		return &address{kind: map[byte]addressKind{'+': plusLines, '~': toMultiple}[c], n: p.number()}, nil
	case c == '/' || c == '\\':
		p.pos++
		if c == '\\' {
			if c = p.peek(); c == 0 || c == '\n' || c == '\\' {
				return nil, p.fail("unexpected character in address")
			}
			p.pos++
		}
		pattern, ok := p.delimited(c, true)
		if !ok {
			return nil, p.fail("unterminated address regex")
		}
		o := regex.Options{}
		for ; p.peek() == 'I' || p.peek() == 'M'; p.pos++ {
			o.IgnoreCase = o.IgnoreCase || p.peek() == 'I'
			o.Multiline = o.Multiline || p.peek() == 'M'
		}
		re, err := p.regex(pattern, o)
		return &address{kind: expression, re: re}, err
	}
	return nil, nil
}

// regex compiles an expression; the empty one is nil, which stands for the last one used.
func (p *parser) regex(pattern string, o regex.Options) (*regex.Regex, error) {
	if pattern == "" {
		return nil, nil
	}
	o.Extended, o.Sed = p.extended, true
	re, err := regex.Compile(pattern, o)
	if err != nil {
		return nil, fmt.Errorf("-e expression #1, char %d: %w", p.pos, err)
	}
	return re, nil
}

// delimited reads up to a delimiter. A backslash before the delimiter goes; so does one before a newline. In a bracket
// expression of a regular expression a delimiter is itself.
func (p *parser) delimited(end byte, isRegex bool) (string, bool) {
	var b strings.Builder
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		if c == '[' && isRegex && c != end {
			size := bracket(p.text[p.pos:])
			b.WriteString(p.text[p.pos : p.pos+size])
			p.pos += size
			continue
		}
		p.pos++
		switch {
		case c == end:
			return b.String(), true
		case c == '\n':
			p.pos--
			return "", false
		case c == '\\' && p.pos < len(p.text):
			c = p.text[p.pos]
			p.pos++
			if c != '\n' && (c != end || !isRegex && c == '&') {
				b.WriteByte('\\')
			}
		}
		b.WriteByte(c)
	}
	return "", false
}

// bracket is the length of the bracket expression at the begin of a text, which may have no end.
func bracket(text string) int {
	i := 1
	if strings.HasPrefix(text[i:], "^") {
		i++
	}
	if strings.HasPrefix(text[i:], "]") {
		i++
	}
	for i < len(text) && text[i] != ']' && text[i] != '\n' {
		if i+1 < len(text) && text[i] == '[' && strings.IndexByte(":.=", text[i+1]) >= 0 {
			end := strings.Index(text[i+2:], text[i+1:i+2]+"]")
			if end < 0 {
				return len(text)
			}
			i += 2 + end + 1
		}
		i++
	}
	if i < len(text) && text[i] == ']' {
		i++
	}
	return min(i, len(text))
}

// body reads what follows the letter of a command.
func (p *parser) body(i *instruction) error {
	add := func() { p.out.commands = append(p.out.commands, i) }
	switch i.name {
	case '#':
		if i.from != nil {
			return p.fail("comments don't accept any addresses")
		}
		p.line()
		return nil
	case '{':
		p.blocks = append(p.blocks, len(p.out.commands))
		add()
		return nil
	case '}':
		return p.closeBlock(i)
	case ':':
		if i.from != nil {
			return p.fail(": doesn't want any addresses")
		}
		label := p.label(";")
		if label == "" {
			return p.fail("\":\" lacks a label")
		}
		p.labels[label] = len(p.out.commands)
		return nil
	case 'b', 't', 'T':
		i.text = p.label(";}")
	case 'a', 'i', 'c':
		text, err := p.textArgument()
		if err != nil {
			return err
		}
		i.text = text
		add()
		return nil
	case 'r', 'R', 'w', 'W':
		p.skip(" \t")
		if i.text = p.line(); i.text == "" {
			return p.fail("missing filename in r/R/w/W commands")
		}
		if i.name == 'w' || i.name == 'W' {
			p.out.writes = append(p.out.writes, i.text)
		}
		add()
		return nil
	case 's':
		if err := p.substitute(i); err != nil {
			return err
		}
	case 'y':
		if err := p.transliterate(i); err != nil {
			return err
		}
	case 'q', 'Q', 'l', 'L':
		if i.to != nil && (i.name == 'q' || i.name == 'Q') {
			return p.fail("command only uses one address")
		}
		p.skip(" \t")
		i.number = -1
		if c := p.peek(); c >= '0' && c <= '9' {
			i.number = p.number()
		}
	case '=', 'd', 'D', 'p', 'P', 'n', 'N', 'g', 'G', 'h', 'H', 'x', 'z', 'F':
	case 'e', 'v':
		return &unknownError{string(i.name)}
	default:
		return p.fail(fmt.Sprintf("unknown command: `%c'", i.name))
	}
	add()
	return p.endOfCommand()
}

// unknownError names a command of sed that is not replayed.
type unknownError struct{ name string }

func (e *unknownError) Error() string { return fmt.Sprintf("the command %s is not replayed", e.name) }

func (p *parser) closeBlock(i *instruction) error {
	if len(p.blocks) == 0 {
		return p.fail("unexpected `}'")
	}
	if i.from != nil {
		return p.fail("} doesn't want any addresses")
	}
	open := p.blocks[len(p.blocks)-1]
	p.blocks = p.blocks[:len(p.blocks)-1]
	p.out.commands[open].number = len(p.out.commands)
	return p.endOfCommand()
}

func (p *parser) endOfCommand() error {
	p.skip(" \t\r")
	switch c := p.peek(); c {
	case 0, '\n', ';', '}', '#':
		return nil
	}
	return p.fail("extra characters after command")
}

// line reads up to the end of the line.
func (p *parser) line() string {
	line, _, _ := strings.Cut(p.text[p.pos:], "\n")
	p.pos += len(line)
	return line
}

func (p *parser) label(ends string) string {
	p.skip(" \t")
	start := p.pos
	for p.pos < len(p.text) && strings.IndexByte(" \t\n\r"+ends, p.text[p.pos]) < 0 {
		p.pos++
	}
	return p.text[start:p.pos]
}

// textArgument reads the text of a, i and c: the classic form behind a backslash and a newline, or the one of GNU on
// the same line. It ends at a newline without a backslash before it.
func (p *parser) textArgument() (string, error) {
	p.skip(" \t")
	if p.pos == len(p.text) {
		return "", p.fail("expected \\ after `a', `c' or `i'")
	}
	if p.peek() == '\\' {
		p.pos++
		start := p.pos
		p.skip(" \t")
		if p.pos == len(p.text) {
			return "", nil
		}
		if p.peek() == '\n' {
			p.pos++
		} else {
			p.pos = start
		}
	}
	var b strings.Builder
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		p.pos++
		if c == '\n' {
			break
		}
		if c == '\\' {
			if p.pos == len(p.text) {
				break
			}
			c = p.text[p.pos]
			p.pos++
			if v, size := regex.Escape(p.text[p.pos-1:]); size > 0 {
				c = v
				p.pos += size - 1
			}
		}
		b.WriteByte(c)
	}
	return b.String() + "\n", nil
}

func (p *parser) substitute(i *instruction) error {
	end := p.peek()
	p.pos++
	if end == 0 || end == '\n' || end == '\\' {
		return p.fail("unterminated `s' command")
	}
	pattern, ok := p.delimited(end, true)
	if !ok {
		return p.fail("unterminated `s' command")
	}
	replacement, ok := p.delimited(end, false)
	if !ok {
		return p.fail("unterminated `s' command")
	}
	o := regex.Options{}
	for done := false; !done; {
		c := p.peek()
		switch {
		case c == 'g' && i.global:
			return p.fail("multiple `g' options to `s' command")
		case c == 'p' && i.print:
			return p.fail("multiple `p' options to `s' command")
		case c >= '0' && c <= '9' && i.nth > 0:
			return p.fail("multiple number options to `s' command")
		case c == 'g':
			i.global = true
		case c == 'p':
			i.print = true
		case c == 'i' || c == 'I':
			o.IgnoreCase = true
		case c == 'm' || c == 'M':
			o.Multiline = true
		case c == 'e':
			return &unknownError{"s///e"}
		case c >= '0' && c <= '9':
			if i.nth = p.number(); i.nth == 0 {
				return p.fail("number option to `s' command may not be zero")
			}
			continue
		case c == 'w':
			p.pos++
			p.skip(" \t")
			if i.file = p.line(); i.file == "" {
				return p.fail("missing filename in r/R/w/W commands")
			}
			p.out.writes = append(p.out.writes, i.file)
			done = true
			continue
		case strings.IndexByte("\x00\n\r;} \t#", c) >= 0:
			done = true
			continue
		default:
			return p.fail("unknown option to `s'")
		}
		p.pos++
	}
	var err error
	if i.re, err = p.regex(pattern, o); err != nil {
		return err
	}
	i.replace = parts(replacement)
	for _, part := range i.replace {
		if i.re != nil && part.group > i.re.Groups() {
			return p.fail("invalid reference \\" + strconv.Itoa(part.group) + " on `s' command's RHS")
		}
	}
	return nil
}

// parts reads a replacement.
func parts(text string) []part {
	var out []part
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			out = append(out, part{text: b.String(), group: -1})
			b.Reset()
		}
	}
	for k := 0; k < len(text); k++ {
		c := text[k]
		if c == '&' {
			flush()
			out = append(out, part{group: 0})
			continue
		}
		if c != '\\' || k+1 == len(text) {
			b.WriteByte(c)
			continue
		}
		k++
		c = text[k]
		switch {
		case c >= '0' && c <= '9':
			flush()
			out = append(out, part{group: int(c - '0')})
		case strings.IndexByte("LUluE", c) >= 0:
			flush()
			out = append(out, part{group: -1, kase: c})
		default:
			if v, size := regex.Escape(text[k:]); size > 0 {
				b.WriteByte(v)
				k += size - 1
			} else {
				b.WriteByte(c)
			}
		}
	}
	flush()
	return out
}

func (p *parser) transliterate(i *instruction) error {
	end := p.peek()
	p.pos++
	if end == 0 || end == '\n' || end == '\\' {
		return p.fail("unterminated `y' command")
	}
	from, ok := p.delimited(end, false)
	if !ok {
		return p.fail("unterminated `y' command")
	}
	to, ok := p.delimited(end, false)
	if !ok {
		return p.fail("unterminated `y' command")
	}
	a, b := plainBytes(from), plainBytes(to)
	if len(a) != len(b) {
		return p.fail("strings for `y' command are different lengths")
	}
	i.table = new([256]byte)
	for c := range i.table {
		i.table[c] = byte(c)
	}
	for k, c := range a {
		i.table[c] = b[k]
	}
	return nil
}

func plainBytes(s string) (out []byte) {
	for k := 0; k < len(s); k++ {
		if s[k] == '\\' && k+1 < len(s) {
			k++
			if v, size := regex.Escape(s[k:]); size > 0 {
				out = append(out, v)
				k += size - 1
				continue
			}
			if s[k] != '\\' {
				out = append(out, '\\')
			}
		}
		out = append(out, s[k])
	}
	return out
}
