//go:build e2e

package nspawn

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/shell"
)

// script runs `spore shell` with something to read, and returns what it printed and its exit status.
func (l *Lab) script(in string, args ...string) (out, errs string, status int) {
	l.t.Helper()
	cmd := l.shell(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &stdout, &stderr
	err := cmd.Run()
	l.t.Logf("$ spore shell configs %s\n%s%s", strings.Join(args, " "), &stdout, &stderr)
	if err != nil {
		require.True(l.t, errors.As(err, new(*exec.ExitError)), err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// sign runs `spore shell sign`, which needs no key of the cluster.
func (l *Lab) sign(args ...string) (out, errs string, ok bool) {
	l.t.Helper()
	configs, err := filepath.Abs(l.options.Configs)
	require.NoError(l.t, err)
	cmd := exec.Command(l.program, append([]string{"shell", "sign", configs}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	l.t.Logf("$ spore shell sign configs %s\n%s%s", strings.Join(args, " "), &stdout, &stderr)
	return stdout.String(), stderr.String(), err == nil
}

func (l *Lab) shell(args ...string) *exec.Cmd {
	configs, err := filepath.Abs(l.options.Configs)
	require.NoError(l.t, err)
	return exec.Command(l.program, append([]string{"shell", configs, "--pki", filepath.Join(l.dir, "keys")}, args...)...)
}

// edgesOpenAShell breaks the glass of edge-1: by a grant that holds, and by those that do not.
func edgesOpenAShell(t *testing.T, l *Lab) {
	ctx := context.Background()
	access := func(user, role string) string {
		file := filepath.Join(l.dir, user+".access")
		_, errs, ok := l.spore(ctx, "access", "--user", user, "--role", role, "--lifetime", "1h", "-o", file)
		require.True(t, ok, errs)
		return file
	}
	carl, dana, reader := access("carl", "admin"), access("dana", "admin"), access("rita", "reader")
	private, err := shell.EncodePrivate(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)))
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "key") // testdata/edges/image.yaml has its public half.
	require.NoError(t, os.WriteFile(key, private, 0o600))
	session := regexp.MustCompile(`session ([0-9a-f]{32})`)
	sign := func() (file, id string) {
		file = filepath.Join(t.TempDir(), "grant")
		out, errs, ok := l.sign("edge-1", "--key", key, "--access", carl, "--reason", "a rehearsal", "-o", file)
		require.True(t, ok, errs)
		m := session.FindStringSubmatch(out)
		require.NotNil(t, m, out)
		return file, m[1]
	}
	_, errs, ok := l.sign("edge-1", "--key", key, "--access", reader, "--reason", "a rehearsal", "-o", filepath.Join(t.TempDir(), "grant"))
	require.False(t, ok)
	require.Contains(t, errs, "it is for the role reader")
	grant, id := sign()

	// Those that do not hold use nothing up.
	_, errs, status := l.script("id\n", "edge-1", "--grant", grant, "--access", dana)
	require.Equal(t, 1, status)
	require.Contains(t, errs, "it is for another certificate")
	data, err := os.ReadFile(grant)
	require.NoError(t, err)
	changed := filepath.Join(t.TempDir(), "changed")
	require.NoError(t, os.WriteFile(changed, bytes.Replace(data, []byte("a rehearsal"), []byte("a reHearsal"), 1), 0o600))
	_, errs, status = l.script("id\n", "edge-1", "--grant", changed, "--access", carl)
	require.Equal(t, 1, status)
	require.Contains(t, errs, "the grant is not signed by a key of this image, or was changed")

	commands := "id\nsystemctl --failed --no-legend\necho $SPORE_NOTHING; uname -n\nyes | head -n 1\nexit 3\n"
	out, errs, status := l.script(commands, "edge-1", "--grant", grant, "--access", carl)
	require.Equal(t, 3, status, errs)
	require.Contains(t, out, "uid=0(root)")
	require.Contains(t, out, "edge-1")
	require.NotContains(t, strings.ToLower(out), "broken pipe")
	_, errs, status = l.script("id\n", "edge-1", "--grant", grant, "--access", carl)
	require.Equal(t, 1, status)
	require.Contains(t, errs, "this grant was used already")

	// It is told until somebody has seen it, also by another process of the agent.
	told := func(node string) bool {
		status, _, _ := l.spore(ctx, "status", "--node", node, "--access", reader)
		return strings.Contains(status, "by carl (a rehearsal), not acknowledged: "+id)
	}
	require.Eventually(t, func() bool { return told("edge-1") }, time.Minute, 500*time.Millisecond)
	l.Node("edge-1").MustExec("systemctl", "restart", "spore-agent.service")
	require.Eventually(t, func() bool { return told("edge-1") }, time.Minute, 500*time.Millisecond)
	health, _, _ := l.spore(ctx, "health", "--node", "edge-1")
	require.Regexp(t, `(?m)^edge-1 +shell +warning +a shell was open on .* by carl \(a rehearsal\), not acknowledged`, health)

	// The replay is what was shown.
	text, errs, status := l.script("", "edge-1", "--replay="+id[:8], "--json", "--access", dana)
	require.Equal(t, 0, status, errs)
	var answer []struct{ Results [][]shell.Record }
	require.NoError(t, json.Unmarshal([]byte(text), &answer))
	var shown, read bytes.Buffer
	for _, part := range answer[0].Results {
		for _, r := range part {
			if r.Input {
				read.Write(r.Data)
			} else {
				shown.Write(r.Data)
			}
		}
	}
	require.Equal(t, out, shown.String())
	require.Equal(t, commands, read.String())
	raw, errs, status := l.script("", "edge-1", "--replay="+id, "--fast", "--plain", "--access", dana)
	require.Equal(t, 0, status, errs)
	require.Contains(t, raw, "uid=0(root)")
	require.Contains(t, errs, "records")
	require.NotContains(t, errs, "does not have")
	_, _, status = l.script("", "edge-1", "--replay="+id, "--access", reader)
	require.Equal(t, 1, status, "what was shown is for admins")

	// Another node has the record of the call, too.
	require.Eventually(t, func() bool {
		trail, _, _ := l.spore(ctx, "trail", "--user", "carl")
		return regexp.MustCompile(`(?m)^\S+Z +edge-1 +carl +admin +\S+ +\S+ +shell .*exit status 3 +-$`).MatchString(trail)
	}, time.Minute, time.Second)

	_, errs, ok = l.spore(ctx, "shell", "edge-1", "--acknowledge", id, "--access", reader)
	require.False(t, ok, errs)
	_, errs, ok = l.spore(ctx, "shell", "edge-1", "--acknowledge", id, "--access", dana)
	require.True(t, ok, errs)
	require.Contains(t, errs, "acknowledged by dana")
	require.Eventually(t, func() bool { return !told("edge-1") }, time.Minute, 500*time.Millisecond)

	// Who loses the connection loses the shell, and all that it has started.
	grant, id = sign()
	cmd := l.shell("edge-1", "--grant", grant, "--access", carl)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = in.Write([]byte("nohup sleep 4711 >/dev/null 2>&1 &\nsleep 4712\n"))
	require.NoError(t, err)
	edge := l.Node("edge-1")
	runs := func() bool {
		_, err := edge.Exec("sh", "-c", "grep -laqs 471[12] /proc/[0-9]*/cmdline")
		return err == nil
	}
	require.Eventually(t, runs, time.Minute, 200*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return !runs() }, time.Minute, 200*time.Millisecond)
	require.Eventually(t, func() bool {
		list, _, _ := l.script("", "edge-1", "--replay", "--access", dana)
		return regexp.MustCompile(`(?m)^` + id + ` .*the connection was lost +no$`).MatchString(list)
	}, time.Minute, time.Second)
	_, errs, ok = l.spore(ctx, "shell", "edge-1", "--acknowledge", id, "--access", dana)
	require.True(t, ok, errs)
	require.Empty(t, edge.MustExec("systemctl", "--failed", "--no-legend", "--plain"))
}
