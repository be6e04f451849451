package dashboard

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/reach"
	"spore/cluster"
	"spore/pki"
	"spore/wire/nodeapi"
)

const plant = `name: plant
id: 6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11
domain: plant.example
network: {nodeSubnets: [10.78.0.0/16], gateways: [10.78.0.1], nameservers: [10.78.0.1]}
services: [dns]
nodes:
  - {name: edge-01, ips: [10.78.0.10], roles: [dns-server]}
`

// Without a certificate there is nobody to serve a page to: the command says what to do, and ends.
func TestWithoutACertificateTheCommandSaysWhatToDo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "configs")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "services"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cluster.yaml"), []byte(plant), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "services", "dns.yaml"), []byte("forwarders: [10.78.0.1]\n"), 0o644))
	run := func(args ...string) (said string, err error) {
		cmd := Command()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SilenceUsage = true
		cmd.SetArgs(append([]string{dir}, args...))
		err = cmd.ExecuteContext(t.Context())
		require.NotContains(t, out.String(), "http://", "there is no page")
		return out.String(), err
	}
	_, err := run()
	require.ErrorContains(t, err, "find a certificate to ask the nodes with: ")
	require.ErrorContains(t, err, "or name a file of `spore access` with --access")

	config, report := cluster.Check(os.DirFS(dir), cluster.Options{})
	require.NoError(t, report.Err())
	c, nodes := cluster.Facts(config)
	tree := pki.New(&c)
	before := pki.Options{Now: time.Now().Add(-48 * time.Hour), Random: rand.Reader}
	_, err = tree.Update(&c, nodes, before)
	require.NoError(t, err)
	made, err := tree.Access(&c, pki.NodeReader, "anna", time.Hour, before)
	require.NoError(t, err)
	file, err := reach.Access{
		Cluster: c.ID, Person: "anna", Role: nodeapi.Reader, Ends: made.Ends,
		Certificate: made.Certificate, Key: string(made.Key), Authorities: string(made.Authority),
	}.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+".access", file, 0o600))
	said, err := run()
	require.ErrorContains(t, err, "or name a file of `spore access` with --access")
	require.Contains(t, said, "it expired at")
	_, err = run("--access", dir+".access")
	require.ErrorContains(t, err, "it expired at")
	require.ErrorContains(t, err, "make another one with `spore access`")
}
