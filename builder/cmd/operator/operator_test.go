package operator

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

// make makes the bundle of the plant's node.
func (p plant) make(f Folder, o Options) (Bundle, string, error) {
	o.Now = issued.Add(time.Hour)
	bundles, none, err := f.Bundles(&p.cluster, []*facts.Node{&p.node}, o)
	if len(bundles) == 0 {
		return Bundle{}, none, err
	}
	return bundles[0], none, err
}

func TestTheBundleIsMadeFromTheFolderOfTheImagesCluster(t *testing.T) {
	near := t.TempDir()
	p := makePlant(t, near, "configs", plain(), 1)
	require.NoError(t, os.Mkdir(filepath.Join(near, "empty.pki"), 0o700))
	first, none, err := p.make(Folder{}, Options{Near: []string{t.TempDir(), near, near}})
	require.NoError(t, err)
	require.Empty(t, none)
	require.Equal(t, p.dir, first.Folder)
	require.EqualValues(t, 1, first.Serial)
	require.EqualValues(t, 1, p.open(t, first.Data).Serial)
	require.Contains(t, p.open(t, first.Data).Secrets, "mqtt-password-sensor")

	second, _, err := p.make(Folder{Dir: p.dir}, Options{})
	require.NoError(t, err)
	require.EqualValues(t, 2, p.open(t, second.Data).Serial, "a serial is used once")
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
		_, _, err := p.make(Folder{Dir: p.dir}, Options{})
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
	b, _, err := p.make(Folder{PassphraseFile: file}, Options{Near: []string{dir}})
	require.NoError(t, err)
	require.Equal(t, "edge-01", p.open(t, b.Data).Node)
	require.NoError(t, os.WriteFile(file, []byte("another one\n"), 0o600))
	_, _, err = p.make(Folder{PassphraseFile: file}, Options{Near: []string{dir}})
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
		f         Folder
		c         *facts.Cluster
		none, err string
	}{
		{"no folder of the cluster", Folder{}, &foreign, "no bundle: no folder with the keys of cluster plant", ""},
		{"an image without keys", Folder{}, &keyless, "no bundle: the image was built without keys", ""},
		{"an image without keys and a folder that is named", Folder{Dir: p.dir}, &keyless, "", "built without keys and takes no bundle"},
		{"a folder that does not exist", Folder{Dir: filepath.Join(near, "nothing")}, &p.cluster, "", "nothing"},
		{"a folder of another cluster", Folder{Dir: p.dir}, &foreign, "", "are of the cluster with the id " + p.cluster.ID},
		{"a folder with other keys", Folder{Dir: other.dir}, &p.cluster, "", "the image was built with other keys"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			of := p
			of.cluster = *tt.c
			b, none, err := of.make(tt.f, Options{Near: []string{near}})
			require.Nil(t, b.Data)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Contains(t, none, tt.none)
		})
	}
	_, _, err := p.make(Folder{}, Options{Near: []string{near, filepath.Dir(other.dir)}})
	require.ErrorContains(t, err, "name one with --pki")
	require.Equal(t, exit.Misuse, exit.Code(err))
}

func TestTheBundlesOfManyNodesAreMadeAtOnce(t *testing.T) {
	p := makePlant(t, t.TempDir(), "configs", plain(), 1)
	config, report := cluster.Load(os.DirFS("../../../examples/edge"))
	require.NoError(t, report.Err())
	_, nodes := cluster.Facts(config)
	bundles, none, err := Folder{Dir: p.dir}.Bundles(&p.cluster, []*facts.Node{&nodes[0], &nodes[1]}, Options{Now: issued, Record: true})
	require.NoError(t, err)
	require.Empty(t, none)
	require.Equal(t, []string{nodes[0].Name, nodes[1].Name}, []string{bundles[0].Node, bundles[1].Node})
	require.Equal(t, []uint64{1, 2}, []uint64{bundles[0].Serial, bundles[1].Serial})
	v, err := vault.Open(p.dir, vault.Keys{})
	require.NoError(t, err)
	defer v.Close()
	require.EqualValues(t, 2, v.Tree.Issued[nodes[1].Name].Serial, "what is recorded")
}
