package packages

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spore/test/packages/edge"
	"spore/test/packages/reference"
)

// format is part of the name of each kept reference; it changes when what is kept of one does.
const format = "reference 2"

// References makes and keeps what Debian's tools make of batches.
type References struct {
	Edge *edge.Edge
	// Dir keeps one file a batch.
	Dir string
}

// Batches are those of the list, by the conflicts that the archive knows of.
func (r References) Batches(entries []Entry) ([]Batch, error) {
	return Batches(entries, func(b Batch) error {
		list, err := r.list(b)
		if err != nil {
			return err
		}
		_, err = r.Edge.Whole(list)
		return err
	})
}

// batchesFile keeps the batches of the last run of all packages: to find them takes some hundred resolutions.
const batchesFile = "batches.json"

// batchesKept is what the file has.
type batchesKept struct {
	Batches []Batch
	// Failed are the packages of them that did not build.
	Failed []string
}

// KeepBatches keeps batches for KeptBatch, and which of their packages did not build.
func (r References) KeepBatches(batches []Batch, failed []string) error {
	data, err := json.Marshal(batchesKept{batches, failed})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Dir, batchesFile), data, 0o644)
}

// KeptBatch is the batch of a package in the last run of all, what Debian's tools made of it, and which packages did
// not build. The error is fs.ErrNotExist where there is none, or only one of older packages.
func (r References) KeptBatch(name string) (b Batch, root *reference.Root, failed []string, err error) {
	data, err := os.ReadFile(filepath.Join(r.Dir, batchesFile))
	if err != nil {
		return b, nil, nil, err
	}
	var kept batchesKept
	if err := json.Unmarshal(data, &kept); err != nil {
		return b, nil, nil, fmt.Errorf("read %s (remove it to make it again): %w", filepath.Join(r.Dir, batchesFile), err)
	}
	for _, b := range kept.Batches {
		if slices.Contains(b.Packages, name) {
			root, err := r.Kept(b)
			return b, root, kept.Failed, err
		}
	}
	return b, nil, nil, fs.ErrNotExist
}

// list is what mmdebstrap installs for a batch.
func (r References) list(b Batch) ([]string, error) {
	list, err := r.Edge.Wanted(b.Packages...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(name string) bool { return slices.Contains(b.Instead, name) }), nil
}

// file is the one that keeps the reference of a batch: named after the exact versions of all packages, so that a
// reference is made again when the archive has newer ones, and no sooner.
func (r References) file(b Batch) (string, error) {
	list, err := r.list(b)
	if err != nil {
		return "", err
	}
	packages, err := r.Edge.Whole(list)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintln(h, format, strings.Join(list, " "))
	for _, p := range packages {
		fmt.Fprintln(h, p.Name, p.Version, p.SHA256)
	}
	return filepath.Join(r.Dir, fmt.Sprintf("%x.gz", h.Sum(nil)[:16])), nil
}

// Kept is the reference of a batch, where there is one from an earlier run; else the error is fs.ErrNotExist.
func (r References) Kept(b Batch) (*reference.Root, error) {
	file, err := r.file(b)
	if err != nil {
		return nil, err
	}
	return reference.Load(file)
}

// Make is Kept, and makes what is not there.
func (r References) Make(ctx context.Context, b Batch) (*reference.Root, error) {
	file, err := r.file(b)
	if err != nil {
		return nil, err
	}
	root, err := reference.Load(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return root, err
	}
	list, err := r.list(b)
	if err != nil {
		return nil, err
	}
	if root, err = run(ctx, list); err != nil {
		return nil, fmt.Errorf("the reference of %s: %w", strings.Join(b.Packages, ", "), err)
	}
	return root, root.Save(file)
}

// run reads what mmdebstrap writes while it writes it, so that no archive lies on the disk.
func run(ctx context.Context, list []string) (*reference.Root, error) {
	mirror, err := reference.Mirror(os.DirFS("/"))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "spore-reference")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	log := filepath.Join(dir, "dpkg.log")
	in, out := io.Pipe()
	defer in.Close()
	made := make(chan error, 1)
	go func() {
		err := reference.Make(ctx, out, reference.Options{Suite: edge.Suite, Packages: list, Mirror: mirror, Log: log})
		out.CloseWithError(err)
		made <- err
	}()
	a, err := reference.ReadArchive(in, nil)
	if err != nil {
		return nil, err
	}
	// tar ends its archive with a block of zeros that nobody waits for.
	if _, err := io.Copy(io.Discard, in); err != nil {
		return nil, err
	}
	if err := <-made; err != nil {
		return nil, err
	}
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	return a.Root(string(text))
}
