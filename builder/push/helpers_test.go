package push

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/customize"
	"spore/builder/image"
	"spore/builder/manifest"
	"spore/builder/uki/ukitest"
	"spore/cluster"
	"spore/cluster/spec"
	"spore/pki"
	"spore/storage/pieces"
	"spore/storage/verity"
	"spore/wire/update"
	"spore/wire/update/updatetest"
)

const (
	clusterID = "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11"
	buildTime = 1_790_000_000
)

var now = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)

// operator has a configuration and the cluster's keys.
type operator struct {
	t      testing.TB
	config *cluster.Config
	tree   *pki.Tree
	keys   []ed25519.PublicKey
}

func newOperator(t testing.TB) *operator {
	t.Helper()
	p := &operator{t: t, config: &cluster.Config{Cluster: spec.Cluster{
		Name: "plant", ID: clusterID, Domain: "plant.example",
		Nodes: []spec.Node{{Name: "edge-02"}, {Name: "edge-01"}, {Name: "edge-03"}},
	}}}
	c, nodes := cluster.Facts(p.config)
	p.tree = pki.New(&c)
	_, err := p.tree.Update(&c, nodes, pki.Options{Now: now, Random: rand.Reader})
	require.NoError(t, err)
	p.keys, err = p.tree.Public().SigningKeys()
	require.NoError(t, err)
	return p
}

// noise is data that is the same for one seed.
func noise(seed uint64, n int) []byte {
	r := mathrand.New(mathrand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// built is what an image has, as customize finds it: a root of which each 16 KiB are a piece, unless it has no index.
func built(t testing.TB, root []byte, part string, indexed bool) customize.Content {
	t.Helper()
	dir := t.TempDir()
	var tree bytes.Buffer
	tree.WriteString("the disk before it")
	offset := int64(tree.Len())
	hash, _, err := verity.Format(bytes.NewReader(root), int64(len(root)), &tree, verity.Derive(root[:1]))
	require.NoError(t, err)
	if indexed {
		x, err := pieces.Cut(bytes.NewReader(root), int64(len(root)), nil, 16<<10)
		require.NoError(t, err)
		data, err := x.Encode()
		require.NoError(t, err)
		tree.Write(data)
	}
	tree.WriteString("the disk behind it")
	c := customize.Content{
		RootHash: fmt.Sprintf("%x", hash), ClusterHash: fmt.Sprintf("%064x", len(part)),
		Root: image.Source{Path: filepath.Join(dir, "root")}, Tree: image.Source{Path: filepath.Join(dir, "tree"), Offset: offset},
		ClusterFile: filepath.Join(dir, "part"), UKI: ukitest.Program(0, ".text"), Manifest: &manifest.Manifest{BuildTime: buildTime},
	}
	c.UKI = append(c.UKI, part...)
	require.NoError(t, os.WriteFile(c.Root.Path, root, 0o600))
	require.NoError(t, os.WriteFile(c.Tree.Path, tree.Bytes(), 0o600))
	require.NoError(t, os.WriteFile(c.ClusterFile, []byte(part), 0o600))
	return c
}

// update signs what an image has.
func (p *operator) update(o Options, c customize.Content) *Update {
	p.t.Helper()
	u, err := p.try(o, c)
	require.NoError(p.t, err)
	return u
}

func (p *operator) try(o Options, c customize.Content) (*Update, error) {
	o.Config, o.Tree, o.Now = p.config, p.tree, now
	u := &Update{}
	err := u.make(o, c)
	if err == nil {
		p.t.Cleanup(func() { u.Close() })
	}
	return u, err
}

// node is one that runs what an image has.
func (p *operator) node(name string, runs customize.Content) *updatetest.Node {
	p.t.Helper()
	u := p.update(Options{}, runs)
	n := &updatetest.Node{Name: name, Cluster: clusterID, Keys: p.keys, Dir: p.t.TempDir()}
	runsNow, err := updatetest.SystemOf(n.Dir, u.Head, u.Object)
	require.NoError(p.t, err)
	runsNow.Serial = 0 // which the image brought
	n.Start(runsNow)
	return n
}

// sender sends to nodes without a network, and waits for nothing.
func sender(u *Update, query url.Values, said *[]string, nodes ...*updatetest.Node) Sender {
	return Sender{
		Update: u, Waits: []time.Duration{0, 0, 0}, Say: func(node, text string) { *said = append(*said, node+" "+text) },
		Post: func(_ context.Context, node string, message io.Reader) (update.Answer, error) {
			for _, n := range nodes {
				if n.Name == node {
					return n.Take(message, query)
				}
			}
			return update.Answer{}, fmt.Errorf("no answer: %s is off", node)
		},
	}
}

// changed is a root with other bytes from an offset on.
func changed(root []byte, at int, text string) []byte {
	out := bytes.Clone(root)
	copy(out[at:], text)
	return out
}
