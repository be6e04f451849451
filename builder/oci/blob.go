package oci

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// blob is one that a finished archive needs.
type blob struct {
	descriptor
	// diffID is the digest of a layer's content before compression; empty for documents.
	diffID string
	// data is a document that was read already.
	data []byte
}

// walk collects what an image needs on linux/amd64, documents read and compared with their digests.
type walk struct {
	open  opener
	blobs []blob
}

// collect walks down from a manifest or an index.
func (w *walk) collect(d descriptor, depth int) error {
	switch {
	case isIndex(d.MediaType) && depth < maxDepth:
		return w.index(d, depth)
	case isManifest(d.MediaType):
		return w.manifest(d)
	case isIndex(d.MediaType):
		return fmt.Errorf("%s: indexes are nested more than %d deep", d.Digest, maxDepth)
	}
	return fmt.Errorf("%s is %.80q, which is not an image", d.Digest, d.MediaType)
}

// document reads a blob that is JSON.
func (w *walk) document(d descriptor, into any) error {
	if err := d.check(); err != nil {
		return err
	}
	if d.Size > maxDocument {
		return fmt.Errorf("%s has %d bytes; a document has at most %d", d.Digest, d.Size, maxDocument)
	}
	r, err := w.open(d)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Digest, err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, d.Size+1))
	if err != nil {
		return fmt.Errorf("%s: %w", d.Digest, err)
	}
	if sum := sha256.Sum256(data); int64(len(data)) != d.Size || digestOf(sum[:]) != d.Digest {
		return fmt.Errorf("%s: its content does not match", d.Digest)
	}
	if err := decode(bytes.NewReader(data), into); err != nil {
		return fmt.Errorf("%s: %w", d.Digest, err)
	}
	w.blobs = append(w.blobs, blob{descriptor: d, data: data})
	return nil
}

func (w *walk) index(d descriptor, depth int) error {
	var idx index
	if err := w.document(d, &idx); err != nil {
		return err
	}
	chosen, err := choose(idx.Manifests)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Digest, err)
	}
	return w.collect(chosen, depth+1)
}

// choose finds the image for linux/amd64 in an index. An entry without a platform counts when it is alone.
func choose(list []descriptor) (descriptor, error) {
	if len(list) > maxEntries {
		return descriptor{}, fmt.Errorf("an index has %d entries; at most %d are read", len(list), maxEntries)
	}
	var others []string
	for _, d := range list {
		switch p := d.Platform; {
		case p == nil && len(list) == 1, p != nil && p.OS == "linux" && p.Architecture == "amd64" && (p.Variant == "" || p.Variant == "v1"):
			return d, nil
		case p != nil && p.OS != "unknown": // what buildkit says of its attestations
			others = append(others, p.OS+"/"+p.Architecture)
		}
	}
	return descriptor{}, fmt.Errorf("there is no image for linux/amd64, only for [%s]; build one with --platform linux/amd64", strings.Join(others, " "))
}

func (w *walk) manifest(d descriptor) error {
	var m manifest
	if err := w.document(d, &m); err != nil {
		return err
	}
	var c config
	if err := w.document(m.Config, &c); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	switch {
	case c.OS != "linux" || c.Architecture != "amd64":
		return fmt.Errorf("%s: the image is for %.20s/%.20s; build one with --platform linux/amd64", d.Digest, c.OS, c.Architecture)
	case len(m.Layers) > maxLayers:
		return fmt.Errorf("%s: the image has %d layers; at most %d are read", d.Digest, len(m.Layers), maxLayers)
	case len(m.Layers) != len(c.RootFS.DiffIDs):
		return fmt.Errorf("%s: the image has %d layers, and its configuration tells of %d", d.Digest, len(m.Layers), len(c.RootFS.DiffIDs))
	}
	for i, l := range m.Layers {
		if err := l.check(); err != nil {
			return fmt.Errorf("layer %d: %w", i+1, err)
		}
		if _, err := unpackerOf(l.MediaType); err != nil {
			return fmt.Errorf("layer %d: %w", i+1, err)
		}
		w.blobs = append(w.blobs, blob{descriptor: l, diffID: c.RootFS.DiffIDs[i]})
	}
	return nil
}

// copy writes the blob as a member of an archive, and compares it with its digest and, unpacked, with its diffID.
func (b blob) copy(t *tar.Writer, open opener) error {
	if err := t.WriteHeader(header(blobDir+strings.TrimPrefix(b.Digest, "sha256:"), b.Size)); err != nil {
		return err
	}
	if b.data != nil {
		_, err := t.Write(b.data)
		return err
	}
	r, err := open(b.descriptor)
	if err != nil {
		return fmt.Errorf("layer %s: %w", b.Digest, err)
	}
	defer r.Close()
	if err := b.layer(t, r); err != nil {
		return fmt.Errorf("layer %s: %w", b.Digest, err)
	}
	return nil
}

// layer copies a layer, and unpacks it on the way to hash what it holds.
func (b blob) layer(t io.Writer, r io.Reader) error {
	unpack, err := unpackerOf(b.MediaType)
	if err != nil {
		return err
	}
	packed := sha256.New()
	// One byte more than announced shows a blob that is too long; the hash shows one that is too short.
	in := bufio.NewReaderSize(io.TeeReader(io.LimitReader(r, b.Size+1), io.MultiWriter(packed, &bounded{w: t, left: b.Size})), 1<<16)
	plain, err := unpack(in)
	if err != nil {
		return err
	}
	defer plain.Close()
	unpacked := sha256.New()
	n, err := io.Copy(unpacked, io.LimitReader(plain, maxBlob+1))
	if err != nil {
		return err
	}
	if n > maxBlob {
		return fmt.Errorf("unpacked it has more than %d bytes", int64(maxBlob))
	}
	if _, err := io.Copy(io.Discard, in); err != nil { // what follows the compressed data
		return err
	}
	if digest(packed) != b.Digest {
		return errors.New("its content does not match")
	}
	if digest(unpacked) != b.diffID {
		return fmt.Errorf("its unpacked content does not match %.80s of its configuration", b.diffID)
	}
	return nil
}

// bounded refuses to write more than was announced.
type bounded struct {
	w    io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		return 0, errors.New("it is longer than its descriptor says")
	}
	b.left -= int64(len(p))
	return b.w.Write(p)
}

// layerTypes are what a layer can be; its compression is the end of its name.
var layerTypes = []string{typeLayer, "application/vnd.docker.image.rootfs.diff.tar"}

// unpackerOf finds how a layer is compressed.
func unpackerOf(mediaType string) (func(io.Reader) (io.ReadCloser, error), error) {
	i := slices.IndexFunc(layerTypes, func(t string) bool { return strings.HasPrefix(mediaType, t) })
	if i >= 0 {
		switch mediaType[len(layerTypes[i]):] {
		case "":
			return func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(r), nil }, nil
		case "+gzip", ".gzip":
			return func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }, nil
		case "+zstd", ".zstd":
			return func(r io.Reader) (io.ReadCloser, error) {
				d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
				if err != nil {
					return nil, err
				}
				return d.IOReadCloser(), nil
			}, nil
		}
	}
	return nil, fmt.Errorf("a layer of the type %.80q cannot be unpacked by nodes; use tar, tar+gzip or tar+zstd", mediaType)
}

func digest(h hash.Hash) string { return digestOf(h.Sum(nil)) }

func digestOf(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }
