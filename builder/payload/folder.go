package payload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"spore/builder/store"
	"spore/cluster/programs"
	"spore/cluster/regular"
)

// Bounds of a folder of the user's own.
const (
	maxFolderFiles = 100_000
	maxFolderSize  = 1 << 30 // bytes
)

// linkMark is before the target of a link where a file has its hash; no hash has it.
const linkMark = "link to "

// buildFolder compiles a folder of the configuration: a module of the user's own, or one that pins another.
func buildFolder(ctx context.Context, st *store.Store, e programs.Entry, o Options) (Program, error) {
	dir := e.ModuleFolder()
	files, err := folderFiles(o.Folder, dir)
	if err != nil {
		return Program{}, err
	}
	t := target{name: nameOf(e), pkg: folderPackage(e), files: files, options: []string{WithoutDWARF}, shown: dir}
	t.stage = func(_ context.Context, into string, _ compiler, m *meter) (string, error) {
		m.say("copying " + dir)
		at := filepath.Join(into, "source")
		return at, snapshot(o.Folder, dir, files, at)
	}
	if e.Vendored {
		t.env = []string{"GOFLAGS=-mod=vendor"}
	}
	if t.toolchain, err = o.toolchainFor(ctx, e.Mod); err != nil {
		return Program{}, err
	}
	p, err := build(ctx, st, t, o)
	if err != nil {
		return Program{}, err
	}
	if e.Go != nil {
		p.Version = e.Go.Version
	}
	p.Inputs = []Input{{Name: dir, Folder: listHash(files)}}
	p.Sources.Hash = p.Inputs[0].Folder
	return p, nil
}

// folderPackage is the main package as the go command calls it in the folder.
func folderPackage(e programs.Entry) string {
	if e.Go != nil {
		return path.Join(e.Go.Module, e.Go.Package)
	}
	if e.Package != "" {
		return e.Package
	}
	return "."
}

// folderFiles hashes everything in a folder, sorted by path, but for .git: what a program embeds can have any name.
func folderFiles(fsys fs.FS, dir string) ([]file, error) {
	var out []file
	left := int64(maxFolderSize)
	err := fs.WalkDir(fsys, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(name, dir), "/")
		switch {
		case d.Name() == ".git" && d.IsDir():
			return fs.SkipDir
		case d.Name() == ".git" || d.IsDir():
			return nil
		case len(out) == maxFolderFiles:
			return fmt.Errorf("%s has more than %d files; take out what the program is not made of", dir, maxFolderFiles)
		}
		hash, err := hashEntry(fsys, dir, rel, d, &left)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, file{rel, hash})
		return nil
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s is empty", dir)
	}
	return out, err
}

// hashEntry is the hash of a file, or where a link leads.
func hashEntry(fsys fs.FS, dir, rel string, d fs.DirEntry, left *int64) (string, error) {
	name := path.Join(dir, rel)
	if d.Type()&fs.ModeSymlink != 0 {
		to, err := fs.ReadLink(fsys, name)
		if err != nil {
			return "", err
		}
		return linkMark + to, checkLink(rel, to)
	}
	if info, err := d.Info(); err != nil {
		return "", err
	} else if err := regular.Check(info); err != nil {
		return "", fmt.Errorf("%w; a folder that is compiled has files and links only", err)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, *left+1))
	if *left -= n; *left < 0 {
		return "", fmt.Errorf("the folder has more than %d bytes; take out what the program is not made of", maxFolderSize)
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// checkLink refuses a link that leads out of the folder, or into what is not hashed.
func checkLink(rel, to string) error {
	at := path.Join(path.Dir(rel), to)
	switch {
	case path.IsAbs(to) || at == ".." || strings.HasPrefix(at, "../"):
		return fmt.Errorf("it is a link to %.200q, which is outside of the folder; put a copy there", to)
	case path.Clean(to) != strings.TrimSuffix(to, "/"):
		return fmt.Errorf("it is a link to %.200q, which goes through a folder and back; write the shortest way", to)
	case strings.Contains("/"+at+"/", "/.git/"):
		return fmt.Errorf("it is a link to %.200q, and .git is left out; put a copy there", to)
	}
	return nil
}

// snapshot copies a folder as it was hashed, so that the compiler sees those bytes alone.
func snapshot(fsys fs.FS, dir string, files []file, into string) error {
	for _, f := range files {
		to := filepath.Join(into, filepath.FromSlash(f.path))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if target, ok := strings.CutPrefix(f.hash, linkMark); ok {
			if err := os.Symlink(target, to); err != nil {
				return err
			}
			continue
		}
		if err := copyHashed(fsys, path.Join(dir, f.path), f.hash, to); err != nil {
			return err
		}
	}
	return nil
}

func copyHashed(fsys fs.FS, name, hash, to string) error {
	in, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, h), io.LimitReader(in, maxFolderSize))
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != hash {
		return fmt.Errorf("%s changed while it was read; build again", name)
	}
	return nil
}
