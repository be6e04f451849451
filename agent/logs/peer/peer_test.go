package peer

import (
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// dialer is the variable that makes the test a program that connects, and waits until its input ends.
const dialer = "SPORE_TEST_DIAL"

func TestMain(m *testing.M) {
	if at := os.Getenv(dialer); at != "" {
		c, err := net.Dial("tcp", at)
		if err != nil {
			os.Exit(1)
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		c.Close()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func TestAConnectionOfOurOwn(t *testing.T) {
	l := listen(t)
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	taken, err := l.Accept()
	require.NoError(t, err)
	defer taken.Close()
	uid, err := UID(taken)
	require.NoError(t, err)
	require.EqualValues(t, os.Getuid(), uid)
}

func TestAConnectionOfAnotherAccount(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("another account takes root")
	}
	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	program := t.TempDir() + "/dialer"
	require.NoError(t, os.WriteFile(program, self, 0o755))
	for dir := program; dir != "/tmp" && dir != "/"; dir = dir[:max(strings.LastIndexByte(dir, '/'), 1)] {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	l := listen(t)
	cmd := exec.Command(program)
	cmd.Env = []string{dialer + "=" + l.Addr().String()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	taken, err := l.Accept()
	require.NoError(t, err)
	defer taken.Close()
	uid, err := UID(taken)
	require.NoError(t, err)
	require.EqualValues(t, 4711, uid)
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}

func TestAConnectionThatIsClosedHasNoAccount(t *testing.T) {
	l := listen(t)
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	taken, err := l.Accept()
	require.NoError(t, err)
	defer taken.Close()
	require.NoError(t, c.Close())
	_, err = UID(taken)
	require.ErrorIs(t, err, ErrUnknown)
}

func TestOtherAddresses(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	_, err := UID(a)
	require.ErrorContains(t, err, "pipe is not an address of TCP")
	_, err = address(&net.TCPAddr{IP: net.IPv6loopback, Port: 1})
	require.ErrorContains(t, err, "[::1]:1 is not an address of IPv4")
}

func TestFind(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	own, to := netip.MustParseAddrPort("127.0.0.1:40000"), netip.MustParseAddrPort("127.0.0.1:19532")
	row := func(state, uid string) string {
		return "   1: " + hex(own) + " " + hex(to) + " " + state + " 00000000:00000000 00:00000000 00000000 " + uid + " 0 1 1 0\n"
	}
	back := "   0: " + hex(to) + " " + hex(own) + " 01 00000000:00000000 00:00000000 00000000 7 0 1 1 0\n"
	for name, c := range map[string]struct{ table, want string }{
		"the one":            {head + back + row("01", "912"), ""},
		"an empty table":     {head, ErrUnknown.Error()},
		"the way back alone": {head + back, ErrUnknown.Error()},
		"one that is closed": {head + row("06", "0"), ErrUnknown.Error()},
		"a short line":       {head + "1: " + hex(own) + "\n", ErrUnknown.Error()},
		"a hostile account":  {head + row("01", "-1"), `the account "-1"`},
		"an endless line":    {strings.Repeat("x", 1<<20), "token too long"},
	} {
		t.Run(name, func(t *testing.T) {
			uid, err := find(strings.NewReader(c.table), own, to)
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			require.EqualValues(t, 912, uid)
		})
	}
}
