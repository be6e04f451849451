// Package regex has the regular expressions of sed, grep and expr: POSIX basic and extended ones (IEEE Std 1003.1,
// chapter 9) with GNU's \+ \? \| \< \> \b \B \w \W \s \S \` and \', in the locale C. The match is the leftmost one and
// of those the longest. A byte is a character.
//
// Go's own package regexp has no back-references and no \<, and its characters are runes; so a small machine does the
// work here: it follows all ways through the expression and visits no state twice, which takes time in proportion to
// text times expression. Only an expression with back-references may visit a state again, and has a bound of steps.
//
// A group in a repetition keeps what it matched first of the longest match; glibc may tell another part where the group
// can be empty. Left out: collating symbols and equivalence classes of more than one character, and Perl's expressions.
package regex

import (
	"fmt"

	"spore/builder/replay/files"
)

// Bounds of one expression and one match.
const (
	// MaxPattern is the length of the longest expression, in bytes.
	MaxPattern = 64 << 10
	// maxProgram is how many instructions an expression may become; intervals multiply them.
	maxProgram = 20_000
	// maxDepth is how deep groups may nest.
	maxDepth = 200
	// maxRepeat is the largest number of an interval, RE_DUP_MAX of glibc.
	maxRepeat = 32767
	// maxStates is how many states, instructions times bytes of text, one match may have: 16 MiB of bits.
	maxStates = 128 << 20
	// maxStack is how many ways may wait to be tried: 64 MiB.
	maxStack = 4 << 20
	// maxSteps is how many steps a match with back-references may take.
	maxSteps = 5_000_000
)

// Options say how an expression is read.
type Options struct {
	// Extended reads an extended expression, else a basic one.
	Extended bool
	// IgnoreCase makes A and a the same.
	IgnoreCase bool
	// Multiline lets ^ and $ also match at the line ends inside of a text.
	Multiline bool
	// Sed reads as sed does: \n \t \f \v \a \r and \cX \dNNN \oNNN \xHH are escapes, and operators with nothing to
	// repeat, braces without an interval and closing parentheses without an opening one are errors in an extended
	// expression. Else such operators are left out, and such braces and parentheses are themselves.
	Sed bool
}

// Regex is a compiled expression. It is for one goroutine at a time.
type Regex struct {
	prog     []inst
	groups   int
	slots    int
	backrefs bool
	fold     bool
	first    *set // bytes that a match can begin with; nil when it may be empty
	visited  []uint64
	stack    []frame
}

// Compile reads an expression. Its error is a SyntaxError or wraps files.ErrBound.
func Compile(pattern string, o Options) (*Regex, error) {
	if len(pattern) > MaxPattern {
		return nil, fmt.Errorf("a regular expression of %d bytes, over %d: %w", len(pattern), MaxPattern,
			files.ErrBound)
	}
	p := &parser{text: pattern, o: o}
	root, err := p.parse()
	if err != nil {
		return nil, err
	}
	c := &compiler{slots: 2 * (p.groups + 1), many: o.Multiline, backrefs: p.backrefs}
	if err := c.node(root); err != nil {
		return nil, err
	}
	if err := c.emit(inst{op: opMatch}); err != nil {
		return nil, err
	}
	r := &Regex{prog: c.prog, groups: p.groups, slots: c.slots, backrefs: p.backrefs, fold: o.IgnoreCase}
	r.first = firstBytes(r.prog)
	return r, nil
}

// Groups is the number of groups of the expression.
func (r *Regex) Groups() int { return r.groups }

// Match finds the leftmost longest match that begins at from or later. It answers the begin and end of the match and of
// each group, -1 for a group without a match; nil means no match. The error wraps files.ErrBound.
func (r *Regex) Match(text []byte, from int) ([]int, error) { return r.match(text, from, len(text)) }

// MatchStart finds the longest match that begins where the text begins, as if the expression had an anchor.
func (r *Regex) MatchStart(text []byte) ([]int, error) { return r.match(text, 0, 0) }

func (r *Regex) match(text []byte, from, last int) ([]int, error) {
	if !r.backrefs && len(r.prog)*(len(text)+1) > maxStates {
		return nil, fmt.Errorf("match %d bytes against a regular expression of %d steps: %w", len(text),
			len(r.prog), files.ErrBound)
	}
	m := machine{r: r, text: text, low: from, high: from, caps: make([]int, r.slots)}
	if !r.backrefs {
		need := (len(r.prog)*(len(text)+1) + 63) / 64
		if len(r.visited) < need {
			r.visited = make([]uint64, need+need/4)
		}
		defer m.forget()
	}
	for start := from; start <= last; start++ {
		if r.first != nil && (start == len(text) || !r.first.has(text[start])) {
			continue
		}
		if err := m.run(start); err != nil {
			return nil, err
		}
		if m.best != nil {
			return m.best[:2*(r.groups+1)], nil
		}
	}
	return nil, nil
}

// Matches tells whether the expression matches anywhere in a text.
func (r *Regex) Matches(text []byte) (bool, error) {
	loc, err := r.Match(text, 0)
	return loc != nil, err
}

// set is a set of bytes.
type set [4]uint64

func (s *set) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *set) has(b byte) bool { return s[b>>6]&(1<<(b&63)) != 0 }
func (s *set) not() {
	for i := range s {
		s[i] = ^s[i]
	}
}

func (s *set) addRange(lo, hi byte) {
	for c := int(lo); c <= int(hi); c++ {
		s.add(byte(c))
	}
}

func (s *set) foldCase() {
	for c := byte('a'); c <= 'z'; c++ {
		if s.has(c) || s.has(c-32) {
			s.add(c)
			s.add(c - 32)
		}
	}
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// SyntaxError is what glibc says of a bad expression, as "Unmatched ( or \\(".
type SyntaxError string

// Error implements error.
func (e SyntaxError) Error() string { return string(e) }
