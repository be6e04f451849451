package pki

import (
	"crypto/x509"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster"
	"spore/cluster/facts"
	"spore/services"
)

// begin is when the tests' trees are made.
var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// sixNodes is the cluster with every role.
func sixNodes(t testing.TB) (*facts.Cluster, []facts.Node) {
	t.Helper()
	config, report := cluster.Check(os.DirFS("../cluster/testdata/six-nodes"), cluster.Options{})
	require.NoError(t, report.Err())
	c, nodes := cluster.Facts(config)
	return &c, nodes
}

// hasRole tells whether the service of a role is one that the six-node cluster has.
func hasRole(c *facts.Cluster, role string) bool {
	r, ok := services.Of(c).Lookup(role)
	return ok && c.Services.Has(r.Service)
}

func options(now time.Time) Options {
	return Options{Now: now, Random: rand.NewChaCha8([32]byte{byte(now.Unix()), byte(now.Unix() >> 8), byte(now.Unix() >> 16), byte(now.Unix() >> 24)})}
}

// made is the finished tree of the six-node cluster.
func made(t testing.TB) (*Tree, *facts.Cluster, []facts.Node) {
	t.Helper()
	c, nodes := sixNodes(t)
	tree := New(c)
	_, err := tree.Update(c, nodes, options(begin))
	require.NoError(t, err)
	return tree, c, nodes
}

func update(t testing.TB, tree *Tree, c *facts.Cluster, nodes []facts.Node, now time.Time) []Change {
	t.Helper()
	changes, err := tree.Update(c, nodes, options(now))
	require.NoError(t, err)
	return changes
}

func node(t testing.TB, nodes []facts.Node, name string) *facts.Node {
	t.Helper()
	for i := range nodes {
		if nodes[i].Name == name {
			return &nodes[i]
		}
	}
	t.Fatalf("no node %s", name)
	return nil
}

func certificate(t testing.TB, text string) *x509.Certificate {
	t.Helper()
	c, err := parseCertificate(text)
	require.NoError(t, err)
	return c
}

// shares returns what everybody gets, by node; the operator's under the empty name.
func shares(t testing.TB, c *facts.Cluster, nodes []facts.Node) map[string]Share {
	t.Helper()
	out := map[string]Share{"": ShareOfOperator(c)}
	for i := range nodes {
		s, err := ShareOf(c, &nodes[i])
		require.NoError(t, err)
		out[nodes[i].Name] = s
	}
	return out
}

// openssl runs openssl verify of a leaf below an authority and the root for a purpose, at a time.
func openssl(t testing.TB, purpose string, at time.Time, root, authority, leaf string) (string, error) {
	t.Helper()
	program, err := exec.LookPath("openssl")
	require.NoError(t, err, "run make deps")
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	args := []string{"verify", "-x509_strict", "-no-CApath", "-no-CAstore", "-purpose", purpose, "-attime", strconv.FormatInt(at.Unix(), 10),
		"-CAfile", file("root.pem", root), "-untrusted", file("ca.pem", authority), file("leaf.pem", leaf)}
	out, err := exec.Command(program, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
