package support

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

func TestAnArchiveHasAFolderForEachNodeAndAPageToReadItBy(t *testing.T) {
	dir := t.TempDir()
	f, err := NewFolder(dir, "edge-01")
	require.NoError(t, err)
	require.NoError(t, f.Append("journal/this-start.txt", "one\n"))
	require.NoError(t, f.Append("status.json", "{}\n"))
	require.NoError(t, f.Append("journal/this-start.txt", "two\n"))
	_, err = NewFolder(dir, "edge-01")
	require.Error(t, err)
	index := Index{Cluster: "plant", Made: time.Date(2026, 11, 26, 1, 2, 3, 0, time.UTC), By: "0.1.0", Nodes: []Node{
		{Name: "edge-01", System: "running", Conditions: []nodeapi.Condition{{Name: "clock", State: nodeapi.Warning, Reason: "<script>alert(1)</script>"}}},
		{Name: "edge-02", Problem: "no answer in time"},
	}}
	var out bytes.Buffer
	require.NoError(t, Write(&out, dir, index))
	files := unpacked(t, out.Bytes())
	require.Equal(t, "one\ntwo\n", files["support-plant/edge-01/journal/this-start.txt"])
	require.Equal(t, "{}\n", files["support-plant/edge-01/status.json"])
	require.Len(t, files, 3)
	page := files["support-plant/index.html"]
	require.Contains(t, page, `<a href="edge-01/journal/this-start.txt">`)
	require.Contains(t, page, "no answer in time")
	require.Contains(t, page, "&lt;script&gt;", "what a node says stays text")
	require.NotContains(t, page, "<script>")
}

func unpacked(t *testing.T, data []byte) map[string]string {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	defer z.Close()
	files := map[string]string{}
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		files[h.Name] = string(text)
	}
}

func TestANodeCannotWriteOutsideOfItsFolderOrWithoutEnd(t *testing.T) {
	for _, name := range []string{"", "/etc/passwd", "../edge-02/x", "a/../../x", "a//b", ".hidden", "a/.hidden", "a/b/c/d/e/f/g", "a\nb", "a b", "ä", "a/", strings.Repeat("a", maxName+1)} {
		f, err := NewFolder(t.TempDir(), "edge-01")
		require.NoError(t, err)
		require.ErrorContains(t, f.Append(name, "x"), "it sent a file with the name", name)
	}
	f, err := NewFolder(t.TempDir(), "edge-01")
	require.NoError(t, err)
	require.ErrorContains(t, f.Append("big", strings.Repeat("x", maxBytes+1)), "it sent more than 67108864 bytes")
	f, err = NewFolder(t.TempDir(), "edge-01")
	require.NoError(t, err)
	for i := range maxFiles {
		require.NoError(t, f.Append("f"+strings.Repeat("i", i%150)+string(rune('a'+i/150)), "x"))
	}
	require.ErrorContains(t, f.Append("one-more", "x"), "it sent more than 1000 files")
	require.Error(t, f.Append("fa/below-a-file", "x"), "a file is no folder")
}

func TestABrowserRunsNoFileOfANode(t *testing.T) {
	dir := t.TempDir()
	f, err := NewFolder(dir, "edge-01")
	require.NoError(t, err)
	for name, want := range map[string]string{
		"x.html": "x.html.txt", "a/x.svg": "a/x.svg.txt", "x.HTM": "x.HTM.txt", "x.json.xml": "x.json.xml.txt", "x.": "x..txt", "x.JSON": "x.JSON.txt",
		"y.json": "y.json", "y.yaml": "y.yaml", "y.yml": "y.yml", "y.env": "y.env", "y.txt": "y.txt", "b.d/y": "b.d/y",
	} {
		require.NoError(t, f.Append(name, "1"))
		require.NoError(t, f.Append(name, "2"))
		data, err := os.ReadFile(filepath.Join(dir, "edge-01", want))
		require.NoError(t, err, name)
		require.Equal(t, "12", string(data))
	}
}

func FuzzAppend(f *testing.F) {
	f.Add("journal/this-start.txt")
	f.Add("a/../b")
	f.Fuzz(func(t *testing.T, name string) {
		dir := t.TempDir()
		folder, err := NewFolder(dir, "n")
		require.NoError(t, err)
		if folder.Append(name, "x") != nil {
			return
		}
		files, err := filesOf(filepath.Join(dir, "n"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.Contains(t, []string{name, name + ".txt"}, files[0])
		require.Contains(t, extensions, filepath.Ext(files[0]))
	})
}
