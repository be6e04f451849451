package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/vt"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// onTerminal has the test program show pages on its terminal, as spore-screen does.
const onTerminal = "SPORE_TEST_ON_TERMINAL"

func TestMain(m *testing.M) {
	if os.Getenv(onTerminal) == "" {
		os.Exit(m.Run())
	}
	tty, err := tcell.NewStdIoTty()
	if err == nil {
		var s tcell.Screen
		if s, err = Open(tty); err == nil {
			err = Run(context.Background(), s, Options{Source: &source{}, Every: 10 * time.Millisecond, Leaves: true})
			s.Fini()
		}
	}
	if !errors.Is(err, ErrLeft) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// monitor is a pseudo terminal (pts(4)) with a program on it.
type monitor struct {
	t    *testing.T
	file *os.File
	mu   sync.Mutex
	seen vt.MockTerm
	size [2]int
}

func (m *monitor) resize(columns, rows int) {
	m.t.Helper()
	m.mu.Lock()
	m.size = [2]int{columns, rows}
	m.seen.SetSize(vt.Coord{X: vt.Col(columns), Y: vt.Row(rows)})
	m.mu.Unlock()
	require.NoError(m.t, unix.IoctlSetWinsize(int(m.file.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Row: uint16(rows), Col: uint16(columns)}))
}

// read shows what the program writes, until it has ended.
func (m *monitor) read() {
	for b := make([]byte, 4096); ; {
		n, err := m.file.Read(b)
		if err != nil {
			return
		}
		m.mu.Lock()
		_, _ = m.seen.Write(b[:n])
		m.mu.Unlock()
	}
}

// row is a line of the monitor.
func (m *monitor) row(y int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for x := range m.size[0] {
		b.WriteString(m.seen.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)}).C)
	}
	return b.String()
}

// The kernel changes the size of a virtual terminal with the font and with the frame buffer (vc_resize), and tells the
// program on it with SIGWINCH as here.
func TestAPageFollowsTheSizeOfItsTerminal(t *testing.T) {
	file, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(file.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer tty.Close()

	m := &monitor{t: t, file: file, seen: vt.NewMockTerm(vt.MockOptSize{X: 240, Y: 67})}
	require.NoError(t, m.seen.Start())
	t.Cleanup(func() { _ = m.seen.Stop() })
	m.resize(80, 24)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), onTerminal+"=1", "TERM=linux")
	cmd.Stdin, cmd.Stdout = tty, tty
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // As systemd does for StandardInput=tty.
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	go m.read()

	for _, size := range [][2]int{{80, 24}, {100, 37}, {40, 12}, {240, 67}, {120, 33}, {80, 24}} {
		if size != m.size {
			m.resize(size[0], size[1])
		}
		keys := "8 updates"
		if size[0] < 80 {
			keys = "1 to 8 are pages"
		}
		require.Eventually(t, func() bool {
			return strings.Contains(m.row(0), "OK  12:30 UTC") && strings.Contains(m.row(size[1]-1), keys)
		}, time.Minute, 5*time.Millisecond, "%v", size)
	}
	_, err = file.WriteString("q")
	require.NoError(t, err)
	require.NoError(t, cmd.Wait(), "%s", &stderr)
}
