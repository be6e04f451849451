package answers

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	emergency "spore/agent/shell"
	"spore/agent/shell/kept"
	"spore/pki"
	"spore/wire/nodeapi"
	"spore/wire/shell"
)

// shellBench is a node with an emergency shell, and who asks for one.
type shellBench struct {
	t *testing.T
	m *node.Machine
	// key signs grants for cluster.
	key     ed25519.PrivateKey
	cluster string
	admin   *nodeapi.Client
	other   *nodeapi.Client
	lower   *nodeapi.Client
}

func newShellBench(t *testing.T) *shellBench {
	machines, c, tree := nodetest.BrokersWithKeys(t, "127.0.0.1")
	m := machines["kafka-1"]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(nodetest.Serve(t, m, func(ctx context.Context, m *node.Machine) error { return ServeOn(ctx, m, l) }))
	key, err := shell.NewKey(rand.Reader)
	require.NoError(t, err)
	b := &shellBench{t: t, m: m, key: key, cluster: strings.ToLower(c.ID)}
	for row, to := range map[*nodeapi.Client]**nodeapi.Client{
		operator(t, c, tree, pki.NodeAdmin): &b.admin, operator(t, c, tree, pki.NodeAdmin): &b.other,
		operator(t, c, tree, pki.NodeOperator): &b.lower,
	} {
		row.Addresses = func(string) ([]string, error) { return []string{l.Addr().String()}, nil }
		*to = row
	}
	return b
}

// trust gives the image the key that signs grants.
func (b *shellBench) trust() {
	file := b.m.Root.At(shell.KeysPath)
	require.NoError(b.t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(b.t, os.WriteFile(file, []byte(shell.EncodeKey(b.key.Public().(ed25519.PublicKey))+"\n"), 0o644))
}

// build gives the image a shell, and listens as systemd does.
func (b *shellBench) build() {
	b.trust()
	path := b.m.Root.At(paths.ShellSocket)
	require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = l.Close() })
	s := emergency.Server{Machine: b.m, Send: func([]emergency.Field) error { return nil }, Command: func(bool) *exec.Cmd {
		cmd := exec.Command("/bin/sh")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		return cmd
	}}
	go func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			go func() { _ = s.Serve(context.Background(), conn) }()
		}
	}()
}

// grant is one for a client's certificate.
func (b *shellBench) grant(of *nodeapi.Client, change func(*shell.Grant)) []byte {
	id, err := of.Identity()
	require.NoError(b.t, err)
	pair, err := tls.X509KeyPair(id.Certificate, id.Key)
	require.NoError(b.t, err)
	now := time.Now().UTC().Truncate(time.Second)
	name, err := shell.NewID(rand.Reader)
	require.NoError(b.t, err)
	g := shell.Grant{
		Cluster: b.cluster, Node: "kafka-1", ID: name, Issued: now, Until: now.Add(time.Hour), Minutes: 5,
		Certificate: nodeapi.Fingerprint(pair.Leaf), Reason: "a test",
	}
	if change != nil {
		change(&g)
	}
	data, err := shell.Sign(g, b.key)
	require.NoError(b.t, err)
	return data
}

func (b *shellBench) ask(c *nodeapi.Client, grant []byte, q url.Values) (io.ReadWriteCloser, error) {
	return c.Upgrade(b.t.Context(), "kafka-1", nodeapi.Request{
		Method: http.MethodPost, Path: nodeapi.ShellPath, Query: q,
		Header: http.Header{shell.GrantHeader: {base64.StdEncoding.EncodeToString(grant)}},
	}, shell.Protocol)
}

// results are the ends of the records of calls.
func (b *shellBench) results() string {
	data, err := b.admin.Read(b.t.Context(), "kafka-1", nodeapi.Request{Path: nodeapi.TrailPath}, 1<<20)
	require.NoError(b.t, err)
	var out strings.Builder
	_, err = nodeapi.ReadTrail(strings.NewReader(string(data)), func(r nodeapi.TrailRecord) error {
		if r.Call == "shell" {
			out.WriteString(string(r.Stage) + " " + r.Arguments["reason"] + ": " + r.Result + "\n")
		}
		return nil
	})
	require.NoError(b.t, err)
	return out.String()
}

func TestAShellOpensOverTheAPI(t *testing.T) {
	b := newShellBench(t)
	grant := b.grant(b.admin, nil)
	_, err := b.ask(b.admin, grant, nil)
	require.ErrorContains(t, err, "this image has no shell; write `shell: granted` into image.yaml")
	b.build()
	conn, err := b.ask(b.admin, grant, nil)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, shell.WriteFrame(conn, shell.Input, []byte("echo it is $((40+2)); exit 5\n")))
	kind, data, err := shell.ReadFrame(conn)
	require.NoError(t, err)
	require.Equal(t, shell.Output, kind)
	require.Equal(t, "it is 42\n", string(data))
	kind, data, err = shell.ReadFrame(conn)
	require.NoError(t, err)
	require.Equal(t, shell.Exit, kind)
	require.JSONEq(t, `{"status":5}`, string(data))
	// The record of the end comes a moment after the end.
	ended := func() bool { return strings.Contains(b.results(), "done a test") }
	require.Eventually(t, ended, 20*time.Second, 10*time.Millisecond)
	_, err = b.ask(b.admin, grant, nil)
	require.ErrorContains(t, err, kept.ErrUsed.Error())
	require.Equal(t, "begun a test: \ndone a test: the shell ended: exit status 5\n"+
		"begun a test: \nfailed a test: this grant was used already; sign another one\n", b.results())
}

func TestNobodyElseOpensAShellOverTheAPI(t *testing.T) {
	b := newShellBench(t)
	b.build()
	_, err := b.ask(b.lower, b.grant(b.lower, nil), nil)
	require.ErrorContains(t, err, "POST /v1/shell is for certificates of spore:admin")
	_, err = b.ask(b.other, b.grant(b.admin, nil), nil)
	require.ErrorContains(t, err, "it is for another certificate")
	_, err = b.ask(b.admin, b.grant(b.admin, func(g *shell.Grant) { g.Node = "kafka-2" }), nil)
	require.ErrorContains(t, err, "it is for kafka-2, and this is kafka-1")
	_, err = b.ask(b.admin, b.grant(b.admin, func(g *shell.Grant) {
		g.Issued, g.Until = g.Issued.Add(-2*time.Hour), g.Issued.Add(-time.Hour)
	}), nil)
	require.ErrorContains(t, err, "it could be used until")
	ours := b.key
	b.key, err = shell.NewKey(rand.Reader)
	require.NoError(t, err)
	_, err = b.ask(b.admin, b.grant(b.admin, nil), nil)
	b.key = ours
	require.ErrorContains(t, err, "the grant is not signed by a key of this image")
	for why, ask := range map[string]func() error{
		"the grant is malformed": func() error { _, err := b.ask(b.admin, []byte("x"), nil); return err },
		"is not the name of a terminal": func() error {
			_, err := b.ask(b.admin, b.grant(b.admin, nil), url.Values{"term": {"a b"}, "rows": {"1"}, "columns": {"1"}})
			return err
		},
		"rows is not a number": func() error {
			_, err := b.ask(b.admin, b.grant(b.admin, nil), url.Values{"term": {"vt100"}, "rows": {"x"}, "columns": {"1"}})
			return err
		},
		"by an upgrade to spore-shell/1": func() error {
			_, err := b.admin.Read(t.Context(), "kafka-1", nodeapi.Request{Method: http.MethodPost, Path: nodeapi.ShellPath}, 1<<20)
			return err
		},
	} {
		require.ErrorContains(t, ask(), why)
	}
	sessions, err := kept.In(b.m.Root).Sessions()
	require.NoError(t, err)
	require.Empty(t, sessions, "nothing was used up")
}

func TestAShellEndsWithItsCertificate(t *testing.T) {
	b := newShellBench(t)
	b.build()
	conn, err := b.ask(b.admin, b.grant(b.admin, nil), nil)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, shell.WriteFrame(conn, shell.Input, []byte("echo ready; sleep 1000\n")))
	_, _, err = shell.ReadFrame(conn)
	require.NoError(t, err)
	_, err = b.ask(b.other, b.grant(b.other, nil), nil)
	require.ErrorContains(t, err, kept.ErrOpen.Error())
	id, err := b.admin.Identity()
	require.NoError(t, err)
	nodetest.Withdraw(t, b.m, serial(t, id))
	_, _, err = shell.ReadFrame(conn)
	require.Error(t, err)
	require.Eventually(t, func() bool {
		all, err := kept.In(b.m.Root).Sessions()
		return err == nil && len(all) == 1 && all[0].Result == "the connection was lost"
	}, 20*time.Second, 50*time.Millisecond)
}

// plays has the process of root be what a test does with a connection, behind the call and the answer.
func (b *shellBench) plays(answer string, do func(conn *net.UnixConn)) {
	b.trust()
	path := b.m.Root.At(paths.ShellSocket)
	require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
			_, _ = io.WriteString(conn, answer)
			do(conn)
		}
	}()
}

func TestTheEndOfAShellIsToldAlsoToWhoIsStillSending(t *testing.T) {
	b := newShellBench(t)
	sent := make(chan struct{})
	b.plays("{}\n", func(conn *net.UnixConn) {
		_ = conn.CloseRead() // What is passed on from now on fails, as when the shell has ended.
		<-sent
		time.Sleep(300 * time.Millisecond)
		_ = shell.WriteFrame(conn, shell.Exit, []byte(`{"status":3}`))
	})
	conn, err := b.ask(b.admin, b.grant(b.admin, nil), nil)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, shell.WriteFrame(conn, shell.Input, []byte("exit 3\n")))
	require.NoError(t, shell.WriteFrame(conn, shell.Input, []byte("echo more\n")))
	close(sent)
	kind, data, err := shell.ReadFrame(conn)
	require.NoError(t, err)
	require.Equal(t, shell.Exit, kind)
	require.JSONEq(t, `{"status":3}`, string(data))
}

func TestWhoOpensAShellAndEndsWithoutAnAnswerIsSaid(t *testing.T) {
	b := newShellBench(t)
	b.plays("", func(*net.UnixConn) {})
	_, err := b.ask(b.admin, b.grant(b.admin, nil), nil)
	require.ErrorContains(t, err, "503")
	require.ErrorContains(t, err, "what opens a shell ended without an answer")
}

func TestWhereNobodyListensForAShellItIsSaid(t *testing.T) {
	b := newShellBench(t)
	b.trust()
	_, err := b.ask(b.admin, b.grant(b.admin, nil), nil)
	require.ErrorContains(t, err, "what opens a shell does not run; see the journal of spore-shell.socket")
}
