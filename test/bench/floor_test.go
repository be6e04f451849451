package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"spore/builder/deb/debtest"
	"spore/builder/initrd"
	"spore/builder/manifest"
	"spore/builder/squashfs"
	"spore/builder/tree"
)

// floorOf lays packages, a program and the manifest of an image with the files out in a folder.
func floorOf(t *testing.T, files ...manifest.File) FloorWork {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o644))
		return path
	}
	text := strings.Repeat("the same words again and again\n", 20_000)
	small := debtest.Deb{Control: debtest.Control("small", "1"), Compress: "xz", Data: []debtest.Entry{
		{Name: "./usr/bin/tool", Body: text}, {Name: "./usr/share/doc/tool", Body: text},
	}}
	module := xzOf(t, moduleText)
	packed := debtest.Deb{Control: debtest.Control("packed", "1"), Compress: "zst", Data: []debtest.Entry{{Name: "./lib/a.ko.xz", Body: module}}}
	m, err := json.Marshal(manifest.Manifest{Files: files})
	require.NoError(t, err)
	return FloorWork{
		Debs:     []string{write("small.deb", small.Bytes()), write("packed.deb", packed.Bytes())},
		Programs: []string{write("program", []byte(text))}, Manifest: write("manifest.json", m), Temp: dir,
		Initramfs: write("initramfs", []byte(text)),
	}
}

const floorText = 20_000 * 31

// moduleText is what a module decompresses to.
var moduleText = strings.Repeat("a module ", 10_000)

// xzOf compresses a text.
func xzOf(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w, err := xz.NewWriter(&out)
	require.NoError(t, err)
	_, err = w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.String()
}

func TestTheFloorWorksOnTheFilesOfTheImageAlone(t *testing.T) {
	module := int64(len(xzOf(t, moduleText)))
	w := floorOf(t,
		manifest.File{Path: "/usr/bin/tool", Type: "file", Size: floorText}, manifest.File{Path: "/lib/a.ko.xz", Type: "file", Size: module},
		manifest.File{Path: "/usr/bin/program", Type: "file", Size: floorText}, manifest.File{Path: "/usr", Type: "dir"},
	)
	var says bytes.Buffer
	apart, err := floor(context.Background(), w, &says)
	require.NoError(t, err)
	require.Positive(t, apart)
	// The module is stored as it is, and the others are next to nothing; the documentation is not in the image.
	require.Contains(t, says.String(), fmt.Sprintf("floor: %[1]d of %[1]d bytes of the image's files", 2*floorText+module))
	var read, of, size int
	_, err = fmt.Sscanf(says.String(), "floor: %d of %d bytes of the image's files, %d compressed", &read, &of, &size)
	require.NoError(t, err)
	require.Greater(t, size, int(module))
	require.Less(t, size, int(module)+20_000)
	left, err := filepath.Glob(filepath.Join(w.Temp, "floor-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestAFloorOfAnotherImageIsNone(t *testing.T) {
	w := floorOf(t, manifest.File{Path: "/usr/bin/tool", Type: "file", Size: floorText}, manifest.File{Path: "/usr/bin/other", Type: "file", Size: 10 * floorText})
	_, err := floor(context.Background(), w, &bytes.Buffer{})
	require.ErrorContains(t, err, "it is not a floor of this image")
}

func TestTheFloorNamesAPackageThatIsDamaged(t *testing.T) {
	w := floorOf(t, manifest.File{Path: "/usr/bin/tool", Type: "file", Size: floorText})
	require.NoError(t, os.Truncate(w.Debs[0], 200))
	_, err := floor(context.Background(), w, &bytes.Buffer{})
	require.ErrorContains(t, err, "small.deb")
}

func TestTheFloorDecompressesModules(t *testing.T) {
	module := xzOf(t, moduleText)
	require.NoError(t, floorOfKernel(context.Background(), [][]byte{[]byte(module), []byte(module)}, os.DevNull))
	err := floorOfKernel(context.Background(), [][]byte{[]byte(module[:len(module)-20])}, os.DevNull)
	require.ErrorContains(t, err, "decompress a module")
}

func TestAnInitramfsIsDecompressedWithoutItsPadding(t *testing.T) {
	frame, err := initrd.Compress([]byte("modules"))
	require.NoError(t, err)
	for pad := range 4 {
		plain, err := decompressed(slices.Concat(frame, frame, make([]byte, pad)))
		require.NoError(t, err)
		require.Equal(t, "modulesmodules", string(plain))
	}
	_, err = decompressed([]byte("no frame"))
	require.ErrorContains(t, err, "magic number mismatch")
}

func TestTheFloorCompressesAsImagesDo(t *testing.T) {
	// A block with some order in it, so that another level would find something else.
	var block []byte
	for r := rand.New(rand.NewPCG(1, 2)); len(block) < squashfs.DefaultBlockSize; {
		block = fmt.Appendf(block, "%d of %d, ", r.IntN(500), r.IntN(50))
	}
	block = block[:squashfs.DefaultBlockSize]
	var pack bytes.Buffer
	w, err := squashfs.NewPackWriter(&pack, squashfs.PackOptions{})
	require.NoError(t, err)
	require.NoError(t, w.Add("/file", &tree.Inode{Type: tree.Regular, Mode: 0o644}, bytes.NewReader(block)))
	require.NoError(t, w.Close())
	enc, err := newEncoder()
	require.NoError(t, err)
	require.True(t, bytes.Contains(pack.Bytes(), enc.EncodeAll(block, nil)), "the pack has the block as the floor compresses it")
}
