package regex

import (
	"fmt"
	"strings"

	"spore/builder/replay/files"
)

type kind int

const (
	kindEmpty  kind = iota
	kindSet         // one byte of a set
	kindConcat      // subs one after the other
	kindAlt         // one of subs
	kindRepeat      // subs[0], min to max times; max -1 is without end
	kindGroup       // subs[0], kept as group n
	kindRef         // what group n matched
	kindAssert      // a place: assert is one of the bytes ^ $ < > b B ` '
)

type node struct {
	kind     kind
	set      set
	subs     []*node
	min, max int
	n        int
	assert   byte
}

// parser reads an expression by descent.
type parser struct {
	text     string
	pos      int
	o        Options
	groups   int
	closed   [10]bool
	backrefs bool
	depth    int
}

func (p *parser) parse() (*node, error) {
	n, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if p.pos < len(p.text) { // only a closing parenthesis of a basic expression ends the descent early
		return nil, SyntaxError(`Unmatched ) or \)`)
	}
	return n, nil
}

func (p *parser) rest() string { return p.text[p.pos:] }

// take steps over an operator, which has a backslash in one of the two kinds of expressions.
func (p *parser) take(op string) bool {
	if !p.at(op) {
		return false
	}
	p.pos += len(op)
	if !p.o.Extended {
		p.pos++
	}
	return true
}

func (p *parser) at(op string) bool {
	if p.o.Extended {
		return strings.HasPrefix(p.rest(), op)
	}
	return strings.HasPrefix(p.rest(), `\`+op)
}

func (p *parser) alternatives() (*node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("groups of a regular expression nest over %d deep: %w", maxDepth, files.ErrBound)
	}
	defer func() { p.depth-- }()
	var alts []*node
	for {
		n, err := p.branch()
		if err != nil {
			return nil, err
		}
		alts = append(alts, n)
		if !p.take("|") {
			break
		}
	}
	if len(alts) == 1 {
		return alts[0], nil
	}
	return &node{kind: kindAlt, subs: alts}, nil
}

// branch reads until an alternative, the end of the group or the end of the expression.
func (p *parser) branch() (*node, error) {
	out := &node{kind: kindConcat}
	start := true // no atom yet: a star is itself in a basic expression
	for p.pos < len(p.text) && !p.at("|") {
		if p.at(")") && (p.depth > 1 || !p.o.Extended) {
			break
		}
		n, err := p.atom(start)
		if err != nil {
			return nil, err
		}
		if n == nil {
			continue
		}
		if start = n.kind == kindAssert && n.assert == '^' && !p.o.Extended; !start {
			if n, err = p.repeats(n); err != nil {
				return nil, err
			}
		}
		out.subs = append(out.subs, n)
	}
	return out, nil
}

func (p *parser) atom(start bool) (*node, error) {
	if p.take("(") {
		return p.group()
	}
	c := p.text[p.pos]
	p.pos++
	before := p.pos
	switch {
	case c == '\\':
		return p.escape()
	case c == '[':
		s, err := p.bracket()
		return &node{kind: kindSet, set: s}, err
	case c == '.':
		var s set
		s.not()
		return &node{kind: kindSet, set: s}, nil
	case c == '^' && (p.o.Extended || start && !p.afterAnchor()):
		return &node{kind: kindAssert, assert: '^'}, nil
	case c == '$' && (p.o.Extended || p.pos == len(p.text) || p.at(")") || p.at("|")):
		return &node{kind: kindAssert, assert: '$'}, nil
	case p.o.Extended && p.o.Sed && (start && strings.IndexByte("*+?{", c) >= 0):
		return nil, errPreceding
	case p.o.Extended && p.o.Sed && c == ')':
		return nil, SyntaxError(`Unmatched ) or \)`)
	case p.o.Extended && start && strings.IndexByte("*+?{", c) >= 0:
		if c == '{' {
			if _, _, ok := p.interval(); !ok {
				p.pos = before
				return p.literal(c), nil
			}
		}
		return nil, nil // glibc: nothing to repeat, the operator is left out
	}
	return p.literal(c), nil
}

// afterAnchor tells whether the byte before the one just read is an anchor: in ^^ the second is itself.
func (p *parser) afterAnchor() bool {
	return p.pos >= 2 && p.text[p.pos-2] == '^'
}

func (p *parser) group() (*node, error) {
	p.groups++
	n := p.groups
	sub, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if !p.take(")") {
		return nil, SyntaxError(`Unmatched ( or \(`)
	}
	if n < len(p.closed) {
		p.closed[n] = true
	}
	return &node{kind: kindGroup, n: n, subs: []*node{sub}}, nil
}

func (p *parser) literal(c byte) *node {
	n := &node{kind: kindSet}
	n.set.add(c)
	if p.o.IgnoreCase {
		n.set.foldCase()
	}
	return n
}

func (p *parser) escape() (*node, error) {
	if p.pos == len(p.text) {
		return nil, SyntaxError("Trailing backslash")
	}
	c := p.text[p.pos]
	p.pos++
	switch c {
	case '<', '>', 'b', 'B', '`', '\'':
		return &node{kind: kindAssert, assert: c}, nil
	case 'w', 'W', 's', 'S':
		n := &node{kind: kindSet, set: class(map[byte]string{'w': "word", 's': "space"}[c|32])}
		if c < 'a' {
			n.set.not()
		}
		return n, nil
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if !p.closed[c-'0'] {
			return nil, SyntaxError("Invalid back reference")
		}
		p.backrefs = true
		return &node{kind: kindRef, n: int(c - '0')}, nil
	case '{':
		if !p.o.Extended && p.o.Sed {
			return nil, errPreceding
		}
		if !p.o.Extended {
			if _, _, ok := p.interval(); !ok {
				return nil, SyntaxError(`Invalid content of \{\}`)
			}
			return nil, nil // as for a star at the start of an extended expression
		}
	}
	if p.o.Extended || c != '+' && c != '?' {
		if p.o.Sed {
			if b, size := Escape(p.text[p.pos-1:]); size > 0 {
				p.pos += size - 1
				return p.literal(b), nil
			}
		}
		return p.literal(c), nil
	}
	return p.literal(c), nil // \+ and \? with nothing before them are themselves
}

// Escape reads what follows a backslash in sed: n t f v a r, cX, dNNN, oNNN, xHH. It answers the byte and how many
// bytes of the text name it, 0 if the text does not begin with an escape.
func Escape(text string) (b byte, size int) {
	if text == "" {
		return 0, 0
	}
	if i := strings.IndexByte("ntfvar", text[0]); i >= 0 {
		return "\n\t\f\v\a\r"[i], 1
	}
	number := func(base, digits int) (byte, int) {
		value, n := 0, 0
		for n < digits && n+1 < len(text) {
			d := strings.IndexByte("0123456789abcdef", text[n+1]|32)
			if text[n+1] < '0' || d < 0 || d >= base {
				break
			}
			value = value*base + d
			n++
		}
		if n == 0 {
			return 0, 0
		}
		return byte(value), n + 1
	}
	switch text[0] {
	case 'd':
		return number(10, 3)
	case 'o':
		return number(8, 3)
	case 'x':
		return number(16, 2)
	case 'c':
		if len(text) > 1 && text[1] != '\\' {
			c := text[1]
			if c >= 'a' && c <= 'z' {
				c -= 32
			}
			return c ^ 0x40, 2
		}
	}
	return 0, 0
}

const errPreceding = SyntaxError("Invalid preceding regular expression")

// repeats reads the operators after an atom.
func (p *parser) repeats(n *node) (*node, error) {
	if p.o.Extended && p.o.Sed && n.kind == kindAssert && (n.assert == '^' || n.assert == '$') &&
		p.pos < len(p.text) && strings.IndexByte("*+?{", p.text[p.pos]) >= 0 {
		return nil, errPreceding
	}
	for p.pos < len(p.text) {
		switch {
		case p.text[p.pos] == '*':
			p.pos++
			n = &node{kind: kindRepeat, subs: []*node{n}, max: -1}
		case p.take("+"):
			n = &node{kind: kindRepeat, subs: []*node{n}, min: 1, max: -1}
		case p.take("?"):
			n = &node{kind: kindRepeat, subs: []*node{n}, max: 1}
		case p.at("{"):
			before := p.pos
			p.take("{")
			lo, hi, ok := p.interval()
			if !ok && p.o.Extended && !p.o.Sed {
				p.pos = before
				return n, nil // a brace that is not an interval is itself
			}
			if !ok || hi >= 0 && lo > hi {
				return nil, SyntaxError(`Invalid content of \{\}`)
			}
			if lo > maxRepeat || hi > maxRepeat {
				return nil, SyntaxError("Regular expression too big")
			}
			n = &node{kind: kindRepeat, subs: []*node{n}, min: lo, max: hi}
		default:
			return n, nil
		}
	}
	return n, nil
}

func (p *parser) interval() (lo, hi int, ok bool) {
	number := func() (int, bool) {
		n, digits := 0, 0
		for p.pos < len(p.text) && p.text[p.pos] >= '0' && p.text[p.pos] <= '9' {
			if n = n*10 + int(p.text[p.pos]-'0'); n > maxRepeat {
				n = maxRepeat + 1
			}
			p.pos++
			digits++
		}
		return n, digits > 0
	}
	lo, had := number()
	hi = lo
	if strings.HasPrefix(p.rest(), ",") {
		p.pos++
		var more bool
		if hi, more = number(); !more {
			hi = -1
		}
		had = true
	}
	return lo, hi, had && p.take("}")
}

const errBracket = SyntaxError("Unmatched [, [^, [:, [., or [=")

// bracket reads a bracket expression behind its opening bracket.
func (p *parser) bracket() (set, error) {
	var s set
	negated := strings.HasPrefix(p.rest(), "^")
	if negated {
		p.pos++
	}
	for first := true; ; first = false {
		if p.pos >= len(p.text) {
			return s, errBracket
		}
		if p.text[p.pos] == ']' && !first {
			p.pos++
			break
		}
		if strings.HasPrefix(p.rest(), "[:") {
			name, err := p.named(":]")
			if err != nil {
				return s, err
			}
			c := class(name)
			if c == (set{}) {
				return s, SyntaxError("Invalid character class name")
			}
			for i := range s {
				s[i] |= c[i]
			}
			continue
		}
		lo, err := p.element()
		if err != nil {
			return s, err
		}
		hi := lo
		if rest := p.rest(); len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			p.pos++
			if hi, err = p.element(); err != nil {
				return s, err
			}
		}
		if lo > hi {
			return s, SyntaxError("Invalid range end")
		}
		s.addRange(lo, hi)
	}
	if p.o.IgnoreCase {
		s.foldCase()
	}
	if negated {
		s.not()
	}
	return s, nil
}

// element reads one character of a bracket expression.
func (p *parser) element() (byte, error) {
	for _, form := range []string{".", "="} {
		if strings.HasPrefix(p.rest(), "["+form) {
			name, err := p.named(form + "]")
			if err == nil && len(name) != 1 {
				err = SyntaxError("Invalid collation character")
			}
			if err != nil {
				return 0, err
			}
			return name[0], nil
		}
	}
	if p.pos >= len(p.text) {
		return 0, errBracket
	}
	c := p.text[p.pos]
	p.pos++
	if c == '\\' && p.o.Sed {
		if b, size := Escape(p.rest()); size > 0 {
			p.pos += size
			return b, nil
		}
	}
	return c, nil
}

func (p *parser) named(end string) (string, error) {
	name, _, ok := strings.Cut(p.text[p.pos+2:], end)
	if !ok {
		return "", errBracket
	}
	p.pos += 2 + len(name) + len(end)
	return name, nil
}

// Class returns the bytes of a character class of POSIX in the locale C, in ascending order; nil for an unknown name.
func Class(name string) []byte {
	s := class(name)
	if name == "word" {
		return nil
	}
	var out []byte
	for c := range 256 {
		if s.has(byte(c)) {
			out = append(out, byte(c))
		}
	}
	return out
}

func class(name string) set {
	var s set
	ranges := map[string]string{
		"alpha": "azAZ", "upper": "AZ", "lower": "az", "digit": "09", "alnum": "azAZ09", "xdigit": "09afAF",
		"space": "\t\r  ", "blank": "\t\t  ", "punct": "!/:@[`{~", "print": " ~", "graph": "!~",
		"cntrl": "\x00\x1f\x7f\x7f",
		"word":  "azAZ09__",
	}[name]
	for i := 0; i+1 < len(ranges); i += 2 {
		s.addRange(ranges[i], ranges[i+1])
	}
	return s
}
