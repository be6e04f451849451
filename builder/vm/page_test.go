package vm

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3/vt"
	"github.com/stretchr/testify/require"
)

// What spore-screen writes when it begins on a serial line, and when it ends.
const (
	begins = "\x1b[?1000l\x1b[?1006l\x1b[?2004l\x1b[?1h\x1b=\x1b(B\x1b)0\x1b[?25l\x1b[?7l\x1b[H\x1b[J\x1b[?2026h\x1b[25;81H"
	ends   = "\x1b[?25h\x1b[?1l\x1b>\x1b[m\x1b[?7h\x1b[?1000l\x1b[?1004l"
)

// bound is how long a person waits.
const bound = 20 * time.Second

// person looks at a console on a terminal: one for lines, and another one that is in front while a page is shown.
type person struct {
	t                  *testing.T
	guest              *io.PipeWriter
	ended              chan error
	mu                 sync.Mutex
	lines, page, front vt.MockTerm
}

func before(t *testing.T, fits func() bool) *person {
	c := newConsole()
	r, w := io.Pipe()
	go c.read(r, io.Discard, func() (time.Duration, time.Duration) { return 0, 0 })
	p := &person{t: t, guest: w, ended: make(chan error, 1), lines: fresh(t), page: fresh(t)}
	p.front = p.lines
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { p.ended <- c.FollowPages(ctx, p, fits) }()
	t.Cleanup(func() { _ = w.Close() })
	return p
}

func fresh(t *testing.T) vt.MockTerm {
	m := vt.NewMockTerm(vt.MockOptSize{X: 100, Y: 30})
	require.NoError(t, m.Start())
	t.Cleanup(func() { _ = m.Stop() })
	return m
}

// Write ends lines as a terminal's driver does, and turns to the other screen as XTerm does (1049).
func (p *person) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.ReplaceAll(string(b), "\n", "\r\n")
	for text != "" {
		i := strings.Index(text, "\x1b[?1049")
		if i < 0 {
			i = len(text)
		}
		if _, err := p.front.Write([]byte(text[:i])); err != nil {
			return 0, err
		}
		if text = text[i:]; text != "" {
			p.front = map[bool]vt.MockTerm{true: p.page, false: p.lines}[text[7] == 'h']
			text = text[8:]
		}
	}
	return len(b), nil
}

func (p *person) says(text string) {
	_, err := io.WriteString(p.guest, text)
	require.NoError(p.t, err)
}

// text is what the person sees, without what is empty.
func (p *person) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for y := range 30 {
		row := ""
		for x := range 100 {
			c := p.front.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)}).C
			if c == "" {
				c = " "
			}
			row += c
		}
		b.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	return strings.Trim(b.String(), "\n")
}

func (p *person) sees(text string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.text() == text }, bound, 5*time.Millisecond, "%q", text)
}

func TestAPageIsDrawnAndTheLinesComeBack(t *testing.T) {
	p := before(t, nil)
	p.says("\x1b[2J\x1b[01;01HBdsDxe: loading\r\none\r\n")
	p.sees("BdsDxe: loading\none")
	p.says(begins + "\x1b[1;1H\x1b[m\x1b[7m edge-01 \x1b[3;3H\x1b[mroles")
	p.sees(" edge-01\n\n  roles")
	p.says("\x1b[3;3Hdisks\r\n")
	p.sees(" edge-01\n\n  disks")
	p.says("\x1b[H\x1b[J\x1b[2;2Hagain")
	p.sees(" again")
	p.says("\x1b[3;1Ha message of the kernel\r\n" + ends + "\n" + statusPrefix + `"node":"a"}` + "\n")
	p.sees("BdsDxe: loading\none\n\n" + statusPrefix + `"node":"a"}`)
	p.says(begins + "\x1b[Hx")
	p.sees("x")
	require.NoError(t, p.guest.Close())
	require.NoError(t, <-p.ended)
	p.sees("BdsDxe: loading\none\n\n" + statusPrefix + `"node":"a"}`)
}

func TestAPageWhoseProgramIsGoneIsClosed(t *testing.T) {
	for name, says := range map[string]string{
		"it was killed, and the agent goes on":      statusPrefix + `"node":"a"}` + "\r\n",
		"the machine was restarted: UEFI":           "\x1b[2J\x1b[01;01H\r\n",
		"the machine was restarted: other firmware": "\x1bc\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			p := before(t, nil)
			p.says("one\r\n" + begins + "\x1b[1;1Hpage\r\n")
			p.sees("page")
			p.says(says)
			p.says("two\r\n")
			require.Eventually(t, func() bool {
				text := p.text()
				return strings.HasPrefix(text, "one\n") && strings.HasSuffix(text, "two") && !strings.Contains(text, "page")
			}, bound, 5*time.Millisecond)
		})
	}
}

func TestAPageCannotHarmATerminal(t *testing.T) {
	p := before(t, nil)
	p.says(begins + "\x1b]0;evil\a\x1b]52;c;aGk=\x1b\\\x1b[6n\x1b[c\x1b[?1049l\x1b[?25h\x1b[4h\x1b[2;5r\x1b[1;1Hname\x9b6n\xc2\x9bc")
	p.sees("name6n?c")
	require.Empty(t, p.page.GetTitle())
	require.Empty(t, p.lines.GetTitle())
	require.NoError(t, p.guest.Close())
	require.NoError(t, <-p.ended)
	require.Empty(t, p.text())
}

func TestATerminalThatIsTooSmallKeepsItsLines(t *testing.T) {
	large := make(chan bool, 1)
	large <- false
	p := before(t, func() bool {
		is := <-large
		large <- is
		return is
	})
	const small = "one\n\na page of 80x24 is open, and this terminal is smaller: enlarge it and press Ctrl-L, or press q"
	p.says("one\n" + begins + "page")
	p.sees(small)
	p.says("more")
	<-large
	large <- true
	p.says("\x1b[H\x1b[Jall")
	p.sees("all")
	p.says(ends + "\r\n")
	p.sees(small)
}

func TestWhoLooksLaterSeesThePage(t *testing.T) {
	c := newConsole()
	in := "one\n" + begins + "old\x1b[H\x1b[J\x1b[2;3Hpage"
	c.read(strings.NewReader(in), io.Discard, func() (time.Duration, time.Duration) { return 0, 0 })
	var out strings.Builder
	require.NoError(t, c.FollowPages(t.Context(), &out, nil))
	require.Equal(t, "one\n"+enter+"\x1b[H\x1b[J\x1b[2;3Hpage"+leave, out.String())

	out.Reset()
	require.NoError(t, c.Follow(t.Context(), &out))
	require.Equal(t, "one\noldpage\n", out.String())
}

func TestAPageThatIsNeverErasedIsBounded(t *testing.T) {
	c := newConsole()
	in := begins + strings.Repeat("x", 3*maxPage/2)
	c.read(strings.NewReader(in), io.Discard, func() (time.Duration, time.Duration) { return 0, 0 })
	require.LessOrEqual(t, len(c.page.drawn), maxPage)
	require.GreaterOrEqual(t, c.page.base+len(c.page.drawn), 3*maxPage/2)
}

func TestAnotherProcessShowsThePage(t *testing.T) {
	c := newConsole()
	in := "one\n" + begins + "\x1b[2;3Hpage" + ends + "\ntwo\n" + begins + "\x1b[Hagain"
	c.read(strings.NewReader(in), io.Discard, func() (time.Duration, time.Duration) { return 0, 0 })
	there, here := io.Pipe()
	go func() { _ = here.CloseWithError(c.FollowPages(t.Context(), here, nil)) }()
	other := Collect(there, io.Discard, func() (time.Duration, time.Duration) { return 0, 0 })
	_, _, err := other.Await(t.Context(), 0, "the end", func(Line) bool { return false })
	require.ErrorContains(t, err, "the machine ended")
	require.Equal(t, 1, other.page.number, "the first page was closed before anybody looked")
	require.False(t, other.page.open)
	require.Contains(t, string(other.page.drawn), "again")
	var out strings.Builder
	require.NoError(t, other.FollowPages(t.Context(), &out, nil))
	require.Equal(t, "one\n\ntwo\n", out.String())
}
