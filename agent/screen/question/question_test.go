package question

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/paths"
	"spore/agent/screen/console"
)

const good = "[Ask]\nPID=1\nSocket=/run/systemd/ask-password/sck.1\n" +
	"AcceptCached=0\nEcho=0\nNotAfter=0\nMessage=That was wrong. Passphrase of x:\nId=spore-bundle\n"

// asked is a root with questions.
func asked(t *testing.T, files map[string]string) paths.Root {
	root := paths.Root(t.TempDir())
	dir := root.At(console.Questions)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return root
}

func TestOpenQuestionsAreListed(t *testing.T) {
	gone := exec.Command("/bin/true")
	require.NoError(t, gone.Run())
	root := asked(t, map[string]string{
		"ask.a": good, "ask.b": strings.Replace(good, "sck.1", "../../../tmp/sck.1",
			1), "ask.c": strings.Replace(good, "PID=1", "PID=x", 1),
		"ask.d": strings.Replace(good, "PID=1", "PID="+strconv.Itoa(gone.Process.Pid),
			1), "ask.e": strings.Repeat("x", maxFile+1), "sck.1": "",
		"ask.f": "[Other]\nSocket=/run/systemd/ask-password/sck.1\n",
	})
	require.Equal(t, []Question{{"ask.a", "That was wrong. Passphrase of x:", "/run/systemd/ask-password/sck.1"}},
		Open(root))
	require.Empty(t, Open(paths.Root(t.TempDir())))
}

func TestAnAnswerIsHeard(t *testing.T) {
	root := asked(t, map[string]string{"ask.a": good})
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: root.At("/run/systemd/ask-password/sck.1"),
		Net: "unixgram"})
	require.NoError(t, err)
	defer conn.Close()
	q := Open(root)[0]
	require.NoError(t, Answer(root, q, []byte("secret")))
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	heard := make([]byte, 100)
	n, err := conn.Read(heard)
	require.NoError(t, err)
	require.Equal(t, "+secret", string(heard[:n]))
	require.ErrorContains(t, Answer(root, q, make([]byte, MaxAnswer+1)), "at most")
	require.NoError(t, conn.Close())
	require.ErrorContains(t, Answer(root, q, []byte("x")), "nobody asks any more")
}

// TestSystemdTakesTheAnswer asks with systemd's own program.
func TestSystemdTakesTheAnswer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the directory of questions is of root")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemd-ask-password", "--no-tty", "--timeout=50", "--id=spore-test",
		"spore test question:")
	var out strings.Builder
	cmd.Stdout = &out
	require.NoError(t, cmd.Start(), "run make deps")
	var q Question
	require.Eventually(t, func() bool {
		for _, q = range Open("/") {
			if q.Message == "spore test question:" {
				return true
			}
		}
		return false
	}, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, Answer("/", q, []byte("a b\xc3\xa4")))
	require.NoError(t, cmd.Wait())
	require.Equal(t, "a b\xc3\xa4\n", out.String())
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("[Ask]\nSocket=/run/systemd/ask-password/..\n"))
	f.Add([]byte("[Ask\n=\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		q, _, err := parse(data)
		if err == nil {
			require.Equal(t, console.Questions, filepath.Dir(q.Socket))
			require.NotContains(t, q.Socket, "..")
		}
	})
}
