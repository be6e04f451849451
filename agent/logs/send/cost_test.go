//go:build integration

package send

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/journalexport"
)

// senderDir is the variable that makes the test the program spore-logs, with a folder that has its settings.
const senderDir = "SPORE_TEST_SENDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(senderDir); dir != "" {
		if err := sender(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// sender is spore-logs as on a node; it writes where it listens.
func sender(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "send.json"))
	if err != nil {
		return err
	}
	o := Options{
		Dir: filepath.Join(dir, "state"), RunDir: dir, May: func(net.Conn) error { return nil }, Now: time.Now,
		Say: func(s string) { fmt.Fprintln(os.Stderr, s) }, Status: func(string) {},
	}
	if err := json.Unmarshal(data, &o.Config); err != nil {
		return err
	}
	s, err := New(o)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "at"), []byte(l.Addr().String()), 0o600); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return s.Run(ctx, l)
}

// program starts spore-logs as a program of its own.
func (n *node) program() *exec.Cmd {
	n.t.Helper()
	settings, err := json.Marshal(n.config)
	require.NoError(n.t, err)
	require.NoError(n.t, os.WriteFile(filepath.Join(n.dir, "send.json"), settings, 0o600))
	self := exec.Command("/proc/self/exe")
	self.Env, self.Stderr = []string{senderDir + "=" + n.dir, "GOMAXPROCS=1", "GOMEMLIMIT=64MiB"}, os.Stderr
	require.NoError(n.t, self.Start())
	n.t.Cleanup(func() { _ = self.Process.Kill() })
	require.Eventually(n.t, func() bool {
		at, err := os.ReadFile(filepath.Join(n.dir, "at"))
		n.at = string(at)
		return err == nil && n.at != ""
	}, 10*time.Second, 10*time.Millisecond)
	return self
}

// A journal that waits for a store takes no memory.
func TestWhatWaitsForTwoStoresTakesLittleMemory(t *testing.T) {
	const most = 80 << 10 // KiB
	ca := authority(t)
	a, b := newStore(t, ca), newStore(t, ca)
	away := func(w http.ResponseWriter, _ []journalexport.Entry) bool {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return true
	}
	a.set(away)
	b.set(away)
	n := newNode(t, ca, a, b)
	self := n.program()
	for i := range 20000 {
		n.log(append(usual(i+1), field(CursorField, cursorOf(bootID, i+1)), field("TEXT", strings.Repeat("x", 1000))))
	}
	n.uploads(&uploader{node: n, store: 1})
	n.uploads(&uploader{node: n, store: 2})
	time.Sleep(3 * time.Second)
	a.set(nil)
	b.set(nil)
	hasAll(t, a, 20000)
	hasAll(t, b, 20000)
	took := memory(t, self.Process.Pid)
	t.Logf("spore-logs had %d KiB at most", took)
	require.LessOrEqual(t, took, uint64(most))
}

// A node that logs 50 lines a second pays at most 1 % of a core for sending them.
func TestFiftyLinesASecondCostOnePercentOfACore(t *testing.T) {
	const seconds, perSecond, most = 20, 50, 0.01
	ca := authority(t)
	s := newStore(t, ca)
	n := newNode(t, ca, s)
	self := n.program()
	j := &realJournal{t: t, dir: t.TempDir()}
	j.write(1)
	u := n.realUpload(j, filepath.Join(t.TempDir(), "state"))
	writer := exec.Command(journalRemote, "--output="+filepath.Join(j.dir, "remote.journal"), "-")
	in, err := writer.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, writer.Start())
	j.arrives(s)
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	before := cpu(t, self.Process.Pid, u.Process.Pid)
	for range seconds * perSecond {
		<-tick.C
		j.last++
		_, err := in.Write(journalexport.Append(nil, usual(j.last)))
		require.NoError(t, err)
	}
	after := cpu(t, self.Process.Pid, u.Process.Pid)
	require.NoError(t, in.Close())
	_ = writer.Wait()
	j.arrives(s)
	took := [2]float64{(after[0] - before[0]).Seconds() / seconds, (after[1] - before[1]).Seconds() / seconds}
	t.Logf("spore-logs takes %.2f %% of a core, journal-upload %.2f %%; memory of spore-logs: %d KiB",
		100*took[0], 100*took[1], memory(t, self.Process.Pid))
	require.LessOrEqual(t, took[0]+took[1], most)
	require.NoError(t, self.Process.Signal(syscall.SIGTERM))
	require.NoError(t, self.Wait())
}

// usual is an entry with the fields that journald gives one of a service.
func usual(number int) journalexport.Entry {
	e := journalexport.Entry{
		field("__REALTIME_TIMESTAMP", fmt.Sprint(time.Now().UnixMicro())), field("__MONOTONIC_TIMESTAMP", fmt.Sprint(1000+number)),
		field("_BOOT_ID", strings.Repeat("ab", 16)), field("MESSAGE", fmt.Sprintf("message %d\nof two lines", number)),
	}
	for _, f := range []string{
		"_TRANSPORT=stdout", "PRIORITY=6", "SYSLOG_FACILITY=3", "SYSLOG_IDENTIFIER=kubelet", "_UID=0", "_GID=0", "_COMM=kubelet",
		"_EXE=/usr/bin/kubelet", "_CMDLINE=/usr/bin/kubelet --config=/run/kubelet/config.yaml", "_CAP_EFFECTIVE=1ffffffffff",
		"_SYSTEMD_CGROUP=/system.slice/kubelet.service", "_SYSTEMD_UNIT=kubelet.service", "_SYSTEMD_SLICE=system.slice",
		"_SYSTEMD_INVOCATION_ID=0123456789abcdef0123456789abcdef", "_MACHINE_ID=0123456789abcdef0123456789abcdef",
		"_HOSTNAME=worker-01", "_RUNTIME_SCOPE=system", "_STREAM_ID=0123456789abcdef0123456789abcdef", "_PID=1234",
	} {
		name, value, _ := strings.Cut(f, "=")
		e = append(e, field(name, value))
	}
	return e
}

// cpu is what processes have taken (proc_pid_stat(5), utime and stime, in ticks of 10 ms).
func cpu(t *testing.T, pids ...int) []time.Duration {
	t.Helper()
	var out []time.Duration
	for _, pid := range pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		require.NoError(t, err)
		f := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
		require.Greater(t, len(f), 12)
		out = append(out, time.Duration(number(string(f[11]))+number(string(f[12])))*10*time.Millisecond)
	}
	return out
}

// memory is the most that a process has had (proc_pid_status(5), VmHWM), in KiB.
func memory(t *testing.T, pid int) uint64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return number(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
		}
	}
	t.Fatal("the kernel does not say how much memory a process has")
	return 0
}
