package pipeline

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/manifest"
	"spore/builder/packs"
	"spore/builder/payload"
	"spore/builder/provenance"
	"spore/builder/recipe"
	"spore/builder/tree"
	"spore/cluster"
)

// shipping is a package with the given files.
func shipping(name string, files ...string) *packs.Pack {
	return &packs.Pack{Package: recipe.Package{Name: name, Version: "1", Entries: func(yield func(string, *tree.Inode) error) error {
		if err := yield("/usr", &tree.Inode{Type: tree.Dir}); err != nil {
			return err
		}
		for _, f := range files {
			if err := yield(f, &tree.Inode{Type: tree.Regular, Content: tree.Bytes(nil)}); err != nil {
				return err
			}
		}
		return nil
	}}}
}

func TestAPackageSaysHowMuchOfItIsInTheImage(t *testing.T) {
	tr := tree.New()
	require.NoError(t, tr.WriteFile("/etc/debian_version", []byte("13.5\n"), 0o644, "deb:whole_1"))
	require.NoError(t, tr.WriteFile("/usr/bin/part", nil, 0o755, "deb:part_1"))
	require.NoError(t, tr.WriteFile("/usr/share/doc/part/copyright", []byte("Format: https://x/copyright-format/1.0/\n\nFiles: *\nLicense: Expat\n"), 0o644, "deb:part_1"))
	composed := &recipe.Result{
		Tree: tr, Dropped: map[string]bool{"gone": true, "stub": true},
		Boot: map[string]*tree.Inode{"/stub": {Type: tree.Regular, Content: tree.Bytes(nil), Origin: "deb:stub_1"}},
	}
	m := manifest.Manifest{Packages: make([]manifest.Package, 4)}
	require.NoError(t, account(&m, []*packs.Pack{
		shipping("whole", "/etc/debian_version"), shipping("part", "/usr/bin/part", "/usr/share/doc/part/copyright", "/usr/share/man/x"),
		shipping("gone", "/usr/bin/gone"), shipping("stub", "/stub"),
	}, composed))
	require.Equal(t, []manifest.Package{
		{FilesIn: 1}, {FilesIn: 2, FilesOut: 1, License: "MIT"}, {FilesOut: 1, Absent: true}, {FilesIn: 1},
	}, m.Packages)
	require.Equal(t, "13.5", m.DebianVersion)
}

func TestTheProvenanceHasTheFilesOfTheConfiguration(t *testing.T) {
	const example = "../../examples/edge"
	config, report := cluster.Check(os.DirFS(example), cluster.Options{})
	require.False(t, report.Failed())
	config.Public = cluster.Public{Files: map[string][]byte{"ca.crt": []byte("d")}, SigningKeys: []string{"e"}}
	b := &build{Options: Options{Config: config, Folder: os.DirFS(example)}}
	byName := map[string]provenance.Resource{}
	list, err := b.configuration()
	require.NoError(t, err)
	for _, r := range list {
		byName[r.Name] = r
	}
	for _, name := range []string{"cluster.yaml", "image.yaml", "nodes/edge-01.yaml", "services/mqtt.yaml"} {
		data, err := os.ReadFile(filepath.Join(example, name))
		require.NoError(t, err)
		require.Equal(t, hashed(name, data), byName[name])
	}
	require.Equal(t, hashed("public keys: ca.crt", []byte("d")), byName["public keys: ca.crt"])
	require.Contains(t, byName, "public keys: signing")
}

func TestTheInputsOfAProgram(t *testing.T) {
	got, err := payloadInputs(manifest.Payload{GoVersion: "go1.26.1", Modules: []manifest.Module{
		{Path: "example.test/m", Version: "v1.0.0", Sum: "h1:Khu2En+0gcYPZ2kuIihfswbzxv/mIHXgzPZ018Oty48="}, {Path: "own", Version: "(devel)"},
	}})
	require.NoError(t, err)
	require.Equal(t, []provenance.Resource{
		{Name: "Go toolchain go1.26.1"},
		{Name: "example.test/m", URI: "pkg:golang/example.test/m@v1.0.0", Algorithm: provenance.DirHash, Digest: "2a1bb6127fb481c60f67692e22285fb306f3c6ffe62075e0ccf674d7c3adcb8f"},
	}, got)
	_, err = payloadInputs(manifest.Payload{Modules: []manifest.Module{{Path: "m", Sum: "x"}}})
	require.ErrorContains(t, err, "module m")
}

func TestAPayloadsFolderAndOurOwnTreeAreInputs(t *testing.T) {
	own := payload.Program{Name: "spore-agent", Sources: payload.Sources{Hash: "aa"}}
	b := &build{Options: Options{Source: "../.."}, binaries: binaries{
		agent: own, stage1: own, payloads: []payload.Program{{Name: "kafka/a.jar", Sources: payload.Sources{Payload: "kafka", Hash: "bb"}}},
	}}
	list, err := b.ownInputs()
	require.NoError(t, err)
	byName := map[string]provenance.Resource{}
	for _, r := range list {
		require.Equal(t, provenance.DirHash, r.Algorithm)
		byName[r.Name] = r
	}
	require.Len(t, byName, 4)
	require.Equal(t, "bb", byName["source: payloads/kafka"].Digest)
	require.Equal(t, "aa", byName["source: spore-agent"].Digest)
	require.Len(t, byName["source: units"].Digest, 64)
}
