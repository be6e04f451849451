package payload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"

	"spore/builder/store"
	"spore/cluster/programs"
)

// Module is a Go module that a program of the user's own is.
type Module struct {
	Path, Version string
	// Sum is its checksum in the form of go.sum (golang.org/x/mod/sumdb/dirhash, Hash1).
	Sum string
}

// Input is something that a program of the user's own was made of.
type Input struct {
	// Name is where the configuration folder has it, or its URL.
	Name string
	// SHA256 is that of a file, Folder the Go command's hash over the hashes of a folder's files (Hash1), both in
	// hexadecimal; one of them is empty.
	SHA256, Folder string
}

// BuildConfigured makes the programs of one file of programs/ in a configuration folder: what it compiles or fetches is
// kept in the store, under a hash of all that it is made of.
func BuildConfigured(ctx context.Context, st *store.Store, e programs.Entry, o Options) ([]Program, error) {
	out, err := buildConfigured(ctx, st, e, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.FileName(), err)
	}
	for i := range out {
		p := &out[i]
		p.Configured, p.License, p.MadeOf = e.FileName(), e.Licence, madeOf(e, sourceOf(e, *p))
		if p.Version == "" {
			p.Version = e.Version
		}
		if e.Mode != "" {
			mode, err := strconv.ParseUint(e.Mode, 8, 12)
			if err != nil {
				return nil, fmt.Errorf("%s: mode: %w", e.FileName(), err)
			}
			p.Mode = uint32(mode)
		}
		if p.Mode&0o111 == 0 {
			p.Interpreter, p.Libraries = "", nil // nobody starts it
		}
	}
	return out, nil
}

func buildConfigured(ctx context.Context, st *store.Store, e programs.Entry, o Options) ([]Program, error) {
	switch {
	case e.Archive != nil:
		return unpacked(ctx, st, e, o)
	case e.File != nil:
		return one(e)(taken(ctx, st, e, o))
	case e.Go != nil && !e.Pinned():
		return one(e)(buildModule(ctx, st, e, o))
	case e.Go != nil || e.Folder != "":
		return one(e)(buildFolder(ctx, st, e, o))
	}
	return nil, errors.New("internal error: nothing says where the program comes from")
}

// one names the only program of a file.
func one(e programs.Entry) func(Program, error) ([]Program, error) {
	return func(p Program, err error) ([]Program, error) {
		if err != nil {
			return nil, err
		}
		p.Name, p.Payload, p.Target, p.Links, p.Mode = nameOf(e), nameOf(e), e.Target(), e.Links, 0o755
		return []Program{p}, nil
	}
}

// nameOf is a name that none of our payloads has.
func nameOf(e programs.Entry) string { return path.Join(programs.Dir, e.Name) }

// MadeOf is a hash of the file of programs/ and of what it names, by which an image is known to have the program as a
// configuration says it. It compiles and fetches nothing.
func MadeOf(folder fs.FS, e programs.Entry) (string, error) {
	var p Program
	if dir := e.ModuleFolder(); dir != "" && e.Mod != nil {
		files, err := folderFiles(folder, dir)
		if err != nil {
			return "", fmt.Errorf("%s: %w", e.FileName(), err)
		}
		p.Sources.Hash = listHash(files)
	}
	return madeOf(e, sourceOf(e, p)), nil
}

// sourceOf is the hash of what a program is made of.
func sourceOf(e programs.Entry, p Program) string {
	switch {
	case e.Archive != nil:
		return e.Archive.SHA256
	case e.File != nil:
		return e.File.SHA256
	case p.Sources.Hash != "":
		return p.Sources.Hash
	}
	return e.ModuleSum()
}

func madeOf(e programs.Entry, source string) string {
	in := []string{source, e.Package, e.Version, e.Licence, e.Mode, e.Target()}
	if e.Go != nil {
		in = append(in, "go", e.Go.Module, e.Go.Version, e.Go.Package)
	}
	if e.Archive != nil {
		for _, from := range slices.Sorted(maps.Keys(e.Archive.Files)) {
			in = append(in, "file", from, e.Archive.Files[from])
		}
	}
	return store.KeyOf("program of the user's own", append(append(in, "links"), e.Links...)...).String()
}
