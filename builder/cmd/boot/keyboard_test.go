package boot

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal is a pseudoterminal: unknown argument written to keys is typed at tty (pts(4)).
func terminal(t *testing.T) (keys, tty *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { keys.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { tty.Close() })
	return keys, tty
}

func TestKeysGoToTheMachineAndAreNotShown(t *testing.T) {
	keys, tty := terminal(t)
	before, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	require.NoError(t, err)
	typed := make(chan string, 16)
	restore, err := typeThere(tty, func(s string) error { typed <- s; return nil })
	require.NoError(t, err)
	during, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	require.NoError(t, err)
	require.Zero(t, during.Lflag&(unix.ECHO|unix.ICANON))
	require.NotZero(t, during.Lflag&unix.ISIG, "Ctrl-C is still the user's")

	_, err = keys.WriteString("secret\r")
	require.NoError(t, err)
	got := ""
	for len(got) < 7 {
		got += <-typed
	}
	require.Equal(t, "secret\r", got, "before the line ends, and with the end that a serial console has")

	restore()
	after, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestWhatIsNoTerminalIsLeftAlone(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer f.Close()
	restore, err := typeThere(f, func(string) error { return nil })
	require.NoError(t, err)
	restore()
}
