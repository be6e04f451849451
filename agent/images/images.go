// Package images takes the container images that the root carries into containerd, where kubelet finds them: no node ever
// asks a registry. What containerd has already is left alone, so that a boot costs one question.
//
// It works through ctr(8), which comes with containerd. Imported images are pinned against kubelet's garbage collection,
// since nothing could bring them back; images of an earlier root lose that pin and go when the disk fills up.
package images

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"spore/storage/atomicfile"
)

const (
	// Dir is where the root has the images, as OCI archives.
	Dir = "/usr/share/spore/images"
	// indexName lists them.
	indexName = "images.json"
	// maxIndex bounds the list in bytes.
	maxIndex = 1 << 20
	// namespace is where kubelet's runtime interface has its images.
	namespace = "k8s.io"
	// pin keeps an image from garbage collection (containerd, internal/cri/labels).
	pin = "io.cri-containerd.pinned=pinned"
)

// Index is the list of images that the builder writes.
type Index struct {
	Images []Image `json:"images"`
}

// Image is one archive.
type Image struct {
	// File is its name in Dir.
	File string `json:"file"`
	// Names are the full references that it is known by, such as spore.local/pause:1.
	Names []string `json:"names"`
	// Digest is that of its manifest or index.
	Digest string `json:"digest"`
}

// Ctr runs ctr with arguments and returns its standard output.
type Ctr func(ctx context.Context, args ...string) ([]byte, error)

// held is an image as containerd has it.
type held struct {
	digest string
	pinned bool
}

// Import makes containerd hold the images of dir, and says what it does.
func Import(ctx context.Context, dir string, ctr Ctr, say func(string)) error {
	index, err := read(dir)
	if err != nil {
		return err
	}
	out, err := ctr(ctx, "--namespace", namespace, "images", "ls")
	if err != nil {
		return fmt.Errorf("ask containerd for its images: %w", err)
	}
	have := parse(out)
	for _, i := range index.Images {
		if !missing(i, have) {
			continue
		}
		say("importing " + strings.Join(i.Names, ", "))
		// --local is the way that knows --sync-fs: what was unpacked is on disk before containerd calls it complete, so that a
		// power cut leaves no empty files behind.
		_, err := ctr(ctx, "--namespace", namespace, "images", "import", "--local", "--sync-fs", "--label", pin, filepath.Join(dir, i.File))
		if err != nil {
			return fmt.Errorf("import %s: %w", i.File, err)
		}
	}
	for _, name := range stale(index, have) {
		say("no longer part of this system: " + name)
		if _, err := ctr(ctx, "--namespace", namespace, "images", "label", name, strings.TrimSuffix(pin, "pinned")); err != nil {
			return fmt.Errorf("let %s go: %w", name, err)
		}
	}
	return nil
}

// read reads the list; a root without images has none.
func read(dir string) (Index, error) {
	var index Index
	data, err := atomicfile.ReadLimited(filepath.Join(dir, indexName), maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return index, nil
	}
	if err != nil {
		return index, fmt.Errorf("read the list of images: %w", err)
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return index, fmt.Errorf("read the list of images: %w", err)
	}
	for _, i := range index.Images {
		if i.File != filepath.Base(i.File) || len(i.Names) == 0 {
			return index, fmt.Errorf("the list of images has an entry %q without names or outside its folder; build the image again", i.File)
		}
	}
	return index, nil
}

// parse reads the table of `ctr images ls`: reference, type, digest, size (two words), platforms, labels.
func parse(out []byte) map[string]held {
	have := map[string]held{}
	for line := range bytes.Lines(out) {
		f := strings.Fields(string(line))
		if len(f) < 3 || !strings.HasPrefix(f[2], "sha256:") {
			continue
		}
		have[f[0]] = held{f[2], slices.Contains(strings.Split(f[len(f)-1], ","), pin)}
	}
	return have
}

// missing tells whether a name of the image is unknown, leads to something else, or is not pinned.
func missing(i Image, have map[string]held) bool {
	return slices.ContainsFunc(i.Names, func(name string) bool { return have[name] != held{i.Digest, true} })
}

// stale lists pinned images by name that the index does not have, sorted. References by digest follow their names.
func stale(index Index, have map[string]held) []string {
	current := map[string]bool{}
	for _, i := range index.Images {
		current[i.Digest] = true
		for _, name := range i.Names {
			current[name] = true
		}
	}
	var out []string
	for name, h := range have {
		if h.pinned && !current[name] && !current[h.digest] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
