package vm

import (
	"fmt"
	"io"

	"spore/builder/vm/ecma48"
)

// PageColumns and PageLines are for how large a terminal a page is drawn: a serial line does not say how large the one
// at its end is.
const PageColumns, PageLines = 80, 24

// maxPage bounds what is kept of a page for who looks later, in bytes. A page takes 2 KiB, and 20 bytes a minute.
const maxPage = 256 << 10

// taker finds out whether a program of the guest has taken the terminal for itself, as spore-screen does for its pages,
// and what it draws. Such a program switches the keypad on when it begins and off when it ends (VT100 User Guide,
// DECKPAM and DECKPNM), which nothing does that writes lines: not the kernel, systemd, or firmware.
type taker struct {
	taken  bool
	parser ecma48.Parser
	// before is the token before, drawn what a page drew since the last look, fresh that all before it is erased.
	before ecma48.Token
	drawn  []byte
	fresh  bool
	// said is how much of statusPrefix was in the last bytes.
	said int
}

// next takes a byte, and tells whether the terminal was taken or given back with it.
func (t *taker) next(b byte) (turned bool) {
	token := t.parser.Next(b)
	if token.Kind == ecma48.None {
		return false
	}
	before := t.before
	t.before = token
	if !t.taken {
		t.taken = !token.Odd && token.Kind == ecma48.Escape && token.Byte == '=' && before.Is("?1", 'h')
		t.said, t.drawn, t.fresh = 0, t.drawn[:0], false
		return t.taken
	}
	if t.ends(token) {
		t.taken = false
		return true
	}
	t.drawn = ecma48.AppendPage(t.drawn, token)
	if token.Is("", 'J') && before.Is("", 'H') {
		t.drawn, t.fresh = append(t.drawn[:0], home+erase...), true
	}
	return false
}

// ends tells whether a program gives the terminal back with a token, or is gone: its machine was restarted, and firmware
// erases what is there, or the agent goes on with its lines because the program was killed.
func (t *taker) ends(token ecma48.Token) bool {
	switch {
	case token.Kind == ecma48.Escape && !token.Odd && (token.Byte == '>' || token.Byte == 'c'), token.Is("2", 'J'):
		return true
	case token.Kind == ecma48.Control && token.Byte == '\n' && t.said == len(statusPrefix):
		return true
	case t.said == len(statusPrefix):
	case token.Kind == ecma48.Text && token.Byte == statusPrefix[t.said]:
		t.said++
	default:
		t.said = 0
	}
	return false
}

// page is what a program drew that has the terminal, or had it last.
type page struct {
	// number tells pages apart; the first is 1.
	number int
	open   bool
	// drawn is what was drawn from a time on at which base bytes were drawn and erased.
	base  int
	drawn []byte
}

// turn is called when the terminal was taken or given back.
func (c *Console) turn(taken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if taken {
		c.page = page{number: c.page.number}
		c.page.number++
	}
	c.page.open = taken
	c.tell()
}

// draw keeps what a page drew since the last call.
func (c *Console) draw(t *taker) {
	if !t.taken || len(t.drawn) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.page
	if t.fresh || len(p.drawn)+len(t.drawn) > maxPage {
		p.base, p.drawn = p.base+len(p.drawn), nil
	}
	p.drawn = append(p.drawn, t.drawn...)
	t.drawn, t.fresh = t.drawn[:0], false
	c.tell()
}

// What a terminal is told by this program alone (ECMA-48, 8.3, and XTerm Control Sequences for the private modes): the
// page has a screen of its own, so that the lines are there when it is closed. The keypad is switched as in the guest:
// this text may be read by Collect in another process.
const (
	home, erase = "\x1b[H", "\x1b[J"
	enter       = "\x1b[?1049h\x1b[?7l\x1b[?25l\x1b[m\x1b[?1h\x1b=" + home + erase
	leave       = "\x1b[?1l\x1b>\x1b[m\x1b[?25h\x1b[?7h\x1b[?1049l"
)

// view is a terminal on which pages are shown. A nil one shows none.
type view struct {
	w    io.Writer
	fits func() bool
	// in says that the page of a number is shown as far as at; small is the page of which was told that it does not fit.
	in                bool
	number, at, small int
}

// gone closes a page that is no longer there.
func (v *view) gone(p page) error {
	if v == nil || p.open && p.number == v.number {
		return nil
	}
	return v.leave()
}

func (v *view) leave() error {
	if !v.in {
		return nil
	}
	v.in = false
	_, err := io.WriteString(v.w, leave)
	return err
}

// draw shows what is new of a page that is open.
func (v *view) draw(p page) error {
	if v == nil || !p.open {
		return nil
	}
	if !v.in {
		if v.fits != nil && !v.fits() {
			if v.small == p.number {
				return nil
			}
			v.small = p.number
			_, err := fmt.Fprintf(v.w, "\na page of %dx%d is open, and this terminal is smaller: enlarge it and press Ctrl-L, "+
				"or press q\n", PageColumns, PageLines)
			return err
		}
		if _, err := io.WriteString(v.w, enter); err != nil {
			return err
		}
		v.in, v.number, v.at = true, p.number, p.base
	}
	v.at = max(v.at, p.base)
	_, err := v.w.Write(p.drawn[v.at-p.base:])
	v.at = p.base + len(p.drawn)
	return err
}
