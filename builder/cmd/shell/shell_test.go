package shell

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"spore/builder/cmd/access"
	"spore/builder/cmd/exit"
	keys "spore/builder/cmd/pki"
	"spore/pki/seal"
	"spore/wire/shell"
)

// folderOf is a configuration with keys, in the way in which an operator has them.
func folderOf(t *testing.T) (configs string) {
	t.Helper()
	configs = filepath.Join(t.TempDir(), "edge")
	require.NoError(t, os.CopyFS(configs, os.DirFS("../../../examples/edge")))
	_, _, err := run(t, keys.Command(), "init", configs, "--plain")
	require.NoError(t, err)
	return configs
}

func run(t *testing.T, c *cobra.Command, args ...string) (out, errs string, err error) {
	t.Helper()
	root := &cobra.Command{Use: "spore", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(c)
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetIn(strings.NewReader(""))
	root.SetArgs(append([]string{c.Name()}, args...))
	err = root.ExecuteContext(context.Background())
	return stdout.String(), stderr.String(), err
}

func TestAGrantIsSignedForOneNodeAndOneCertificate(t *testing.T) {
	configs := folderOf(t)
	file := configs + ".access"
	key := filepath.Join(t.TempDir(), "key")
	printed, _, err := run(t, Command(), "make-key", key, "--plain")
	require.NoError(t, err)
	_, _, err = run(t, Command(), "make-key", key, "--plain")
	require.ErrorContains(t, err, "keys are never overwritten")
	grant := filepath.Join(t.TempDir(), "grant")
	_, _, err = run(t, Command(), "sign", configs, "edge-01", "--key", key, "--reason", "a test", "-o", grant)
	require.ErrorContains(t, err, "make one with `spore access --role admin`", "there is none")
	_, _, err = run(t, access.Command(), configs, "--role", "admin", "--user", "anna", "--lifetime", "1h")
	require.NoError(t, err)
	out, errs, err := run(t, Command(), "sign", configs, "edge-01", "--key", key, "--reason", "a test", "--minutes", "20",
		"--for", "8h", "-o", grant)
	require.NoError(t, err)
	require.Contains(t, errs, "image.yaml does not name this key under shellKeys")
	data, g, err := readGrant(grant)
	require.NoError(t, err)
	until := g.Until.Format(time.RFC3339)
	require.Contains(t, out, "anna may open one shell of 20 minutes on edge-01 until "+until+", session "+g.ID)
	st, err := os.Stat(grant)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
	text := regexp.MustCompile(`(?m)^shellKeys: \["(.*)"\]$`).FindStringSubmatch(printed)
	require.NotNil(t, text, printed)
	public, err := shell.ParseKey(text[1])
	require.NoError(t, err)
	opened, err := shell.Open(data, []ed25519.PublicKey{public})
	require.NoError(t, err)
	require.Equal(t, g, opened)
	require.Equal(t, "edge-01", g.Node)
	require.Equal(t, "a test", g.Reason)
	require.Equal(t, 8*time.Hour, g.Until.Sub(g.Issued))
	// An image that names the key: validate takes what was printed, and nothing is noted.
	image, err := os.OpenFile(filepath.Join(configs, "image.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = image.WriteString(printed)
	require.NoError(t, err)
	require.NoError(t, image.Close())
	_, errs, err = run(t, Command(), "sign", configs, "edge-01", "--key", key, "--reason", "a test", "-o", grant)
	require.NoError(t, err)
	require.Empty(t, errs)

	for why, args := range map[string][]string{
		"--reason is missing":             {configs, "edge-01"},
		"read the key that signs":         {configs, "edge-01", "--reason", "x", "--key", key + ".other"},
		"it has no private key in PEM":    {configs, "edge-01", "--reason", "x", "--key", file},
		"edge-99":                         {configs, "edge-99", "--reason", "x"},
		"a session lasts 1 to 60 minutes": {configs, "edge-01", "--reason", "x", "--minutes", "120"},
		"it is to be used within 24h0m0s": {configs, "edge-01", "--reason", "x", "--for", "25h"},
		"the reason is text of":           {configs, "edge-01", "--reason", "two\nlines"},
		"arg(s)":                          {},
	} {
		all := append([]string{"sign", "--key", key, "-o", filepath.Join(t.TempDir(), "grant")}, args...)
		_, _, err := run(t, Command(), all...)
		require.ErrorContains(t, err, why)
	}
	for _, role := range []string{"reader", "operator"} {
		why := "it is for the role " + role
		_, _, err = run(t, access.Command(), configs, "--role", role, "--lifetime", "1h", "-o", file)
		require.NoError(t, err)
		_, _, err = run(t, Command(), "sign", configs, "edge-01", "--key", key, "--reason", "x", "-o", grant)
		require.ErrorContains(t, err, why)
	}

	// Where a shell is opened, it is for the node that is named.
	_, _, err = run(t, Command(), configs, "edge-02", "--grant", grant)
	require.Error(t, err)
}

func TestAKeyIsKeptBehindAPassphrase(t *testing.T) {
	dir := t.TempDir()
	word, other := filepath.Join(dir, "word"), filepath.Join(dir, "other")
	require.NoError(t, os.WriteFile(word, []byte("five words drawn by dice\n"), 0o600))
	require.NoError(t, os.WriteFile(other, []byte("five other words\n"), 0o600))
	file := filepath.Join(dir, "key")
	_, _, err := run(t, Command(), "make-key", file, "--passphrase-file", word)
	require.NoError(t, err)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, seal.IsSealed(data))
	_, err = readKey(file, word)
	require.NoError(t, err)
	_, err = readKey(file, other)
	require.ErrorIs(t, err, seal.ErrPassphrase)
	require.NoError(t, os.WriteFile(word, []byte("short\n"), 0o600))
	_, _, err = run(t, Command(), "make-key", file+".2", "--passphrase-file", word)
	require.ErrorContains(t, err, "take at least 12")
	_, _, err = run(t, Command(), "make-key", file+".2", "--passphrase-file", word, "--plain")
	require.Equal(t, exit.Misuse, exit.Code(err))
}

func TestWhatIsAskedForIsOneThing(t *testing.T) {
	for _, args := range [][]string{
		{"edge-01"}, {"edge-01", "--grant", "x", "--replay"}, {"edge-01", "--acknowledge", "x", "--replay=y"},
		{"edge-01", "--grant", "x", "--fast"}, {"edge-01", "--grant", "x", "--json"}, {"edge-01", "--acknowledge", "x", "--plain"}, {},
	} {
		_, _, err := run(t, Command(), args...)
		require.Equal(t, exit.Misuse, exit.Code(err), "%v: %v", args, err)
	}
}

func TestAFileThatIsNoGrantIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "grant")
	_, _, err := readGrant(file)
	require.ErrorContains(t, err, "read the grant")
	for _, text := range []string{"", "x", strings.Repeat("x", shell.MaxGrant+1)} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, _, err = readGrant(file)
		require.ErrorContains(t, err, file)
	}
}

func TestASessionIsFoundByTheBeginningOfItsName(t *testing.T) {
	all := []shell.Session{{ID: "aa11"}, {ID: "aa22"}, {ID: "bb33"}}
	id, err := find(all, "bb")
	require.NoError(t, err)
	require.Equal(t, "bb33", id)
	_, err = find(all, "aa")
	require.ErrorContains(t, err, "2 sessions")
	_, err = find(all, "cc")
	require.ErrorContains(t, err, "no session")
}

func TestAReplayIsRawAndAPlainOneIsNot(t *testing.T) {
	records := []shell.Record{
		{At: 0, Input: true, Data: []byte("id\n")}, {At: 20, Data: []byte("a\x1b[2Jb\r\nhalf ")},
		{At: 90, Data: []byte("a line")},
	}
	var out bytes.Buffer
	began := time.Now()
	require.NoError(t, (&options{}).play(t.Context(), &out, records))
	require.Equal(t, "id\na\x1b[2Jb\r\nhalf a line", out.String())
	require.GreaterOrEqual(t, time.Since(began), 90*time.Millisecond)
	out.Reset()
	require.NoError(t, (&options{fast: true, plain: true}).play(t.Context(), &out, records))
	require.Equal(t, "id\na\\x1b[2Jb\nhalf a line\n", out.String())
	out.Reset()
	long := []shell.Record{{Data: bytes.Repeat([]byte("x"), 3*maxLine)}}
	require.NoError(t, (&options{fast: true, plain: true}).play(t.Context(), &out, long))
	require.Equal(t, 3, strings.Count(out.String(), "\n"))
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, (&options{}).play(stopped, io.Discard, []shell.Record{{At: 100_000}}), context.Canceled)
}

func TestSessionsAreListedWithoutWhatATerminalObeys(t *testing.T) {
	begun := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	require.NoError(t, table(&out, []shell.Session{
		{ID: "0a", Begun: begun, Ended: begun.Add(90 * time.Second), User: "anna", From: "10.0.0.9:1", Reason: "a\x1b[2Jb",
			Result: "exit status 0", Acknowledged: begun, AcknowledgedBy: "bert"},
		{ID: "0b", Begun: begun, User: "anna", Reason: "x"},
		{ID: "0c", Result: "it cannot be read"},
	}))
	require.Regexp(t, `(?m)^0c +- +- .* it cannot be read +no$`, out.String())
	require.Contains(t, out.String(), "1m30s")
	require.Contains(t, out.String(), `a\x1b[2Jb`)
	require.Contains(t, out.String(), "by bert at 2026-11-26T08:00:00Z")
	require.Regexp(t, `(?m)^0b .* open +no$`, out.String())
	_, err := parts[shell.Session]([]json.RawMessage{[]byte("1")})
	require.ErrorContains(t, err, "malformed")
}

// other is the side of a node.
type other struct {
	io.Reader
	io.Writer
	closed chan struct{}
}

func (o other) Close() error { close(o.closed); return nil }

func TestASessionShowsWhatTheNodeSendsAndEndsAsItSays(t *testing.T) {
	frames := func(kinds string, data ...string) io.Reader {
		var b bytes.Buffer
		for i, kind := range kinds {
			require.NoError(t, shell.WriteFrame(&b, shell.Kind(kind), []byte(data[i])))
		}
		return &b
	}
	for name, c := range map[string]struct {
		from    io.Reader
		shown   string
		outcome shell.Outcome
		err     string
	}{
		"to its end": {frames("oaox", "a", "", "b", `{"status":3}`), "ab", shell.Outcome{Status: 3}, ""},
		"until its time": {
			frames("x", `{"status":129,"why":"its time was over"}`), "", shell.Outcome{Status: 129, Why: "its time was over"}, "",
		},
		"until it is cut":      {frames("o", "a"), "a", shell.Outcome{}, "the connection was lost"},
		"a frame of the other": {frames("i", "a"), "", shell.Outcome{}, "malformed"},
		"an end that is none":  {frames("x", "x"), "", shell.Outcome{}, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := &cobra.Command{}
			var out bytes.Buffer
			cmd.SetOut(&out)
			s := session{cmd: cmd, conn: other{c.from, io.Discard, make(chan struct{})}}
			o, err := s.show(t.Context())
			require.Equal(t, c.shown, out.String())
			require.Equal(t, c.outcome, o)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestWhatIsTypedIsSentToItsEnd(t *testing.T) {
	cmd := &cobra.Command{}
	cmd.SetIn(strings.NewReader("id\n"))
	var sent bytes.Buffer
	s := session{cmd: cmd, conn: other{strings.NewReader(""), &sent, make(chan struct{})}}
	s.send()
	kind, data, err := shell.ReadFrame(&sent)
	require.NoError(t, err)
	require.Equal(t, shell.Input, kind)
	require.Equal(t, "id\n", string(data))
	kind, _, err = shell.ReadFrame(&sent)
	require.NoError(t, err)
	require.Equal(t, shell.End, kind)
	_, terminal := s.terminal()
	require.False(t, terminal)
}

func TestTheNameOfATerminalIsOneThatNodesKnow(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	require.Equal(t, "xterm-256color", termName())
	t.Setenv("TERM", "../x")
	require.Equal(t, "vt100", termName())
	t.Setenv("TERM", "")
	require.Equal(t, "vt100", termName())
}
