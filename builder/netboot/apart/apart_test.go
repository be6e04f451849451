package apart

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/builder/clusterpart"
	"spore/builder/netboot"
	"spore/builder/netboot/control"
	"spore/cluster"
)

// TestMain is the new process as well: the program that is started again is that of the test. Where the output folder
// has a file probe, it tries what it names in place of serving.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != Command {
		os.Exit(m.Run())
	}
	if list, err := os.ReadFile("probe"); err == nil && len(os.Args) == 3 {
		probe(strings.Fields(string(list)))
		os.Exit(0)
	}
	if _, err := os.Stat("deaf"); err == nil && len(os.Args) == 3 {
		(&speaker{w: json.NewEncoder(os.Stdout)}).send(message{Base: "http://deaf/"})
		time.Sleep(time.Hour)
	}
	if _, err := os.Stat("no-landlock"); err == nil {
		landlockVersion = func() (uintptr, syscall.Errno) { return 0, unix.ENOSYS }
	}
	if err := Run(os.Args[2:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// probe says what a process that was taken over could do.
func probe(paths []string) {
	s := &speaker{w: json.NewEncoder(os.Stdout)}
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	if err := dropRoot("netboot"); err != nil {
		s.send(message{Error: err.Error()})
		return
	}
	result := func(what, got string) { s.say("%s: %s", what, got) }
	for _, p := range paths {
		_, err := os.ReadFile(p)
		result("read "+filepath.Base(p), errorOf(err))
		f, err := os.OpenFile(p, os.O_WRONLY, 0)
		if err == nil {
			f.Close()
		}
		result("write "+filepath.Base(p), errorOf(err))
	}
	result("make", errorOf(os.WriteFile("new", nil, 0o600)))
	result("signal", errorOf(unix.Kill(os.Getppid(), 0)))
	result("trace", errorOf(unix.PtraceAttach(os.Getppid())))
	result("be root", errorOf(syscall.Setresuid(0, 0, 0)))
	bit, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	s.say("new privileges: %d %v", bit, err)
	s.say("account: %d", os.Geteuid())
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	err = unix.Capget(&header, &caps[0])
	s.say("capabilities: %x %x %v", caps[0].Effective|caps[0].Permitted, caps[1].Effective|caps[1].Permitted, err)
	s.say("environment: %d", len(os.Environ()))
	s.send(message{Base: "http://probe/"})
}

func errorOf(err error) string {
	switch {
	case err == nil:
		return "done"
	case os.IsPermission(err):
		return "refused"
	}
	return err.Error()
}

// output is an output folder with examples/edge in it.
func output(t *testing.T) string {
	t.Helper()
	config, report := cluster.LoadDir("../../../examples/edge")
	require.NoError(t, report.Err())
	out := filepath.Join(t.TempDir(), "out")
	dir := filepath.Join(out, "netboot")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "ipxe"), 0o755))
	f, err := os.Create(filepath.Join(dir, "cluster.squashfs"))
	require.NoError(t, err)
	_, err = clusterpart.Write(f, config, 1_700_000_000)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	for name, data := range map[string]string{"cmdline": "roothash=aa ro", "ipxe/undionly.kpxe": "pxe", "ipxe/snponly.efi": "efi"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644))
	}
	return out
}

func setup() Setup {
	return Setup{Folder: "netboot", Card: netboot.Card{Name: "lo", Prefix: netip.MustParsePrefix("127.0.0.1/8")}, TFTPPort: -1}
}

// heard keeps what the operator is told.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.lines...)
}

func start(t *testing.T, out string, s Setup, say func(format string, args ...any)) (*Child, error) {
	t.Helper()
	socket, err := control.Listen(out)
	require.NoError(t, err)
	t.Cleanup(func() { socket.Close() })
	c, err := Start(out, s, socket, say)
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

func landlocked() bool {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	return errno == 0 && version >= 6
}

func TestTheServersProcessHasNoWayToTheKeys(t *testing.T) {
	if !landlocked() {
		t.Skip("this kernel has no landlock with scopes, which came with Linux 6.12")
	}
	out := output(t)
	// Files that the account may read and write: what is refused is so by the process's own rules.
	vault := filepath.Join(filepath.Dir(out), "vault")
	inside := filepath.Join(out, "netboot", "cmdline")
	require.NoError(t, os.WriteFile(vault, []byte("keys"), 0o600))
	require.NoError(t, os.Chmod(vault, 0o666))
	require.NoError(t, os.Chmod(inside, 0o666))
	require.NoError(t, os.Chmod(filepath.Dir(out), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(out, "probe"), []byte("../vault /etc/passwd netboot/cmdline"), 0o644))
	var h heard
	c, err := start(t, out, setup(), h.say)
	require.NoError(t, err)
	require.Equal(t, "http://probe/", c.Base)
	want := []string{
		"read vault: refused", "write vault: refused", "read passwd: refused", "write passwd: refused", "read cmdline: done", "write cmdline: refused",
		"make: refused", "signal: refused", "trace: refused", "be root: refused", "new privileges: 1 <nil>", "capabilities: 0 0 <nil>", "environment: 0",
	}
	account := os.Geteuid()
	if account == 0 {
		account = nobody
	}
	require.Subset(t, h.all(), append(want, fmt.Sprintf("account: %d", account)), "%q", h.all())
}

func TestTheServerAnswersFromAProcessOfItsOwn(t *testing.T) {
	out := output(t)
	var h heard
	c, err := start(t, out, setup(), h.say)
	require.NoError(t, err)
	get := func() (string, error) {
		r, err := http.Get(c.Base + "node.ipxe?mac=52-54-00-77-00-0b&ip=127.0.0.1")
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		data, err := io.ReadAll(r.Body)
		return string(data), err
	}
	text, err := get()
	require.NoError(t, err)
	require.Contains(t, text, "this machine is edge-01")
	require.Eventually(t, func() bool { return strings.Contains(strings.Join(h.all(), "\n"), "edge-01 (127.0.0.1): boots") }, 5*time.Second, time.Millisecond)
	state, err := control.State(t.Context(), out)
	require.NoError(t, err)
	require.Equal(t, "plant", state.Cluster)
	require.Equal(t, c.Base, state.Base)

	// Another build takes the folder's place.
	config, report := cluster.LoadDir("../../../examples/edge")
	require.NoError(t, report.Err())
	config.Cluster.Nodes[0].MACs = []string{"52:54:00:99:00:01"}
	fresh := filepath.Join(out, "fresh")
	require.NoError(t, os.CopyFS(fresh, os.DirFS(filepath.Join(out, "netboot"))))
	f, err := os.Create(filepath.Join(fresh, "cluster.squashfs"))
	require.NoError(t, err)
	_, err = clusterpart.Write(f, config, 1_700_000_000)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, filepath.Join(out, "netboot"), unix.RENAME_EXCHANGE))
	require.Eventually(t, func() bool {
		return strings.Contains(strings.Join(h.all(), "\n"), "another build of the image is there")
	}, 10*time.Second, 10*time.Millisecond)

	// The end of who started it is that of its standard input.
	c.Close()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", strings.Trim(strings.TrimPrefix(c.Base, "http://"), "/"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	}, 5*time.Second, time.Millisecond, "the port is free for the next one")
	require.ErrorContains(t, c.Wait(t.Context()), "the server's own process has ended")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	next, err := start(t, output(t), setup(), h.say)
	require.NoError(t, err)
	require.NoError(t, next.Wait(ctx), "an end that was asked for is no error")
}

func TestAProcessThatDoesNotEndIsEnded(t *testing.T) {
	out := output(t)
	require.NoError(t, os.WriteFile(filepath.Join(out, "deaf"), nil, 0o644))
	c, err := start(t, out, setup(), t.Logf)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.patience = 50 * time.Millisecond
	ended := make(chan error, 1)
	go func() { ended <- c.Wait(ctx) }()
	select {
	case err := <-ended:
		require.ErrorContains(t, err, "did not end when it was told to, and was killed")
	case <-time.After(20 * time.Second):
		_ = c.cmd.Process.Kill()
		require.Fail(t, "whoever waits for the process hangs with it")
	}
}

func TestAKernelThatKeepsNothingApartIsSaid(t *testing.T) {
	out := output(t)
	require.NoError(t, os.WriteFile(filepath.Join(out, "no-landlock"), nil, 0o644))
	var h heard
	_, err := start(t, out, setup(), h.say)
	require.NoError(t, err)
	require.Contains(t, strings.Join(h.all(), "\n"), "this kernel has no Landlock")
	var quiet heard
	if landlocked() {
		_, err = start(t, output(t), setup(), quiet.say)
		require.NoError(t, err)
		require.NotContains(t, strings.Join(quiet.all(), "\n"), "Landlock")
	}
}

func TestWhatTheProcessCannotDoIsSaid(t *testing.T) {
	out := output(t)
	require.NoError(t, os.Remove(filepath.Join(out, "netboot", "cluster.squashfs")))
	_, err := start(t, out, setup(), t.Logf)
	require.ErrorContains(t, err, "make the folder with `spore build --format netboot`")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	s := setup()
	s.HTTPPort = l.Addr().(*net.TCPAddr).Port
	_, err = start(t, output(t), s, t.Logf)
	require.ErrorContains(t, err, "another program has the port")

	if os.Geteuid() == 0 {
		out = output(t)
		require.NoError(t, os.Chmod(out, 0o700))
		_, err = start(t, out, setup(), t.Logf)
		require.ErrorContains(t, err, "make it readable for everybody: chmod o+rx on it")
	}
}

func TestWhoTypedSudoIsTheOperator(t *testing.T) {
	for _, tt := range []struct {
		uid, gid string
		want     int
		ok       bool
	}{
		{"1000", "1001", 1000, true}, {"", "", 0, false}, {"0", "0", 0, false}, {"-1", "5", 0, false}, {"x", "5", 0, false}, {"1000", "", 0, false},
	} {
		uid, gid, ok := operatorOf(func(name string) string { return map[string]string{"SUDO_UID": tt.uid, "SUDO_GID": tt.gid}[name] })
		require.Equal(t, tt.ok, ok, tt)
		if ok {
			require.Equal(t, tt.want, uid)
			require.Equal(t, 1001, gid)
		}
	}
}
