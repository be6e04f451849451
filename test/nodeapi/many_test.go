package nodeapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/api"
	"spore/agent/health"
	"spore/builder/cmd/reach"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/bundle"
	protocol "spore/wire/nodeapi"
)

// many is how many nodes there are, of which the last down do not answer: what they are asked is swallowed.
const (
	many = 200
	down = 3
)

// Bounds of a command that asks them all: CPU, and memory in KiB.
const (
	manyCPU    = time.Second
	manyMemory = 100 << 10
)

func TestAskingTwoHundredNodesCostsUnderASecond(t *testing.T) {
	if testing.Short() {
		t.Skip("makes the keys of 200 nodes")
	}
	dir := t.TempDir()
	configs := filepath.Join(dir, "configs")
	require.NoError(t, os.MkdirAll(filepath.Join(configs, "services"), 0o755))
	var text strings.Builder
	text.WriteString("name: plant\nid: 6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11\ndomain: plant.example\nnetwork: {nodeSubnets: [10.78.0.0/16], gateways: [10.78.0.1], nameservers: [10.78.0.1]}\nservices: [dns]\nnodes:\n")
	for i := range many {
		fmt.Fprintf(&text, "  - {name: edge-%03d, ips: [10.78.%d.%d], roles: [dns-server]}\n", i, i/200, i%200+10)
	}
	require.NoError(t, os.WriteFile(filepath.Join(configs, "cluster.yaml"), []byte(text.String()), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(configs, "services", "dns.yaml"), []byte("forwarders: [10.78.0.1]\n"), 0o644))
	config, report := cluster.Check(os.DirFS(configs), cluster.Options{})
	require.NoError(t, report.Err())
	c, nodes := cluster.Facts(config)
	tree := pki.New(&c)
	o := pki.Options{Now: time.Now(), Random: rand.Reader}
	_, err := tree.Update(&c, nodes, o)
	require.NoError(t, err)
	made, err := tree.Access(&c, pki.NodeOperator, "anna", time.Hour, o)
	require.NoError(t, err)
	access, err := reach.Access{
		Cluster: c.ID, Person: "anna", Role: protocol.Operator, Ends: made.Ends,
		Certificate: made.Certificate, Key: string(made.Key), Authorities: string(made.Authority),
	}.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(configs+".access", access, 0o600))

	var addresses []string
	for i := range nodes {
		addresses = append(addresses, "--address", nodes[i].Name+"="+manyServe(t, &c, &nodes[i], tree, i >= many-down))
	}
	program := filepath.Join(dir, "spore")
	built, err := exec.Command("go", "build", "-o", program, "spore/builder").CombinedOutput()
	require.NoError(t, err, "%s", built)
	for _, command := range [][]string{{"status"}, {"health"}, {"support", "--summary"}} {
		t.Run(strings.Join(command, " "), func(t *testing.T) {
			args := append(append(command[:1:1], configs), append(command[1:], "--timeout", "3s")...)
			cmd := exec.Command(program, append(args, addresses...)...)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			began := time.Now()
			err := cmd.Run()
			took := time.Since(began)
			require.Error(t, err, "%d nodes do not answer", down)
			require.Contains(t, out.String(), "edge-000")
			require.Regexp(t, `edge-199 .*no answer in time`, out.String()+errs.String())
			used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			memory := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
			t.Logf("%s of %d nodes: %.2f s of CPU, %d MiB, %.1f s", strings.Join(command, " "), many, used.Seconds(), memory>>10, took.Seconds())
			require.Less(t, used, manyCPU)
			require.Less(t, memory, int64(manyMemory))
		})
	}
}

// manyServe has a node answer on the loopback, and returns where. One that is silent takes connections and says
// nothing.
func manyServe(t *testing.T, c *facts.Cluster, n *facts.Node, tree *pki.Tree, silent bool) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	if silent {
		return l.Addr().String()
	}
	data, err := tree.BundleFor(c, n, time.Now())
	require.NoError(t, err)
	signing, err := tree.Public().SigningKeys()
	require.NoError(t, err)
	b, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: c.ID, Node: n.Name, Keys: signing})
	require.NoError(t, err)
	id := protocol.Identity{
		Certificate: []byte(b.Secrets["agent-certificate"]), Key: []byte(b.Secrets["agent-key"]), Authorities: tree.Public().Files()[pki.PublicDir+"/agent.crt"],
	}
	line := edge()
	line.Spore, line.Cluster, line.Node = 1, c.Name, n.Name
	row := func(path string, of any) api.Row {
		answer, err := json.Marshal(of)
		require.NoError(t, err)
		return api.Row{Method: http.MethodGet, Path: path, Who: protocol.Lookers(), Handle: func(w http.ResponseWriter, _ *http.Request, _ protocol.Caller) {
			_, _ = w.Write(answer)
		}}
	}
	server := &api.Server{
		Say: func(string) {}, Now: time.Now, Identity: func() (protocol.Identity, error) { return id, nil },
		Rows: []api.Row{row(protocol.StatusPath, line), row(protocol.HealthPath, health.Of(health.Input{
			Cluster: c, Node: n, Now: time.Now(), Line: line, AgentRuns: true,
			CertificateEnds: time.Now().Add(200 * 24 * time.Hour), Var: health.Space{Bytes: 100, FreeBytes: 50},
		}))},
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	t.Cleanup(func() { cancel(); <-done })
	return l.Addr().String()
}
