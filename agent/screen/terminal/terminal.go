// Package terminal shows the pages of the screen on a terminal and takes keys. A terminal is a monitor of the kernel
// (TERM=linux) or a serial line, which is given back when the person leaves, when nobody has touched a key for a while,
// or when somebody is asked for a passphrase there.
//
// It asks the terminal for nothing: what a terminal answers would be read as keys by whoever has the line next.
package terminal

import (
	"cmp"
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/gdamore/tcell/v3"

	"spore/agent/choice/call"
	"spore/agent/screen/page"
	"spore/agent/screen/question"
)

// Source is where the pages come from (package look).
type Source interface {
	// Status reads the status line, which takes no time, and tells whether a page changes with it.
	Status(m *page.Model) bool
	// Page finds out what one page shows besides.
	Page(ctx context.Context, name page.Name, m *page.Model)
}

// Questions are those for passphrases (package question).
type Questions interface {
	// Open lists those that are open.
	Open() []question.Question
	// Answer answers one.
	Answer(q question.Question, answer []byte) error
}

// Options say how a terminal is used.
type Options struct {
	Source Source
	// Every is how often the status line is read again.
	Every time.Duration
	// Redraw is how often the whole page is written again, over what the kernel or somebody else wrote on the terminal; 0
	// is never: a slow line takes seconds for it. Ctrl-L does it as well.
	Redraw time.Duration
	// Text is what the terminal shows, row by row without ends of lines, as far as it can be read; nil where it cannot. A
	// page that is whole is not written again.
	Text func() []byte
	// Leaves has the key q give the terminal back, Idle is how long after the last key it is given back in any case; 0 is
	// never.
	Leaves bool
	Idle   time.Duration
	// Small leaves out large letters.
	Small bool
	// Questions are asked on a page; nil where they are not.
	Questions Questions
	// Choose has the choice of a node kept or undone; nil where none is made.
	Choose func(context.Context, call.Call) call.Answer
	// Asked tells whether somebody is asked for a passphrase on this terminal by another program; nil where that does not
	// matter.
	Asked func() bool
}

// Why a terminal was given back.
var (
	ErrLeft  = errors.New("the person left")
	ErrIdle  = errors.New("nobody touched a key")
	ErrAsked = errors.New("somebody is asked for a passphrase there")
)

// Open begins with a terminal.
func Open(tty tcell.Tty) (tcell.Screen, error) {
	s, err := tcell.NewTerminfoScreenFromTty(tty, tcell.OptNegotiation(false), tcell.OptColors(0),
		tcell.OptAltScreen(false))
	if err != nil {
		return nil, err
	}
	return s, s.Init()
}

// shown is a terminal that shows pages.
type shown struct {
	Options
	screen tcell.Screen
	model  *page.Model
	view   page.View
	// asked is the question that is shown, answer what was typed so far.
	asked  question.Question
	answer []byte
	// loaded are the pages that come from the source, each with the model as it then is; cancel ends the last question.
	loaded chan *page.Model
	cancel context.CancelFunc
	// answers are those to calls of Choose.
	answers chan call.Answer
	// last is what the terminal has, unless stale: then it is written as a whole.
	last  *page.Grid
	stale bool
}

// Run shows pages until the terminal is given back, for one of the reasons above, or the context ends. The screen was
// opened by Open, and is the caller's to close.
func Run(ctx context.Context, screen tcell.Screen, o Options) error {
	s := &shown{Options: o, screen: screen, model: &page.Model{}, loaded: make(chan *page.Model), cancel: func() {},
		answers: make(chan call.Answer, 1)}
	s.view.Leaves, s.view.Small = o.Leaves, o.Small
	// As large as an answer may be, so that no part of one is left behind when it grows.
	s.answer = make([]byte, 0, question.MaxAnswer)
	defer func() { s.cancel() }()
	defer s.forget()
	s.Source.Status(s.model)
	s.ask()
	s.draw()
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	touched, drawn := time.Now(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-screen.EventQ():
			if !ok {
				return errors.New("the terminal is gone")
			}
			switch e := e.(type) {
			case *tcell.EventError:
				return e
			case *tcell.EventResize:
				s.draw()
			case *tcell.EventKey:
				touched = time.Now()
				if err := s.key(ctx, e); err != nil {
					return err
				}
			}
		case m := <-s.loaded:
			m.Question, m.Typed, m.Answered = s.model.Question, s.model.Typed, s.model.Answered
			m.Choosing = s.model.Choosing
			s.model = m
			s.Source.Status(s.model)
			s.draw()
		case a := <-s.answers:
			c := &s.model.Choosing
			c.Sent, c.Done, c.Said = false, a.Error == "", cmp.Or(a.Error, a.Done)
			s.draw()
		case now := <-tick.C:
			if o.Idle > 0 && now.Sub(touched) >= o.Idle {
				return ErrIdle
			}
			if o.Asked != nil && o.Asked() {
				return ErrAsked
			}
			news := s.Source.Status(s.model)
			news = s.ask() || news
			if o.Redraw > 0 && now.Sub(drawn) >= o.Redraw {
				drawn = now
				if !s.whole() {
					s.invalidate()
					news = true
				}
			}
			if news {
				s.draw()
			}
		}
	}
}

// key does what a key is for. Those that it does not know do nothing.
func (s *shown) key(ctx context.Context, e *tcell.EventKey) error {
	if s.view.Page == page.QuestionPage {
		s.typed(e)
		s.draw()
		return nil
	}
	_, height := s.screen.Size()
	if s.view.Page == page.ChoicePage {
		s.choose(ctx, e, page.Step(height))
		s.draw()
		return nil
	}
	step := max(height-5, 1)
	switch e.Key() {
	case tcell.KeyUp:
		s.view.Scroll--
	case tcell.KeyDown:
		s.view.Scroll++
	case tcell.KeyPgUp:
		s.view.Scroll -= step
	case tcell.KeyPgDn:
		s.view.Scroll += step
	case tcell.KeyHome:
		s.view.Scroll = 0
	case tcell.KeyEnd:
		s.view.Scroll = 1 << 30
	case tcell.KeyLeft:
		s.turn(ctx, -1)
	case tcell.KeyRight, tcell.KeyTab:
		s.turn(ctx, 1)
	case tcell.KeyEscape:
		s.show(ctx, page.StatusPage)
	case tcell.KeyCtrlL:
		s.screen.Sync()
	case tcell.KeyEnter:
		s.show(ctx, s.view.Page) // It is asked for again.
	case tcell.KeyRune:
		switch c := e.Str(); {
		case c == " ":
			s.view.Scroll += step
		case c == "q" && s.Leaves:
			return ErrLeft
		case c == string(page.KeyQuestion) && s.model.Question != "":
			s.view.Page, s.view.Scroll = page.QuestionPage, 0
		case c == string(page.KeyChoice) && s.Choose != nil:
			if !s.model.Choosing.Sent && !s.model.Choosing.Done {
				s.model.Choosing = page.Choosing{}
			}
			s.show(ctx, page.ChoicePage)
		default:
			for _, p := range page.Pages() {
				if c == string(p.Key) {
					s.show(ctx, p.Name)
				}
			}
		}
	}
	s.draw()
	return nil
}

// ask looks for questions: one that is new has its page shown, one that is gone takes its page away. It tells whether
// anything changed.
func (s *shown) ask() bool {
	if s.Questions == nil {
		return false
	}
	var first question.Question
	if open := s.Questions.Open(); len(open) > 0 {
		first = open[0]
	}
	if first == s.asked {
		return false
	}
	s.forget()
	s.asked, s.model.Question, s.model.Answered = first, first.Message, ""
	switch {
	case first.File != "":
		s.model.Question = cmp.Or(first.Message, "a passphrase")
		s.view.Page, s.view.Scroll = page.QuestionPage, 0
	case s.view.Page == page.QuestionPage:
		s.view.Page = page.StatusPage
	}
	return true
}

// forget wipes what was typed.
func (s *shown) forget() {
	clear(s.answer[:cap(s.answer)])
	s.answer, s.model.Typed = s.answer[:0], 0
}

// typed takes a key on the page of a question.
func (s *shown) typed(e *tcell.EventKey) {
	switch e.Key() {
	case tcell.KeyEscape:
		s.forget()
		s.view.Page = page.StatusPage
	case tcell.KeyCtrlL:
		s.screen.Sync()
	case tcell.KeyCtrlU:
		s.forget()
	case tcell.KeyBackspace, tcell.KeyDelete:
		if len(s.answer) > 0 {
			_, n := utf8.DecodeLastRune(s.answer)
			clear(s.answer[len(s.answer)-n:])
			s.answer, s.model.Typed = s.answer[:len(s.answer)-n], s.model.Typed-1
		}
	case tcell.KeyEnter:
		s.model.Answered = "the answer is on its way; one that is wrong is asked for again"
		if err := s.Questions.Answer(s.asked, s.answer); err != nil {
			s.model.Answered = err.Error()
		}
		s.forget()
	case tcell.KeyRune:
		if text := e.Str(); len(s.answer)+len(text) <= question.MaxAnswer {
			s.answer = append(s.answer, text...)
			s.model.Typed++
		}
	}
}

// choose takes a key on the page where a node is chosen. What is typed finds a node in the list, and repeats the name of
// the one that was taken from it.
func (s *shown) choose(ctx context.Context, e *tcell.EventKey, step int) {
	m, c := s.model, &s.model.Choosing
	switch {
	case e.Key() == tcell.KeyCtrlL:
		s.screen.Sync()
		return
	case e.Key() == tcell.KeyEscape && (c.Node == "" || c.Sent || c.Done):
		s.show(ctx, page.StatusPage)
		return
	case c.Sent || c.Done:
		return
	}
	confirms := m.Confirms() != ""
	typed := &c.Filter
	if confirms {
		typed = &c.Typed
	}
	before := *typed
	switch e.Key() {
	case tcell.KeyEscape:
		c.Node, c.Typed, c.Said = "", "", ""
	case tcell.KeyUp:
		m.Move(-1)
	case tcell.KeyDown:
		m.Move(1)
	case tcell.KeyPgUp:
		m.Move(-step)
	case tcell.KeyPgDn:
		m.Move(step)
	case tcell.KeyCtrlU:
		*typed = ""
	case tcell.KeyBackspace, tcell.KeyDelete:
		*typed = before[:max(len(before)-1, 0)]
	case tcell.KeyEnter:
		switch {
		case confirms:
			s.send(ctx)
		case !m.Take() && !m.Asked:
			s.show(ctx, page.ChoicePage) // It is asked for again.
		}
	case tcell.KeyRune:
		if text := e.Str(); len(text) == 1 && text[0] > ' ' && text[0] < 0x7f && len(before) < page.MaxTyped {
			*typed += text
		}
	}
	if !confirms && *typed != before {
		c.At = 0
	}
}

// send has a choice kept or undone whose node the person has named once more. It goes on when the page is left.
func (s *shown) send(ctx context.Context) {
	c := &s.model.Choosing
	order, problem := s.model.Confirmed()
	if c.Said = problem; problem != "" {
		return
	}
	c.Sent = true
	go func() { s.answers <- s.Choose(context.WithoutCancel(ctx), order) }()
}

// turn goes to the page beside.
func (s *shown) turn(ctx context.Context, by int) {
	n := len(page.Pages())
	s.show(ctx, page.Name((int(s.view.Page)+by+n)%n))
}

// show goes to a page, and has the source find out what it shows.
func (s *shown) show(ctx context.Context, name page.Name) {
	s.cancel()
	s.view.Page, s.view.Scroll = name, 0
	ctx, s.cancel = context.WithCancel(ctx)
	m := *s.model
	m.Asked, s.model.Asked = false, true
	go func() {
		s.Source.Page(ctx, name, &m)
		if ctx.Err() != nil {
			return // A select takes either of two that are ready.
		}
		select {
		case s.loaded <- &m:
		case <-ctx.Done():
		}
	}()
}

// invalidate has each cell written again. Sync would clear the monitor before that, which flickers.
func (s *shown) invalidate() {
	if cells, ok := s.screen.(interface{ GetCells() *tcell.CellBuffer }); ok {
		cells.GetCells().Invalidate()
		s.stale = true
	}
}

// whole tells whether the terminal shows the page that was drawn last: nobody else has written on it. To write a page of
// a large monitor again costs the kernel more than all else here.
func (s *shown) whole() bool {
	if s.Text == nil || s.last == nil {
		return false
	}
	text := s.Text()
	if len(text) != s.last.Width*s.last.Height {
		return false
	}
	for i, c := range text {
		if c != s.last.At(i%s.last.Width, i/s.last.Width).Char {
			return false
		}
	}
	return true
}

// few is how many cells that are right already are written again rather than have the cursor moved over them: a move
// takes seven bytes or so (ECMA-48, 8.3.21).
const few = 6

// draw draws the page, and writes what is new. A page that is the same costs a slow line nothing.
func (s *shown) draw() {
	width, height := s.screen.Size()
	if width < 1 || height < 1 {
		return
	}
	g, scroll := s.model.Render(s.view, width, height)
	s.view.Scroll = scroll
	cells, _ := s.screen.(interface{ GetCells() *tcell.CellBuffer })
	all := s.last == nil || s.last.Width != g.Width || s.last.Height != g.Height
	news := all || s.stale
	for y := range g.Height {
		last := -1 // the last cell of the row that is written
		for x := range g.Width {
			c := g.At(x, y)
			if !all && c == s.last.At(x, y) {
				continue
			}
			s.screen.SetContent(x, y, rune(c.Char), nil, style(c.Style))
			if all && cells != nil && !cells.GetCells().Dirty(x, y) {
				continue // It is blank on both.
			}
			if cells != nil && last >= 0 && x-last-1 <= few {
				for between := last + 1; between < x; between++ {
					cells.GetCells().SetDirty(between, y, true)
				}
			}
			last, news = x, true
		}
	}
	s.last, s.stale = g, false
	if news {
		s.screen.Show()
	}
}

func style(s page.Style) tcell.Style {
	switch s {
	case page.Bold:
		return tcell.StyleDefault.Bold(true)
	case page.Reverse:
		return tcell.StyleDefault.Reverse(true)
	}
	return tcell.StyleDefault
}
