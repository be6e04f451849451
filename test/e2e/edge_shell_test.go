//go:build e2e

package e2e

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/shell"
)

// shellKey signs grants for machines of the tests.
func shellKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
}

// shellLines has an image have an emergency shell (image.yaml).
func shellLines() string {
	return fmt.Sprintf("shell: granted\nshellKeys: [%q]\n", shell.EncodeKey(shellKey().Public().(ed25519.PublicKey)))
}

// growing is output that is read while it comes.
type growing struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (g *growing) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.Write(p)
}

func (g *growing) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.String()
}

// look is a command of a shell, and what it says; the command itself, which the terminal shows, does not have it.
type look struct{ command, says string }

// breaksItsGlass opens a shell with a terminal on edge-01, looks at the machine, and acknowledges the shell.
func breaksItsGlass(t *testing.T, g *guest, looks ...look) {
	at, err := g.Address("tcp", apiPort)
	require.NoError(t, err)
	dir, configs := t.TempDir(), filepath.Join(sourceTree, "examples/edge")
	private, err := shell.EncodePrivate(shellKey())
	require.NoError(t, err)
	key, access, grant := filepath.Join(dir, "key"), filepath.Join(dir, "anna.access"), filepath.Join(dir, "grant")
	require.NoError(t, os.WriteFile(key, private, 0o600))
	require.NoError(t, spore("access", "examples/edge", "--pki", suite.dir, "--user", "anna", "--role", "admin", "--lifetime", "1h", "-o", access))
	require.NoError(t, spore("shell", "sign", "examples/edge", "edge-01", "--key", key, "--access", access, "--reason", "a test", "-o", grant))
	line := strings.Join([]string{
		flashTool(t), "shell", configs, "edge-01", "--grant", grant, "--access", access, "--address", "edge-01=" + at,
	}, " ")

	// script(1) has a terminal for the command.
	cmd := exec.Command("script", "--quiet", "--flush", "--return", "--command", line, "/dev/null")
	cmd.Env = append(os.Environ(), "TERM=vt100", "SHELL=/bin/sh")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	var out growing
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { t.Log(out.String()) })
	await := func(what string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(out.String(), what) }, time.Minute, 100*time.Millisecond, what)
	}
	await("# ")
	_, err = io.WriteString(in, "echo $TERM on $(tty) as $(id -u); cat /sys/kernel/security/lockdown\n")
	require.NoError(t, err)
	await("vt100 on /dev/pts/")
	await("[integrity]")
	for _, l := range looks {
		_, err = io.WriteString(in, l.command+"\n")
		require.NoError(t, err)
		await(l.says)
	}
	_, err = io.WriteString(in, "systemctl --failed --no-legend | wc -l; exit 4\n")
	require.NoError(t, err)
	_ = cmd.Wait()
	require.Equal(t, 4, cmd.ProcessState.ExitCode())

	ask := asker(t, at, verbsBound)
	list, errs, ok := ask("shell", "edge-01", "--replay")
	require.True(t, ok, errs)
	id := regexp.MustCompile(`(?m)^([0-9a-f]{32}) .* anna .* a test +exit status 4 +no$`).FindStringSubmatch(list)
	require.NotNil(t, id, list)
	replay, errs, ok := ask("shell", "edge-01", "--replay="+id[1], "--fast")
	require.True(t, ok, errs)
	require.Contains(t, out.String(), replay, "it is what was shown")
	require.Contains(t, replay, "vt100 on /dev/pts/")
	told := func() bool {
		status, errs, ok := ask("status", "--node", "edge-01")
		require.True(t, ok, errs)
		return strings.Contains(status, "by anna (a test), not acknowledged: "+id[1])
	}
	require.Eventually(t, told, time.Minute, time.Second)
	_, errs, ok = ask("shell", "edge-01", "--acknowledge", id[1])
	require.True(t, ok, errs)
	require.Eventually(t, func() bool { return !told() }, time.Minute, time.Second)
}
