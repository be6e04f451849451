package boot

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/builder/vm"
)

const (
	opens  = "\x1b[?1h\x1b=\x1b[?25l\x1b[H\x1b[J"
	closes = "\x1b[?25h\x1b[?1l\x1b>"
	// second is what a terminal is told when it gets its other screen, and first when it is given back.
	second, first = "\x1b[?1049h", "\x1b[?1049l"
)

// seen is what was shown so far.
type seen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *seen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *seen) await(t *testing.T, text string) string {
	t.Helper()
	var all string
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		all = s.text.String()
		return strings.Contains(all, text)
	}, time.Minute, 5*time.Millisecond, "%q", text)
	return all
}

func TestAPageIsShownOnATerminalThatIsLargeEnough(t *testing.T) {
	for name, tc := range map[string]struct {
		rows, columns uint16
		pages, page   bool
	}{
		"of a usual size":      {24, 80, true, true},
		"large":                {67, 240, true, true},
		"one line too small":   {23, 80, true, false},
		"one column too small": {24, 79, true, false},
		"that says nothing":    {0, 0, true, false},
		"with lines of others": {24, 80, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			person, tty := terminal(t)
			size := unix.Winsize{Row: tc.rows, Col: tc.columns}
			require.NoError(t, unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &size))
			var shown seen
			go func() { _, _ = io.Copy(&shown, person) }()
			guest, says := io.Pipe()
			c := vm.Collect(guest, io.Discard, func() (wall, cpu time.Duration) { return 0, 0 })
			ended := make(chan error, 1)
			go func() { ended <- look(t.Context(), c, tty, tty, tc.pages) }()
			say := func(text string) {
				_, err := io.WriteString(says, text)
				require.NoError(t, err)
			}
			say("one\n" + opens + "\x1b[2;3Ha \x1b[6n\x1b]0;evil\apage")
			switch {
			case tc.page:
				shown.await(t, "\x1b[2;3Ha page")
			case tc.pages:
				shown.await(t, "this terminal is smaller")
			default:
				shown.await(t, "a page")
			}
			say(closes + "\ntwo\n")
			all := shown.await(t, "two\r\n")
			require.Equal(t, tc.page, strings.Contains(all, second), "%q", all)
			require.Equal(t, tc.page, strings.Contains(all, first), "%q", all)
			require.NotContains(t, all, "evil")
			require.NotContains(t, all, "\x1b[6n")
			require.NoError(t, says.Close())
			require.NoError(t, <-ended)
		})
	}
}

// A page that fits after the terminal was made larger is shown with what is drawn next.
func TestATerminalIsMadeLarger(t *testing.T) {
	person, tty := terminal(t)
	require.NoError(t, unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 10, Col: 40}))
	var shown seen
	go func() { _, _ = io.Copy(&shown, person) }()
	guest, says := io.Pipe()
	c := vm.Collect(guest, io.Discard, func() (wall, cpu time.Duration) { return 0, 0 })
	ended := make(chan error, 1)
	go func() { ended <- look(t.Context(), c, tty, tty, true) }()
	_, err := io.WriteString(says, opens+"page")
	require.NoError(t, err)
	shown.await(t, "this terminal is smaller")
	require.NoError(t, unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	_, err = io.WriteString(says, "\x1b[H\x1b[Jagain")
	require.NoError(t, err)
	all := shown.await(t, "again")
	require.Contains(t, all, second)
	require.NoError(t, says.Close())
	require.NoError(t, <-ended)
	shown.await(t, first)
}

func TestAPageIsNotWrittenIntoAFile(t *testing.T) {
	_, tty := terminal(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "console"))
	require.NoError(t, err)
	defer file.Close()
	c := vm.Collect(io.NopCloser(strings.NewReader("one\n"+opens+"page"+closes+"\ntwo\n")), io.Discard,
		func() (wall, cpu time.Duration) { return 0, 0 })
	require.NoError(t, look(t.Context(), c, tty, file, true))
	text, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	require.Equal(t, "one\npage\n\ntwo\n", string(text))
}
