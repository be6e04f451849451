// Package packs turns Debian packages into what images are linked from: the files of each package compressed once, and
// beside them what the package says of itself. Both are kept in the store under the hash of the .deb.
package packs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"spore/builder/deb"
	"spore/builder/recipe"
	"spore/builder/squashfs"
	"spore/builder/store"
	"spore/builder/tree"
)

// These are parts of the keys; one changes when what is kept of a package does.
const (
	packVersion  = "pack 1"
	aboutVersion = "pack 2"
)

// scripts are the files of the control archive that are kept as text: maintainer scripts that install (deb-preinst(5)
// and its siblings), questions (debconf-devel(7)) and triggers (deb-triggers(5)).
var scripts = []string{"preinst", "postinst", "config", "templates", "triggers"}

// about is what the store keeps beside a pack.
type about struct {
	Name      string            `json:"name"`
	Version   string            `json:"version"`
	Source    string            `json:"source"`
	Status    string            `json:"status"`
	Conffiles []string          `json:"conffiles"`
	Scripts   map[string]string `json:"scripts"`
}

// Pack is an opened pack of one package. Its files can be read until Close.
type Pack struct {
	recipe.Package
	// Source is the source package.
	Source string
	file   *os.File
}

// Close ends reading.
func (p *Pack) Close() error { return p.file.Close() }

// keys are those of the two objects that the store keeps of a .deb.
func keys(sha256 string) (pack, about store.Key) {
	return store.KeyOf(packVersion, "data", squashfs.PackOptions{}.Format(), sha256), store.KeyOf(aboutVersion, "about", sha256)
}

// Has reports whether the store has the pack of the .deb with the given SHA-256 in hexadecimal, so that Ensure would not
// read the .deb.
func Has(st *store.Store, sha256 string) bool {
	packKey, aboutKey := keys(sha256)
	return st.Has(packKey) && st.Has(aboutKey)
}

// Ensure opens the pack of the .deb with the given SHA-256 in hexadecimal, and makes it first, from what open gives, when
// the store has none.
func Ensure(ctx context.Context, st *store.Store, sha256 string, open func() (io.ReadCloser, error)) (*Pack, error) {
	packKey, aboutKey := keys(sha256)
	if !st.Has(packKey) || !st.Has(aboutKey) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := write(st, packKey, aboutKey, open); err != nil {
			return nil, blame(st, sha256, err)
		}
	}
	return load(st, packKey, aboutKey)
}

// blame is err, unless a damaged .deb in the store is the reason for it.
func blame(st *store.Store, sha256 string, err error) error {
	key, bad := store.ParseKey(sha256)
	if bad != nil || !st.Has(key) {
		return err
	}
	if damaged := st.CheckName(key); damaged != nil {
		return fmt.Errorf("%w (%w)", damaged, err)
	}
	return err
}

func write(st *store.Store, packKey, aboutKey store.Key, open func() (io.ReadCloser, error)) error {
	in, err := open()
	if err != nil {
		return err
	}
	defer in.Close()
	d, err := deb.NewReader(in, deb.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	if err := st.Put(packKey, func(w *os.File) error { return copyEntries(w, d) }); err != nil {
		return err
	}
	c := d.Control()
	a := about{Name: c.Package, Version: c.Version, Source: c.Source, Status: c.Paragraph, Conffiles: d.Conffiles(), Scripts: map[string]string{}}
	for _, name := range scripts {
		if text, ok := d.ControlFile(name); ok {
			a.Scripts[name] = string(text)
		}
	}
	return st.Put(aboutKey, func(w *os.File) error { return json.NewEncoder(w).Encode(a) })
}

// copyEntries packs every file of a package.
func copyEntries(w io.Writer, d *deb.Reader) error {
	p, err := squashfs.NewPackWriter(w, squashfs.PackOptions{})
	if err != nil {
		return err
	}
	for {
		h, err := d.Next()
		if errors.Is(err, io.EOF) {
			return p.Close()
		}
		if err != nil {
			return err
		}
		if h.Link != "" {
			err = p.AddLink(h.Path, h.Link)
		} else {
			err = p.Add(h.Path, &h.Inode, d)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", h.Path, err)
		}
	}
}

func load(st *store.Store, packKey, aboutKey store.Key) (*Pack, error) {
	text, err := st.ReadAll(aboutKey)
	if err != nil {
		return nil, err
	}
	var a about
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, st.Damaged(aboutKey, fmt.Errorf("read the stored data of a package: %w", err))
	}
	f, pack, err := openPack(st, packKey)
	if err != nil {
		return nil, fmt.Errorf("package %s: %w", a.Name, err)
	}
	p := &Pack{Source: a.Source, file: f, Package: recipe.Package{
		Name: a.Name, Version: a.Version, Status: []byte(a.Status), Conffiles: a.Conffiles, Scripts: map[string][]byte{},
		Entries: func(yield func(string, *tree.Inode) error) error {
			for path, n := range pack.Entries() {
				if err := yield(path, n); err != nil {
					return err
				}
			}
			return nil
		},
	}}
	for name, text := range a.Scripts {
		p.Scripts[name] = []byte(text)
	}
	return p, nil
}

// openPack opens a pack of the store. Its data goes into images as it is, and so is checked; the index has a hash of its own.
func openPack(st *store.Store, key store.Key) (*os.File, *squashfs.Pack, error) {
	if err := st.Check(key); err != nil {
		return nil, nil, err
	}
	f, err := st.Open(key)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	pack, err := squashfs.OpenPack(f, info.Size())
	if err != nil {
		f.Close()
		return nil, nil, st.Damaged(key, err)
	}
	return f, pack, nil
}
