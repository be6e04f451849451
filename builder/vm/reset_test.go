package vm

import (
	"bufio"
	"context"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// goesOnAfterAReset makes sure that a machine whose firmware has nothing to boot starts again, and stops for no
// debugger.
func goesOnAfterAReset(ctx context.Context, t *testing.T, m *Machine, firmware *regexp.Regexp) {
	t.Helper()
	if !m.Config.hasDebugger() {
		require.NoFileExists(t, scratch(m.dir).debugger())
		return
	}
	running := func() bool {
		var s struct {
			Status string `json:"status"`
		}
		require.NoError(t, m.Monitor("query-status", nil, &s))
		return s.Status == "running"
	}
	require.NoError(t, m.Monitor("stop", nil, nil))
	require.NoError(t, dropTranslated(scratch(m.dir).debugger()))
	require.True(t, running())
	mark := m.Console.Mark()
	require.NoError(t, m.Reset())
	_, _, err := m.Console.AwaitMatch(ctx, mark, firmware)
	require.NoError(t, err)
	require.Eventually(t, running, time.Minute, 10*time.Millisecond)
}

func TestOnlyAnEmulatedMachineThatResetsItselfHasADebugger(t *testing.T) {
	for _, tt := range []struct {
		c    Config
		want bool
	}{
		{Config{Reboots: true, Accel: Accel{Name: "tcg"}}, true},
		{Config{Accel: Accel{Name: "tcg"}}, false},
		{Config{Reboots: true, Accel: Accel{Name: "kvm"}}, false},
	} {
		tt.c.Kernel = "k"
		args, err := tt.c.commandLine(scratch(t.TempDir()), nil)
		require.NoError(t, err)
		require.Equal(t, tt.want, strings.Contains(strings.Join(args, " "), "-gdb"))
	}
}

func TestWhatADebuggerStubSaysIsNotBelieved(t *testing.T) {
	for name, tt := range map[string]struct{ says, want string }{
		"nothing":                 {"", "EOF"},
		"half a packet":           {"+$T05thr", "EOF"},
		"no checksum":             {"$T05#", "EOF"},
		"a packet without an end": {"$" + strings.Repeat("x", 2*maxPacket), "without an end"},
		"that it has exited":      {"$W00#b7", `answers "W00" to "$?#3f"`},
		"an error to the step":    {"$T05#00$E22#00", `answers "E22" to "+$s#73"`},
		"no word to the end":      {"$T05#00$T05#00", "EOF"},
	} {
		socket := filepath.Join(t.TempDir(), "gdb")
		l, err := net.Listen("unix", socket)
		require.NoError(t, err)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(tt.says))
			_ = conn.(*net.UnixConn).CloseWrite()
		}()
		require.ErrorContains(t, dropTranslated(socket), tt.want, name)
		l.Close()
	}
	answer, err := debuggerPacket(bufio.NewReader(strings.NewReader("++$OK#9a")))
	require.NoError(t, err)
	require.Equal(t, "OK", answer)
}

func TestAResetOfAMachineWithoutItsDebuggerLetsItGoOn(t *testing.T) {
	ours, theirs := net.Pipe()
	events := &qmp{conn: ours, r: bufio.NewReader(ours)}
	done := make(chan struct{})
	go func() {
		watchResets(events, filepath.Join(t.TempDir(), "gone"))
		close(done)
	}()
	r := bufio.NewReader(theirs)
	_, err := theirs.Write([]byte(`{"event":"STOP"}` + "\n" + `{"event":"RESET"}` + "\n"))
	require.NoError(t, err)
	for _, want := range []string{"stop", "cont"} {
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		require.JSONEq(t, `{"execute":"`+want+`"}`, line)
		_, err = theirs.Write([]byte(`{"event":"STOP"}` + "\n" + `{"return":{}}` + "\n"))
		require.NoError(t, err)
	}
	theirs.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
		require.Fail(t, "it does not end with its monitor")
	}
}
