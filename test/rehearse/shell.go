package rehearse

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
)

// Shell is the root shell on the console of a machine, which the word spore.console on its kernel's command line opens.
type Shell struct {
	t       *testing.T
	conn    net.Conn
	console *vm.Console
	mark    int
	limit   time.Duration
}

// Attach is what spore boot --console does at a terminal, for a node that runs with the folder out. limit bounds the wait for the
// shell, and for each command.
func Attach(t *testing.T, out, node string, limit time.Duration) *Shell {
	t.Helper()
	dir, err := os.Open(filepath.Join(out, "vm", node))
	require.NoError(t, err)
	defer dir.Close()
	// The path of a socket may have 107 characters (unix(7)).
	conn, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/console", dir.Fd()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	s := &Shell{t: t, conn: conn, limit: limit}
	s.console = vm.Collect(conn, io.Discard, func() (wall, cpu time.Duration) { return 0, 0 })
	s.await(0, `login: root \(automatic login\)`)
	for end := time.Now().Add(limit); ; { // What is typed before the first prompt is lost.
		s.send("dmesg -n 1; echo shell $((6 * 7))\r")
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_, mark, err := s.console.AwaitMatch(ctx, s.mark, regexp.MustCompile(`^shell 42$`))
		cancel()
		if err == nil {
			s.mark = mark
			return s
		}
		require.True(t, time.Now().Before(end), "no shell on the console of %s: %v", node, err)
	}
}

func (s *Shell) send(text string) {
	s.t.Helper()
	_, err := io.WriteString(s.conn, text)
	require.NoError(s.t, err)
}

func (s *Shell) await(from int, pattern string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), s.limit)
	defer cancel()
	var err error
	_, s.mark, err = s.console.AwaitMatch(ctx, from, regexp.MustCompile(pattern))
	require.NoError(s.t, err)
}

// Run types a command and returns the lines that it prints.
func (s *Shell) Run(text string) []string {
	s.t.Helper()
	from := s.mark
	// The output may end without a newline, as JSON of ceph does.
	s.send("(" + text + ") 2>&1 | sed 's/^/>> /'; printf '\\n>> end %d\\n' $((6 * 7))\r")
	s.await(from, `^>> end 42$`)
	var out []string
	for _, l := range s.console.Lines(from) {
		if printed, ok := strings.CutPrefix(l.Text, ">> "); ok && printed != "end 42" {
			out = append(out, printed)
		}
	}
	return out
}
