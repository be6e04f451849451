package boot

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/bundle"
	"spore/pki/vault"
)

var issued = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// plant is what the image of examples/edge says, and the keys that it was built with in a folder.
type plant struct {
	cluster facts.Cluster
	node    facts.Node
	dir     string
}

// makePlant makes keys in the folder NAME.pki of a folder.
func makePlant(t *testing.T, in, name string, s vault.Settings, seed byte) plant {
	t.Helper()
	config, report := cluster.Load(os.DirFS("../../../examples/edge"))
	require.NoError(t, report.Err())
	c, nodes := cluster.Facts(config)
	tree := pki.New(&c)
	_, err := tree.Update(&c, nodes, pki.Options{Now: issued, Random: rand.NewChaCha8([32]byte{seed})})
	require.NoError(t, err)
	p := plant{c, nodes[0], filepath.Join(in, name+".pki")}
	v, err := vault.Create(p.dir, s, tree, vault.Keys{WorkFactor: 10, Passphrase: func(bool) (string, error) { return "of the plant", nil }})
	require.NoError(t, err)
	require.NoError(t, v.Save())
	require.NoError(t, v.Close())
	keys, err := tree.Public().SigningKeys()
	require.NoError(t, err)
	for _, k := range keys {
		p.cluster.SigningKeys = append(p.cluster.SigningKeys, base64.StdEncoding.EncodeToString(k))
	}
	return p
}

func plain() vault.Settings { return vault.Settings{Keep: vault.KeepPlain} }

// open reads a bundle as the node does.
func (p plant) open(t *testing.T, data []byte) bundle.Bundle {
	t.Helper()
	whose := bundle.Whose{Cluster: p.cluster.ID, Node: p.node.Name}
	for _, text := range p.cluster.SigningKeys {
		key, err := base64.StdEncoding.DecodeString(text)
		require.NoError(t, err)
		whose.Keys = append(whose.Keys, key)
	}
	b, err := bundle.Open(bytes.NewReader(data), whose)
	require.NoError(t, err)
	return b
}

func TestTheBundleIsMadeFromTheFolderOfTheImagesCluster(t *testing.T) {
	near := t.TempDir()
	p := makePlant(t, near, "configs", plain(), 1)
	require.NoError(t, os.Mkdir(filepath.Join(near, "empty.pki"), 0o700))
	first, said, err := operator{}.bundle(&p.cluster, &p.node, issued, t.TempDir(), near, near)
	require.NoError(t, err)
	require.Equal(t, "bundle 1 from "+p.dir, said)
	require.EqualValues(t, 1, p.open(t, first).Serial)
	require.Contains(t, p.open(t, first).Secrets, "mqtt-password-sensor")

	second, _, err := operator{dir: p.dir}.bundle(&p.cluster, &p.node, issued)
	require.NoError(t, err)
	require.EqualValues(t, 2, p.open(t, second).Serial, "a serial is used once")
}

// What `rotate-ca --finish` goes by is what the real node was given.
func TestARehearsalIsNoRecordOfTheNodesBundle(t *testing.T) {
	p := makePlant(t, t.TempDir(), "configs", plain(), 1)
	read := func() *vault.Vault {
		v, err := vault.Open(p.dir, vault.Keys{})
		require.NoError(t, err)
		return v
	}
	rehearse := func() {
		_, _, err := operator{dir: p.dir}.bundle(&p.cluster, &p.node, issued.Add(time.Hour))
		require.NoError(t, err)
	}
	rehearse()
	v := read()
	require.Empty(t, v.Tree.Issued)
	_, err := v.Tree.BundleFor(&p.cluster, &p.node, issued)
	require.NoError(t, err)
	want := v.Tree.Issued[p.node.Name]
	require.NoError(t, v.Save())
	require.NoError(t, v.Close())
	rehearse()
	v = read()
	defer v.Close()
	require.Equal(t, want, v.Tree.Issued[p.node.Name])
	require.EqualValues(t, 3, v.Tree.Serial)
}

func TestAFolderWithAPassphraseIsOpenedByIt(t *testing.T) {
	dir := t.TempDir()
	p := makePlant(t, dir, "configs", vault.Settings{Keep: vault.KeepPassphrase}, 1)
	file := filepath.Join(dir, "passphrase")
	require.NoError(t, os.WriteFile(file, []byte("of the plant\n"), 0o600))
	data, _, err := operator{passphraseFile: file}.bundle(&p.cluster, &p.node, issued, dir)
	require.NoError(t, err)
	require.Equal(t, "edge-01", p.open(t, data).Node)
	require.NoError(t, os.WriteFile(file, []byte("another one\n"), 0o600))
	_, _, err = operator{passphraseFile: file}.bundle(&p.cluster, &p.node, issued, dir)
	require.ErrorContains(t, err, "passphrase")
}

func TestWithoutTheImagesKeysThereIsNoBundle(t *testing.T) {
	near := t.TempDir()
	p := makePlant(t, near, "configs", plain(), 1)
	other := makePlant(t, t.TempDir(), "other", plain(), 2)
	foreign := p.cluster
	foreign.ID = "11111111-2222-4333-8444-555555555555"
	keyless := p.cluster
	keyless.SigningKeys = nil
	for _, tt := range []struct {
		name      string
		o         operator
		c         *facts.Cluster
		said, err string
	}{
		{"no folder of the cluster", operator{}, &foreign, "no bundle: no folder with the keys of cluster plant", ""},
		{"an image without keys", operator{}, &keyless, "no bundle: the image was built without keys", ""},
		{"an image without keys and a folder that is named", operator{dir: p.dir}, &keyless, "", "built without keys and takes no bundle"},
		{"a folder that does not exist", operator{dir: filepath.Join(near, "nothing")}, &p.cluster, "", "nothing"},
		{"a folder of another cluster", operator{dir: p.dir}, &foreign, "", "are of the cluster with the id " + p.cluster.ID},
		{"a folder with other keys", operator{dir: other.dir}, &p.cluster, "", "the image was built with other keys"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data, said, err := tt.o.bundle(tt.c, &p.node, issued, near)
			require.Nil(t, data)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Contains(t, said, tt.said)
		})
	}
	_, _, err := operator{}.bundle(&p.cluster, &p.node, issued, near, filepath.Dir(other.dir))
	require.ErrorContains(t, err, "name one with --pki")
	require.Equal(t, exit.Misuse, exit.Code(err))
}
