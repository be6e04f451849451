// Package ecma48 reads what a guest writes on its console, for the terminal of whoever looks at it: as lines without
// what a terminal obeys, or as a page that may move the cursor and nothing else. The text comes from elsewhere: from
// firmware, from the kernel, and from names in the guest's network. A terminal can be told to change its title, to write
// into the clipboard, or to answer as if somebody had typed.
//
// It follows ECMA-48 (5.4, 5.6) in its form of 7 bits, and is no terminal: it does not know where the cursor is.
package ecma48

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

const (
	esc, can, sub, del = 0x1b, 0x18, 0x1a, 0x7f
	// maxParameters bounds the parameters of a sequence in bytes. The longest of a page has 7.
	maxParameters = 32
	// maxString is after how many bytes a string that nobody ends is taken for text again.
	maxString = 4096
)

// Kind tells what a token is.
type Kind int

// Kinds of tokens.
const (
	// None is a byte after which more has to come.
	None Kind = iota
	// Text is a byte of text: printable ASCII, or of a character in UTF-8.
	Text
	// Control is a control character (ECMA-48, 5.2, and DEL).
	Control
	// Escape is an escape sequence other than Sequence (5.3.3 and ECMA-35, 13): Byte is the final one.
	Escape
	// Sequence is a control sequence (5.4): Byte is the final one.
	Sequence
)

// Token is what one or more bytes mean.
type Token struct {
	Kind Kind
	Byte byte
	// Parameters are those of a control sequence as they came, such as "1;31" or "?25". Odd is one that has intermediate
	// bytes, or more than maxParameters of parameters, which are left out.
	Parameters string
	Odd        bool
}

// Is tells whether a token is a control sequence, such as "?1" and 'h'.
func (t Token) Is(parameters string, final byte) bool {
	return t.Kind == Sequence && !t.Odd && t.Byte == final && t.Parameters == parameters
}

type state int

const (
	ground state = iota
	escape
	sequence
	text // of a string that a terminal obeys: OSC, DCS, SOS, PM, APC (5.6)
)

// Parser makes tokens of bytes. The zero value begins with text.
type Parser struct {
	state      state
	parameters []byte
	odd        bool
	skipped    int
}

// Next takes a byte. Sequences that are broken off, and strings for the terminal, give no token.
func (p *Parser) Next(b byte) Token {
	switch {
	case b == esc:
		p.state, p.odd, p.parameters = escape, false, p.parameters[:0]
		return Token{}
	case p.state == text:
		// BEL ends it as ST does, at all terminals that have titles.
		if p.skipped++; b == '\a' || b == can || b == sub || b == '\n' || p.skipped >= maxString {
			p.state = ground
		}
		if b == '\n' {
			return Token{Kind: Control, Byte: b}
		}
		return Token{}
	case b < ' ' || b == del:
		p.state = ground
		return Token{Kind: Control, Byte: b}
	case b >= 0x80:
		p.state = ground
		return Token{Kind: Text, Byte: b}
	}
	switch p.state {
	case escape:
		switch {
		case b <= '/':
			p.odd = true
			return Token{}
		case p.odd:
		case b == '[':
			p.state = sequence
			return Token{}
		case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
			p.state, p.skipped = text, 0
			return Token{}
		}
		p.state = ground
		return Token{Kind: Escape, Byte: b, Odd: p.odd}
	case sequence:
		switch {
		case b >= '@':
			p.state = ground
			return Token{Kind: Sequence, Byte: b, Parameters: string(p.parameters), Odd: p.odd}
		case b <= '/' || p.odd || len(p.parameters) == maxParameters:
			p.odd = true
		default:
			p.parameters = append(p.parameters, b)
		}
		return Token{}
	}
	return Token{Kind: Text, Byte: b}
}

// Strip is the text of a line, and its tabulators. What is no UTF-8 is U+FFFD, but for the beginning of a character at
// the end: more of the line may come. Characters that turn the direction of writing are left out as well: they show a
// text in another order than it has.
func Strip(line []byte) string {
	var p Parser
	var plain []byte
	for _, b := range line {
		if t := p.Next(b); t.Kind == Text || t.Kind == Control && b == '\t' {
			plain = append(plain, b)
		}
	}
	out := make([]byte, 0, len(plain))
	for len(plain) > 0 && utf8.FullRune(plain) {
		r, n := utf8.DecodeRune(plain)
		if r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r) {
			out = utf8.AppendRune(out, r)
		}
		plain = plain[n:]
	}
	return string(out)
}

// What a page may have set (ECMA-48, 8.3.117): nothing, bold, reverse.
const plain, bold, reverse = 0, 1, 7

// maxDigits is what a number has at most: no terminal is that large.
const maxDigits = 3

// AppendPage appends a token of a page of text: ASCII, with a question mark for each other character, and the moves of
// the cursor (CUU, CUD, CUF, CUB, CUP), erasures (ED, EL) and renditions (SGR) with which one is drawn. It leaves out
// everything else.
func AppendPage(page []byte, t Token) []byte {
	switch t.Kind {
	case Text:
		switch {
		case t.Byte < 0x80:
			return append(page, t.Byte)
		case t.Byte >= 0xc0: // The other bytes of the character follow.
			return append(page, '?')
		}
	case Control:
		switch t.Byte {
		case '\b', '\t', '\n', '\r':
			return append(page, t.Byte)
		}
	case Sequence:
		if n, ok := numbers(t.Parameters); ok && !t.Odd && drawn(t.Byte, n) {
			return append(append(append(page, esc, '['), t.Parameters...), t.Byte)
		}
	}
	return page
}

func drawn(final byte, n []int) bool {
	switch final {
	case 'A', 'B', 'C', 'D':
		return len(n) == 1
	case 'H':
		return len(n) <= 2
	case 'J', 'K':
		return len(n) == 1 && n[0] <= 2
	case 'm':
		for _, v := range n {
			if v != plain && v != bold && v != reverse {
				return false
			}
		}
		return true
	}
	return false
}

// numbers are those between semicolons; one that is left out is 0. There is one at least.
func numbers(parameters string) ([]int, bool) {
	var out []int
	begin := 0
	for i := 0; i <= len(parameters); i++ {
		if i < len(parameters) && parameters[i] != ';' {
			continue
		}
		n := 0
		if word := parameters[begin:i]; word != "" {
			v, err := strconv.ParseUint(word, 10, 16)
			if err != nil || len(word) > maxDigits {
				return nil, false
			}
			n = int(v)
		}
		out, begin = append(out, n), i+1
	}
	return out, true
}
