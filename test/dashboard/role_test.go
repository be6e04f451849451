//go:build e2e

package dashboard

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"spore/agent/answers"
	"spore/agent/dashboard/serve"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/status"
	"spore/builder/cmd/access"
	keys "spore/builder/cmd/pki"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/vault"
	role "spore/services/dashboard"
	settings "spore/services/dashboard/serving"
	"spore/storage/atomicfile"
)

// server is the name of the node that serves the pages, and address its own. No other node is there.
const server, address = "edge-01", "10.77.0.11"

// roleCluster is a configuration of two nodes with the role dashboard and no other.
const roleCluster = `
name: plant
id: 6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11
domain: plant.example
network:
  nodeSubnets: [10.77.0.0/24]
services: [dashboard]
nodes:
  - name: ` + server + `
    ips: [` + address + `]
    roles: [dashboard]
  - name: edge-02
    ips: [10.77.0.12]
    roles: [dashboard]
`

// keeper has the keys of a cluster.
type keeper struct {
	t     *testing.T
	facts *facts.Cluster
	tree  *pki.Tree
}

// rolePlant is a node with the role dashboard as it is on a machine: its keys are those of the operator's folder, which the real
// commands have made, it answers what nodes are asked, and spore-dashboard serves the pages.
type rolePlant struct {
	keeper
	// configs is the folder of the configuration, and at where the pages are.
	configs, at string
	m           *node.Machine
	// ahead is by how much the clock of the pages is, in nanoseconds.
	ahead atomic.Int64

	mu sync.Mutex
	// off is whether no node is reached, and asks are the connections to nodes.
	off  bool
	asks []net.Conn
}

func newRolePlant(t *testing.T) *rolePlant {
	t.Helper()
	p := &rolePlant{keeper: keeper{t: t}, configs: filepath.Join(t.TempDir(), "configs")}
	for name, text := range map[string]string{"cluster.yaml": roleCluster, "services/dashboard.yaml": "", "image.yaml": ""} {
		path := filepath.Join(p.configs, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	p.spore("pki", "init", p.configs, "--plain")
	config, report := cluster.Check(os.DirFS(p.configs), cluster.Options{})
	require.NoError(t, report.Err())
	v, err := vault.Open(p.configs+".pki", vault.Keys{})
	require.NoError(t, err)
	require.NoError(t, v.Close())
	p.tree, p.m = v.Tree, nodetest.Installed(t, config, v.Tree)[server]
	p.facts, err = p.m.Part.Cluster()
	require.NoError(t, err)
	api, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(nodetest.ServeAlone(t, p.m, func(ctx context.Context, m *node.Machine) error { return answers.ServeOn(ctx, m, api) }))
	p.says(status.Line{System: "running"})
	p.serve(api.Addr().String())
	return p
}

// serve has the pages served until the test is over, by what spore-dashboard runs.
func (p *rolePlant) serve(api string) {
	p.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(p.t, err)
	p.at = l.Addr().String()
	secret := func(name string) string { return p.m.Root.At(filepath.Join(paths.Secrets, role.Program, name)) }
	ctx, stop := context.WithCancel(context.Background())
	done, ready := make(chan error, 1), make(chan struct{})
	go func() {
		done <- serve.Run(ctx, l, serve.Options{
			Config: settings.Config{
				Node: server, Listen: p.at,
				Server: settings.Pair{Certificate: secret(role.ServerCertificate), Key: secret(role.ServerKey)},
				Reader: settings.Pair{Certificate: secret(role.ReaderCertificate), Key: secret(role.ReaderKey)},
			},
			Root: p.m.Root, Part: p.m.Part, Now: func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) },
			Dial: func(ctx context.Context, network, at string) (net.Conn, error) { return p.dial(ctx, network, at, api) },
			Say:  func(s string) { p.t.Log(s) }, Ready: func() { close(ready) },
		})
	}()
	p.t.Cleanup(func() {
		stop()
		require.NoError(p.t, <-done)
	})
	select {
	case <-ready:
	case err := <-done:
		require.NoError(p.t, err)
	}
}

// dial connects to the node that is there.
func (p *rolePlant) dial(ctx context.Context, network, at, api string) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off || !strings.HasPrefix(at, address+":") {
		return nil, errors.New("no route to host")
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, api)
	if err == nil {
		p.asks = append(p.asks, conn)
	}
	return conn, err
}

// cut has no node be reached from now on.
func (p *rolePlant) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = true
	for _, conn := range p.asks {
		_ = conn.Close() // It may have ended by itself.
	}
}

// says is the status of the node from now on.
func (p *rolePlant) says(line status.Line) {
	p.t.Helper()
	line.Spore, line.Cluster, line.Node, line.Roles = 1, p.facts.Name, server, []string{role.Role}
	_, err := atomicfile.Write(p.m.Root.At(paths.Status), []byte(line.String()+"\n"), 0o644)
	require.NoError(p.t, err)
}

// spore runs the command as a person does, and returns what it prints.
func (p *rolePlant) spore(args ...string) string {
	p.t.Helper()
	root := &cobra.Command{Use: "spore", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(access.Command(), keys.Command())
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetIn(strings.NewReader(""))
	root.SetArgs(args)
	require.NoError(p.t, root.ExecuteContext(p.t.Context()), "%s", out.String())
	return out.String()
}

// What spore access prints.
var (
	printedPassword = regexp.MustCompile(`(?m)^The password for its import, which nothing keeps: (\S+)$`)
	printedSerial   = regexp.MustCompile(`serial number ([0-9a-f]+)\n`)
)

// access has spore make a file for a browser.
func (p *rolePlant) access(user, lifetime string) (file, password, serial string) {
	p.t.Helper()
	file = filepath.Join(p.t.TempDir(), user+".p12")
	said := p.spore("access", p.configs, "--user", user, "--lifetime", lifetime, "--p12", file)
	word, number := printedPassword.FindStringSubmatch(said), printedSerial.FindStringSubmatch(said)
	require.NotNil(p.t, word, said)
	require.NotNil(p.t, number, said)
	return file, word[1], number[1]
}

// made is a certificate that begins at a time and lasts an hour, for which the command makes no file for a browser.
func (k keeper) made(user string, begins time.Time, nodes ...string) tls.Certificate {
	k.t.Helper()
	o := pki.Options{Now: begins, Random: rand.Reader}
	made, err := k.tree.Access(k.facts, pki.NodeReader, user, time.Hour, o)
	if len(nodes) > 0 {
		made, err = k.tree.AccessTo(k.facts, pki.NodeReader, user, nodes, time.Hour, o)
	}
	require.NoError(k.t, err)
	pair, err := tls.X509KeyPair([]byte(made.Certificate), []byte(made.Key))
	require.NoError(k.t, err)
	return pair
}

// another has other keys, for a cluster of the same name and an ID.
func (k keeper) another(id string) keeper {
	k.t.Helper()
	c := *k.facts
	c.ID = id
	tree := pki.New(&c)
	_, err := tree.Update(&c, nil, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(k.t, err)
	return keeper{k.t, &c, tree}
}
