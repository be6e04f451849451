package pipeline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/builder/image"
	"spore/builder/media"
	"spore/builder/payload"
	"spore/builder/store"
	"spore/cluster"
	"spore/cluster/spec"
)

func TestTheFilesOfAResultAreThosePathsThatAreBelowTheOutputFolder(t *testing.T) {
	work := t.TempDir()
	t.Chdir(work)
	for _, out := range []string{filepath.Join(work, "out"), "out", "."} {
		require.NoError(t, os.MkdirAll(filepath.Join(out, "netboot", "deep"), 0o755))
		var want []string
		for _, name := range []string{"spore.img", "netboot/deep/x", "netboot/y"} {
			p := filepath.Join(out, name)
			require.NoError(t, os.WriteFile(p, nil, 0o644))
			want = append(want, p)
		}
		r := Result{Disk: filepath.Join(out, "spore.img"), Netboot: filepath.Join(out, "netboot"), RootHash: strings.Repeat("0", 64), BuildTime: 5}
		got, err := r.files(out)
		require.NoError(t, err)
		require.ElementsMatch(t, want, got, out)
	}
}

func TestWhateverReachesAnOutputIsAmongItsInputs(t *testing.T) {
	fresh := func() *build {
		return &build{
			Options:  Options{Out: "out", Archive: &debArchive{}, Formats: []string{"disk"}, BuildTime: 1, Config: &cluster.Config{}, Folder: fstest.MapFS{}},
			binaries: binaries{stage1: payload.Program{Key: store.KeyOf("a")}}, root: root{key: store.KeyOf("root")},
		}
	}
	base, err := fresh().inputsKey()
	require.NoError(t, err)
	again, err := fresh().inputsKey()
	require.NoError(t, err)
	require.Equal(t, base, again)
	for what, change := range map[string]func(*build){
		"folder":    func(b *build) { b.Out = "other" },
		"formats":   func(b *build) { b.Formats = []string{"disk", "iso"} },
		"time":      func(b *build) { b.BuildTime = 2 },
		"asked":     func(b *build) { b.epoch = 1 },
		"whole":     func(b *build) { b.FullProvenance = true },
		"comment":   func(b *build) { b.Folder = fstest.MapFS{"image.yaml": {Data: []byte("# x")}} },
		"our own":   func(b *build) { b.binaries.agent.Sources.Hash = "other" },
		"root":      func(b *build) { b.root.key = store.KeyOf("other") },
		"stage1":    func(b *build) { b.binaries.stage1.Key = store.KeyOf("other") },
		"arguments": func(b *build) { b.Config.Image.KernelArguments = []string{"quiet"} },
		"slots":     func(b *build) { b.Config.Image.Slots = spec.Slots{Root: 4096} },
		"keys":      func(b *build) { b.Config.Public.SigningKeys = []string{"k"} },
		"files":     func(b *build) { b.Config.Public.Files = map[string][]byte{"ca.crt": []byte("c")} },
		"sources":   func(b *build) { b.binaries.payloads = []payload.Program{{Sources: payload.Sources{Hash: "h"}}} },
		"enrolment": func(b *build) { b.Keys = media.Keys{Enroll: &image.Enrolment{Mode: "force"}} },
	} {
		b := fresh()
		change(b)
		got, err := b.inputsKey()
		require.NoError(t, err, what)
		require.NotEqual(t, base, got, what)
	}
}
