package terminal

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/vt"
	"github.com/stretchr/testify/require"

	"spore/agent/choice/call"
	"spore/agent/screen/page"
	"spore/agent/screen/question"
)

// source is a machine of a test.
type source struct {
	mu     sync.Mutex
	failed []string
	// hold has pages wait until their context ends.
	hold bool
	// holdServices does so for one page.
	holdServices bool
	// same has the source say that nothing changes, whatever does.
	same bool
}

func (s *source) Status(m *page.Model) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.Now = time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)
	m.Status = &page.Status{Cluster: "plant", Node: "edge-01", System: "running", Roles: []string{"dns-server"},
		Services: map[string]string{"dns.target": "active"}, Failed: s.failed, Addresses: []string{"10.77.0.11"}}
	return !s.same
}

func (s *source) Page(ctx context.Context, name page.Name, m *page.Model) {
	if s.hold || s.holdServices && name == page.ServicesPage {
		<-ctx.Done()
		m.Journal, m.JournalProblem = nil, "it was cut off"
		return
	}
	if name == page.JournalPage {
		m.Journal = []string{"the newest line"}
	}
}

func (s *source) fail(unit string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = []string{unit}
}

// recorder is a terminal that keeps what is sent to it.
type recorder struct {
	vt.MockTerm
	mu   sync.Mutex
	sent bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	r.sent.Write(p)
	r.mu.Unlock()
	return r.MockTerm.Write(p)
}

// take returns what was sent since the last call.
func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.sent.Reset()
	return r.sent.String()
}

// text is what a person sees.
func (r *recorder) text() string {
	var b strings.Builder
	for y := range 24 {
		row := ""
		for x := range 80 {
			c := r.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)}).C
			if c == "" {
				c = " "
			}
			row += c
		}
		b.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	return b.String()
}

// run shows pages on a terminal of 80x24 cells. end ends it, and ended has why it ended.
func run(t *testing.T, o Options) (r *recorder, end func(), ended chan error) {
	r = &recorder{MockTerm: vt.NewMockTerm(vt.MockOptSize{X: 80, Y: 24})}
	screen, err := Open(r)
	require.NoError(t, err)
	if o.Every == 0 {
		o.Every = 10 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended = make(chan error, 1)
	go func() { ended <- Run(ctx, screen, o) }()
	t.Cleanup(func() { cancel(); screen.Fini() })
	return r, cancel, ended
}

// sees waits until a person sees a text.
func sees(t *testing.T, r *recorder, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(r.text(), text) }, time.Minute, 5*time.Millisecond,
		"%s", text)
}

func tap(r *recorder, keys ...vt.Key) {
	for _, k := range keys {
		r.KeyTap(k)
	}
}

func TestAPersonLooksAtPages(t *testing.T) {
	src := &source{}
	r, end, ended := run(t, Options{Source: src, Small: true})
	sees(t, r, "[ ok ] dns-server")
	tap(r, vt.Key3)
	sees(t, r, "the newest line")
	tap(r, vt.KeyRight)
	sees(t, r, "edge-01 of plant - network")
	tap(r, vt.KeyEsc)
	sees(t, r, "role        [ ok ] dns-server")
	src.fail("coredns.service")
	sees(t, r, "[FAIL] coredns.service")
	tap(r, vt.KeyQ)
	end()
	require.ErrorIs(t, <-ended, context.Canceled, "a monitor is not given back")
}

// questions are those of a test.
type questions struct {
	mu      sync.Mutex
	open    []question.Question
	answers []string
}

func (q *questions) Open() []question.Question {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.open
}

func (q *questions) Answer(of question.Question, answer []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answers = append(q.answers, of.File+" "+string(answer))
	return nil
}

func (q *questions) set(open ...question.Question) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = open
}

func TestAPassphraseIsTyped(t *testing.T) {
	q := &questions{}
	r, _, _ := run(t, Options{Source: &source{}, Questions: q, Small: true})
	sees(t, r, "[ ok ] dns-server")
	tap(r, vt.Key2)
	sees(t, r, "- services")
	q.set(question.Question{File: "ask.1", Message: "Passphrase of x:"})
	sees(t, r, "asked       Passphrase of x:")
	tap(r, vt.KeyA, vt.Key1, vt.KeyQ, vt.KeyBackspace, vt.KeySpace, vt.Key9)
	sees(t, r, "answer      ****_")
	require.NotContains(t, r.text(), "a1")
	tap(r, vt.KeyEnter)
	sees(t, r, "the answer is on its way")
	sees(t, r, "answer      _")
	q.set(question.Question{File: "ask.2", Message: "That was wrong. Passphrase of x:"})
	sees(t, r, "That was wrong. Passphrase of x:")
	tap(r, vt.KeyB, vt.KeyEsc)
	sees(t, r, "Press p to answer.")
	sees(t, r, "[ ok ] dns-server")
	tap(r, vt.KeyP)
	sees(t, r, "answer      _")
	tap(r, vt.KeyC, vt.KeyEnter)
	sees(t, r, "the answer is on its way")
	q.set()
	sees(t, r, "[ ok ] dns-server")
	require.NotContains(t, r.text(), "asked")
	q.mu.Lock()
	defer q.mu.Unlock()
	require.Equal(t, []string{"ask.1 a1 9", "ask.2 c"}, q.answers)
}

// stranger is a machine that matches no node, with nodes to choose.
type stranger struct {
	source
	refused string
}

func (s *stranger) Status(m *page.Model) bool {
	s.source.Status(m)
	m.Status.Node, m.Status.Problem = "", "it is in no file"
	return true
}

func (s *stranger) Page(ctx context.Context, name page.Name, m *page.Model) {
	if name == page.ChoicePage {
		m.Choice = &call.View{Refused: s.refused, Nodes: []call.Node{{Name: "edge-01"}, {Name: "spare-1"}, {Name: "stor-1"}}}
	}
}

func TestAPersonChoosesANode(t *testing.T) {
	calls := make(chan call.Call, 9)
	answers := make(chan call.Answer)
	r, _, _ := run(t, Options{Source: &stranger{}, Small: true, Choose: func(_ context.Context, c call.Call) call.Answer {
		calls <- c
		return <-answers
	}})
	sees(t, r, "key n chooses")
	tap(r, vt.KeyN)
	sees(t, r, "> [   ] edge-01")
	tap(r, vt.KeyDown)
	sees(t, r, "> [   ] spare-1")
	tap(r, vt.KeyEnter)
	sees(t, r, "Enter chooses")
	tap(r, vt.KeyEsc)
	sees(t, r, "Enter takes")
	tap(r, vt.KeyS, vt.KeyT, vt.Key1, vt.KeyBackspace)
	sees(t, r, "> [   ] stor-1")
	require.NotContains(t, r.text(), "edge-01")
	tap(r, vt.KeyEnter, vt.KeyS, vt.KeyEnter)
	sees(t, r, "that is not the name stor-1")
	require.Empty(t, calls)
	tap(r, vt.KeyT, vt.KeyO, vt.KeyR, vt.KeyMinus, vt.Key1, vt.KeyEnter)
	sees(t, r, "it is being done")
	require.Equal(t, call.Call{Do: call.Choose, Node: "stor-1", Confirm: "stor-1"}, <-calls)
	answers <- call.Answer{Error: "the medium is write-protected"}
	sees(t, r, "answer      the medium is write-protected")
	tap(r, vt.KeyEnter)
	<-calls
	answers <- call.Answer{Done: "this machine is stor-1"}
	sees(t, r, "done        this machine is stor-1")
	tap(r, vt.KeyEnter, vt.KeyEsc)
	sees(t, r, "key n chooses")
	require.Empty(t, calls, "what is done is not done again")
}

func TestNothingIsChosenWhereThatIsRefused(t *testing.T) {
	r, _, _ := run(t, Options{Source: &stranger{refused: "started from a disc"}, Small: true,
		Choose: func(context.Context, call.Call) call.Answer { panic("nobody may") }})
	tap(r, vt.KeyN)
	sees(t, r, "started from a disc")
	tap(r, vt.KeyEnter)
	sees(t, r, "Enter asks again")
	require.NotContains(t, r.text(), "Enter chooses")
}

func TestASerialLineIsGivenBack(t *testing.T) {
	t.Run("a key", func(t *testing.T) {
		r, _, ended := run(t, Options{Source: &source{}, Leaves: true})
		sees(t, r, "q quit")
		tap(r, vt.KeyQ)
		require.ErrorIs(t, <-ended, ErrLeft)
	})
	t.Run("nobody is there", func(t *testing.T) {
		_, _, ended := run(t, Options{Source: &source{}, Idle: 20 * time.Millisecond})
		require.ErrorIs(t, <-ended, ErrIdle)
	})
	t.Run("a passphrase is asked for", func(t *testing.T) {
		_, _, ended := run(t, Options{Source: &source{}, Asked: func() bool { return true }})
		require.ErrorIs(t, <-ended, ErrAsked)
	})
}

func TestAPageThatDoesNotComeHoldsNothingUp(t *testing.T) {
	r, _, ended := run(t, Options{Source: &source{hold: true}, Leaves: true, Small: true})
	tap(r, vt.Key3)
	sees(t, r, "it is being asked for")
	tap(r, vt.Key1)
	sees(t, r, "[ ok ] dns-server")
	tap(r, vt.KeyQ)
	require.ErrorIs(t, <-ended, ErrLeft)
}

// What was found out until a person turned the page is half of an answer.
func TestAPageThatWasLeftDoesNotComeAfterwards(t *testing.T) {
	r, _, _ := run(t, Options{Source: &source{holdServices: true}, Small: true})
	for range 30 {
		tap(r, vt.Key2)
		sees(t, r, "- services")
		tap(r, vt.Key3)
		sees(t, r, "the newest line")
		require.NotContains(t, r.take(), "it was cut off")
	}
}

// A serial line of 9600 baud takes 960 bytes a second.
func TestASlowLineIsNotFlooded(t *testing.T) {
	src := &source{}
	r, _, _ := run(t, Options{Source: src, Small: true, Leaves: true})
	sees(t, r, "q quit")
	first := r.take()
	require.Less(t, len(first), 800, "%q", first)
	require.NotContains(t, first, "\x1b[c", "it asks the terminal for nothing")
	require.NotContains(t, first, "\x1b[?1049h")
	src.fail("coredns.service")
	sees(t, r, "[FAIL] coredns.service")
	require.Less(t, len(r.take()), 600)
	tap(r, vt.Key1) // It is the page that is shown.
	require.Never(t, func() bool { return r.take() != "" }, 100*time.Millisecond, 10*time.Millisecond)
}

// Nothing is drawn, and no cell compared, while nothing changes: an idle machine does this every two seconds.
func TestNothingIsDrawnWhileNothingChanges(t *testing.T) {
	src := &source{same: true}
	r, _, _ := run(t, Options{Source: src, Small: true, Leaves: true})
	sees(t, r, "[ ok ] dns-server")
	src.fail("coredns.service")
	require.Never(t, func() bool { return strings.Contains(r.text(), "coredns") }, 100*time.Millisecond, 10*time.Millisecond)
	tap(r, vt.KeyEnter) // A key has it drawn.
	sees(t, r, "[FAIL] coredns.service")
}

func TestWhatSomebodyElseWroteIsDrawnOver(t *testing.T) {
	r, _, _ := run(t, Options{Source: &source{}, Small: true, Redraw: 50 * time.Millisecond})
	sees(t, r, "[ ok ] dns-server")
	r.take()
	_, err := r.MockTerm.Write([]byte("\x1b[3;1Ha message of the kernel"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !strings.Contains(r.text(), "a message") }, time.Minute, 5*time.Millisecond)
	require.NotContains(t, r.take(), "\x1b[J", "it would flicker")
	sees(t, r, "[ ok ] dns-server")
}

// A monitor whose text can be read is written again only where somebody else has written on it.
func TestAPageThatIsWholeIsNotWrittenAgain(t *testing.T) {
	var r *recorder
	var mu sync.Mutex
	reads := 0
	text := func() []byte {
		mu.Lock()
		defer mu.Unlock()
		if reads++; r == nil {
			return nil
		}
		var b []byte
		for y := range 24 {
			for x := range 80 {
				c := r.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)}).C
				b = append(b, (c + " ")[0])
			}
		}
		return b
	}
	m, _, _ := run(t, Options{Source: &source{}, Small: true, Redraw: 20 * time.Millisecond, Text: text})
	sees(t, m, "[ ok ] dns-server")
	mu.Lock()
	r = m
	before := reads
	mu.Unlock()
	time.Sleep(30 * time.Millisecond)
	m.take()
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return reads > before+5
	}, time.Minute, 5*time.Millisecond)
	require.Empty(t, m.take())
	_, err := m.MockTerm.Write([]byte("\x1b[3;1Ha message of the kernel"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !strings.Contains(m.text(), "a message") }, time.Minute, 5*time.Millisecond)
	sees(t, m, "[ ok ] dns-server")
}

func TestTheSizeOfAMonitorChanges(t *testing.T) {
	r, _, _ := run(t, Options{Source: &source{}, Small: true})
	sees(t, r, "8 updates")
	r.SetSize(vt.Coord{X: 100, Y: 37})
	require.Eventually(t, func() bool {
		row := ""
		for x := range 100 {
			row += r.GetCell(vt.Coord{X: vt.Col(x), Y: 36}).C
		}
		return strings.Contains(row, "8 updates")
	}, time.Minute, 5*time.Millisecond)
	var _ tcell.Tty = r
}
