package packs

import (
	"fmt"
	"os"

	"spore/builder/squashfs"
	"spore/builder/store"
	"spore/builder/tree"
)

// Content is a file that was compressed once; images are linked from its blocks. It can be read until Close.
type Content struct {
	tree.Content
	file *os.File
}

// Close ends reading.
func (c *Content) Close() error { return c.file.Close() }

// contentPath is the one file of such a pack.
const contentPath = "/content"

// EnsureContent compresses one file, known by the key of its content, unless the store has its pack.
func EnsureContent(st *store.Store, key store.Key, c tree.Content) (*Content, error) {
	packKey := store.KeyOf(packVersion, "content", squashfs.PackOptions{}.Format(), key.String())
	made, err := st.Ensure(packKey, func(w *os.File) error {
		t := tree.New()
		if err := t.Add(contentPath, &tree.Inode{Type: tree.Regular, Mode: 0o644, Content: c}); err != nil {
			return err
		}
		return squashfs.PackTree(w, t, squashfs.PackOptions{})
	})
	if err != nil {
		return nil, err
	}
	made.Close()
	f, pack, err := openPack(st, packKey)
	if err != nil {
		return nil, err
	}
	for path, n := range pack.Entries() {
		if path == contentPath {
			return &Content{Content: n.Content, file: f}, nil
		}
	}
	f.Close()
	return nil, st.Damaged(packKey, fmt.Errorf("the pack has no %s", contentPath))
}
