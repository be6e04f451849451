package console

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"spore/agent/paths"
)

// terminal is a pseudo terminal (pts(4)) as the monitor below a root, and what a person has in front of him.
func terminal(t *testing.T) (root paths.Root, person *os.File) {
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = person.Close() })
	conn, err := person.SyscallConn()
	require.NoError(t, err)
	number := 0
	require.NoError(t, conn.Control(func(fd uintptr) {
		require.NoError(t, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
		number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
	}))
	require.NoError(t, err)
	root = paths.Root(t.TempDir())
	require.NoError(t, os.MkdirAll(root.At("/dev"), 0o755))
	require.NoError(t, os.Symlink(fmt.Sprintf("/dev/pts/%d", number), root.At(Monitor)))
	return root, person
}

// unread is how many bytes lie on the terminal below a root.
func unread(t *testing.T, root paths.Root) int {
	f, err := os.OpenFile(root.At(Monitor), os.O_RDONLY|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	require.NoError(t, err)
	defer f.Close()
	n, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ)
	require.NoError(t, err)
	return n
}

func TestEnterIsSeenWhileNobodyReads(t *testing.T) {
	root, person := terminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	pressed, done := make(chan struct{}, 10), make(chan struct{})
	go func() { Watch(ctx, root, Monitor, func() { pressed <- struct{}{} }); close(done) }()
	typed := func(text string) {
		_, err := person.WriteString(text)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return unread(t, root) > 0 }, time.Minute, time.Millisecond, text)
	}
	gone := func() {
		require.Eventually(t, func() bool { return unread(t, root) == 0 }, time.Minute, time.Millisecond)
	}

	// What was typed for a question, and not taken, opens nothing when the question is gone.
	require.NoError(t, os.MkdirAll(root.At(Questions), 0o755))
	question := root.At(Questions + "/ask.1")
	require.NoError(t, os.WriteFile(question, nil, 0o644))
	typed("\n")
	require.Never(t, func() bool { return unread(t, root) == 0 }, 4*settle, settle/4, "it is whoever asks who takes it")
	require.NoError(t, os.Remove(question))
	gone()
	// Nor does an answer that is too late, or a log that comes back.
	typed("a passphrase\n")
	gone()
	require.Empty(t, pressed)

	typed("\n")
	select {
	case <-pressed:
	case <-time.After(time.Minute):
		require.Fail(t, "nobody saw the key")
	}
	require.Empty(t, pressed)
	cancel()
	<-done
}

func TestWatchEndsWithoutATerminal(t *testing.T) {
	Watch(t.Context(), paths.Root(t.TempDir()), Monitor, func() { t.Error("pressed") })
}

func TestATakenTerminalIsLeftAlone(t *testing.T) {
	root := paths.Root(t.TempDir())
	require.NoError(t, os.MkdirAll(root.At("/dev"), 0o755))
	require.NoError(t, os.WriteFile(root.At(Monitor), nil, 0o644))
	text := func() string {
		data, err := os.ReadFile(root.At(Monitor))
		require.NoError(t, err)
		return string(data)
	}
	Write(root, Monitor, "a")
	require.Equal(t, "a", text())
	require.NoError(t, os.MkdirAll(root.At("/run/spore-screen"), 0o755))
	Write(root, Monitor, "b")
	require.Equal(t, "a", text())
	require.False(t, Taken(root, Serial))
	Write(root, Serial, "there is none")
	require.NoError(t, Leave(root, Monitor))
	Write(root, Monitor, "c")
	require.Contains(t, text(), "c", "the unit has yet to end")
	require.ErrorContains(t, Leave(root, Serial), "give back")
}

// A terminal whose other end stands still takes what fits into its buffer.
func TestATerminalThatTakesNothingIsLeft(t *testing.T) {
	root, _ := terminal(t)
	done := make(chan struct{})
	go func() { write(root.At(Monitor), strings.Repeat("x", 1<<20), 100*time.Millisecond); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		require.Fail(t, "it is still written to")
	}
}

func TestTheLineIsNoMonitorAndNoShell(t *testing.T) {
	for _, tc := range []struct {
		active, words string
		want          bool
	}{
		{"tty0 ttyS0\n", "ro", true}, {"ttyS0 tty0\n", "ro", false}, {"tty1", "", false}, {"hvc0", "", true}, {"", "", false},
		{"ttyS0", "ro spore.console quiet", false}, {"ttyS0", "spore.console=1", false},
		{"ttyS0", "spore.consoles", true}, {"ttyAMA0", "", true},
	} {
		root := paths.Root(t.TempDir())
		file := root.At("/sys/class/tty/console/active")
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(tc.active), 0o644))
		require.Equal(t, tc.want, Line(root, tc.words), tc)
	}
	require.False(t, Line(paths.Root(t.TempDir()), ""))
}

func TestAMachineWithoutAMonitorIsNotSeen(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"the kernel does not say": {nil, true},
		"no graphics": {map[string]string{"vtconsole/vtcon0/name": "(S) dummy device\n", "vtconsole/vtcon0/bind": "1\n",
			"vtconsole/vtcon1/name": "(M) frame buffer device\n", "vtconsole/vtcon1/bind": "0\n"}, false},
		"a frame buffer that is not taken yet": {map[string]string{"vtconsole/vtcon0/name": "(S) dummy device\n",
			"vtconsole/vtcon0/bind": "1\n", "graphics/fb0/name": "simpledrmdrmfb\n"}, true},
		"text of VGA": {map[string]string{"vtconsole/vtcon0/name": "(S) VGA+\n", "vtconsole/vtcon0/bind": "1\n"}, true},
		"a frame buffer": {map[string]string{"vtconsole/vtcon0/name": "(S) dummy device\n",
			"vtconsole/vtcon0/bind": "0\n", "vtconsole/vtcon1/name": "(M) frame buffer device\n",
			"vtconsole/vtcon1/bind": "1\n"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := paths.Root(t.TempDir())
			for f, text := range tc.files {
				path := root.At("/sys/class/" + f)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
			}
			require.Equal(t, tc.want, Seen(root))
		})
	}
}

func TestAMonitorMayBePluggedInLater(t *testing.T) {
	root := paths.Root(t.TempDir())
	vt := root.At("/sys/class/vtconsole/vtcon0")
	require.NoError(t, os.MkdirAll(vt, 0o755))
	require.NoError(t, os.WriteFile(vt+"/name", []byte("(S) dummy device\n"), 0o644))
	require.NoError(t, os.WriteFile(vt+"/bind", []byte("1\n"), 0o644))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	AwaitSeen(ended, root, time.Hour)

	done := make(chan struct{})
	go func() { AwaitSeen(t.Context(), root, time.Millisecond); close(done) }()
	require.Never(t, func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}, 50*time.Millisecond, 10*time.Millisecond)
	require.NoError(t, os.MkdirAll(root.At("/sys/class/graphics/fb0"), 0o755))
	<-done
}

func TestATerminalIsMendedAfterAProgramThatWasKilled(t *testing.T) {
	root, _ := terminal(t)
	f, err := os.OpenFile(root.At(Monitor), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer f.Close()
	now := func() *unix.Termios {
		t.Helper()
		got, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		require.NoError(t, err)
		return got
	}
	set := func(with *unix.Termios) { require.NoError(t, unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, with)) }
	fresh := now()

	_, err = term.MakeRaw(int(f.Fd()))
	require.NoError(t, err)
	require.NotEqual(t, fresh, now())
	require.NoError(t, Mend(f))
	got := now()
	require.Equal(t, fresh.Lflag, got.Lflag)
	require.Equal(t, fresh.Oflag, got.Oflag)
	require.Equal(t, fresh.Iflag&unix.ICRNL, got.Iflag&unix.ICRNL)

	// A terminal that takes lines, and does not show them, is as somebody wants it.
	fresh.Lflag &^= unix.ECHO
	set(fresh)
	fresh = now()
	require.NoError(t, Mend(f))
	require.Equal(t, fresh, now())

	plain, err := os.Create(filepath.Join(t.TempDir(), "plain"))
	require.NoError(t, err)
	defer plain.Close()
	require.ErrorContains(t, Mend(plain), "mend a terminal")
}

func TestAQuestionEndsWithWhoeverAsks(t *testing.T) {
	gone := exec.Command("true")
	require.NoError(t, gone.Run())
	for _, tc := range []struct {
		text string
		want bool
	}{
		{"[Ask]\nPID=" + strconv.Itoa(os.Getpid()) + "\nMessage=Passphrase:\n", true},
		{"[Ask]\nPID=" + strconv.Itoa(gone.Process.Pid) + "\nMessage=Passphrase:\n", false},
		{"[Ask]\nMessage=Passphrase:\n", true}, {"PID=x\n", true}, {"", true},
	} {
		root := paths.Root(t.TempDir())
		require.False(t, Asked(root))
		require.NoError(t, os.MkdirAll(root.At(Questions), 0o755))
		require.NoError(t, os.WriteFile(root.At(Questions+"/ask.1"), []byte(tc.text), 0o644))
		require.Equal(t, tc.want, Asked(root), tc.text)
	}
}
