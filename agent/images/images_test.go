package images

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	a = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	b = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	c = "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
	// list is what containerd 2.4's ctr prints.
	head  = "REF                   TYPE                                       DIGEST SIZE      PLATFORMS   LABELS\n"
	media = " application/vnd.oci.image.manifest.v1+json "
	tail  = " 250.1 KiB linux/amd64 "
)

func TestImport(t *testing.T) {
	const index = `{"images":[{"file":"pause.tar","names":["spore.local/pause:1"],"digest":"` + a + `"},{"file":"two.tar","names":["x.test/two:1","x.test/two:2"],"digest":"` + b + `"}]}`
	pause := "spore.local/pause:1" + media + a + tail
	for name, tt := range map[string]struct {
		index, list string
		want        []string
	}{
		"an empty containerd gets all": {index, head, []string{"import pause.tar", "import two.tar"}},
		"what is there is left alone":  {index, head + pause + "io.cri-containerd.image=managed," + pin + "\nx.test/two:1" + media + b + tail + pin + "\nx.test/two:2" + media + b + tail + pin + "\n", nil},
		"an image without its pin":     {index, head + pause + "io.cri-containerd.image=managed\nx.test/two:1" + media + b + tail + pin + "\nx.test/two:2" + media + b + tail + pin + "\n", []string{"import pause.tar"}},
		"one name is missing":          {index, head + pause + pin + "\nx.test/two:1" + media + b + tail + pin + "\n", []string{"import two.tar"}},
		"a name leads elsewhere":       {index, head + "spore.local/pause:1" + media + c + tail + pin + "\n" + "x.test/two:1" + media + b + tail + pin + "\nx.test/two:2" + media + b + tail + pin + "\n", []string{"import pause.tar"}},
		"an earlier system's image is let go, also by its digest": {
			`{"images":[]}`, head + "x.test/old:1" + media + c + tail + pin + "\nx.test/mine:1" + media + b + tail + "-\n",
			[]string{"label x.test/old:1 io.cri-containerd.pinned="},
		},
		"a reference by digest of what is current stays": {
			`{"images":[{"file":"pause.tar","names":["spore.local/pause:1"],"digest":"` + a + `"}]}`, head + pause + pin + "\n" + a + media + a + tail + pin + "\n", nil,
		},
		"no list": {"", head, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.index != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, indexName), []byte(tt.index), 0o644))
			}
			var calls []string
			ctr := func(_ context.Context, args ...string) ([]byte, error) {
				require.Equal(t, []string{"--namespace", "k8s.io", "images"}, args[:3])
				switch args[3] {
				case "ls":
					return []byte(tt.list), nil
				case "import":
					require.Equal(t, []string{"--local", "--sync-fs", "--label", pin}, args[4:8])
					require.Equal(t, dir, filepath.Dir(args[8]))
					calls = append(calls, "import "+filepath.Base(args[8]))
				default:
					calls = append(calls, strings.Join(args[3:], " "))
				}
				return nil, nil
			}
			require.NoError(t, Import(context.Background(), dir, ctr, func(string) {}))
			require.Equal(t, tt.want, calls)
		})
	}
}

func TestImportRefuses(t *testing.T) {
	fails := func(at string) Ctr {
		return func(_ context.Context, args ...string) ([]byte, error) {
			if args[3] == at {
				return nil, errors.New("no containerd")
			}
			return []byte(head + "x.test/old:1" + media + c + tail + pin + "\n"), nil
		}
	}
	for name, tt := range map[string]struct {
		index, at, want string
	}{
		"a list that is none":       {"{", "", "read the list of images: "},
		"a file outside the folder": {`{"images":[{"file":"../x","names":["a"]}]}`, "", `an entry "../x" without names or outside its folder`},
		"an image without a name":   {`{"images":[{"file":"x"}]}`, "", `an entry "x" without names`},
		"containerd is away":        {`{}`, "ls", "ask containerd for its images: no containerd"},
		"an import fails":           {`{"images":[{"file":"x.tar","names":["a"],"digest":"` + a + `"}]}`, "import", "import x.tar: no containerd"},
		"an image cannot be let go": {`{}`, "label", "let x.test/old:1 go: no containerd"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, indexName), []byte(tt.index), 0o644))
			require.ErrorContains(t, Import(context.Background(), dir, fails(tt.at), func(string) {}), tt.want)
		})
	}
}
