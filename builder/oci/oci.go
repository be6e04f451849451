// Package oci brings container images into the one form in which an image of ours carries them: an OCI image layout (OCI
// Image Format Specification 1.1, "Image Layout") in one tar, with the same bytes for the same input.
//
// An image comes from a program of ours (Program), from an archive that a user has (Repack), or from a registry (Pull).
// Of an image for several platforms only what linux/amd64 needs is kept; its index stays as it is, so that its digest does.
// Every blob is compared with its digest, and every layer with what the configuration says of its content.
//
// The package unpacks nothing and runs nothing. It does not read the form of `docker save` from before OCI layouts.
package oci

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Annotations of index.json that name an image: containerd's, which is always whole, and that of the specification.
const (
	annotationName    = "io.containerd.image.name"
	annotationRefName = "org.opencontainers.image.ref.name"
)

// Members of an archive.
const (
	indexFile  = "index.json"
	layoutFile = "oci-layout"
	blobDir    = "blobs/sha256/"
	layoutText = `{"imageLayoutVersion":"1.0.0"}`
)

// Bounds on what is read.
const (
	maxDocument = 4 << 20 // bytes of an index, manifest or configuration; what registries accept
	maxBlob     = 16 << 30
	maxMembers  = 10_000 // of an archive
	maxEntries  = 256    // of an index
	maxLayers   = 512
	maxDepth    = 3 // indexes in each other
)

// Image is what a finished archive holds.
type Image struct {
	// Names are the full names, such as spore.local/pause:1.
	Names []string `json:"names"`
	// Digest is that of the manifest, or of the index where there is one.
	Digest string `json:"digest"`
	// Size of the archive in bytes.
	Size int64 `json:"size"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Variant      string `json:"variant,omitempty"`
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType,omitempty"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType,omitempty"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type config struct {
	Architecture string        `json:"architecture"`
	OS           string        `json:"os"`
	Config       *runtimeParts `json:"config,omitempty"`
	RootFS       rootFS        `json:"rootfs"`
}

type runtimeParts struct {
	User       string   `json:"User,omitempty"`
	Entrypoint []string `json:"Entrypoint,omitempty"`
	WorkingDir string   `json:"WorkingDir,omitempty"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// Media types (OCI Image Format Specification, "Media Types", and Docker's that mean the same).
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"

	typeDockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
	typeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
)

func isIndex(mediaType string) bool { return mediaType == typeIndex || mediaType == typeDockerIndex }
func isManifest(mediaType string) bool {
	return mediaType == typeManifest || mediaType == typeDockerManifest
}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// check refuses what no blob can be.
func (d descriptor) check() error {
	switch {
	case !digestForm.MatchString(d.Digest):
		return fmt.Errorf("the digest %.80q is not sha256 and 64 hexadecimal digits", d.Digest)
	case d.Size < 0 || d.Size > maxBlob:
		return fmt.Errorf("%s has %d bytes; at most %d are read", d.Digest, d.Size, int64(maxBlob))
	}
	return nil
}

// fullName is a name that says its registry, as containerd and Kubernetes need it.
var fullName = regexp.MustCompile(`^([a-zA-Z0-9][a-zA-Z0-9.-]*[.][a-zA-Z0-9.-]*(:[0-9]{1,5})?|[a-zA-Z0-9][a-zA-Z0-9-]*:[0-9]{1,5}|localhost)(/[a-z0-9]+([._-]+[a-z0-9]+)*)+(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})$`)

// name returns the full name that a descriptor of index.json gives to its image; empty where it gives none.
func (d descriptor) name() string {
	for _, key := range []string{annotationName, annotationRefName} {
		if n := d.Annotations[key]; len(n) <= 512 && fullName.MatchString(n) {
			return n
		}
	}
	return ""
}

// opener opens a blob. What it gives is compared with the digest by whoever reads it.
type opener func(d descriptor) (io.ReadCloser, error)

// write writes a finished archive: index.json first, so that a reader knows early what it has, then the blobs by digest.
func write(w io.Writer, names []string, top descriptor, blobs []blob, open opener) (Image, error) {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	idx := index{SchemaVersion: 2, MediaType: typeIndex}
	for _, name := range names {
		d := top
		d.Annotations = map[string]string{annotationName: name, annotationRefName: name}
		idx.Manifests = append(idx.Manifests, d)
	}
	text, err := json.Marshal(idx)
	if err != nil {
		return Image{}, err
	}
	count := &counter{w: w}
	t := tar.NewWriter(count)
	for _, f := range []struct {
		name string
		data []byte
	}{{indexFile, text}, {layoutFile, []byte(layoutText)}} {
		if err := t.WriteHeader(header(f.name, int64(len(f.data)))); err != nil {
			return Image{}, err
		}
		if _, err := t.Write(f.data); err != nil {
			return Image{}, err
		}
	}
	slices.SortFunc(blobs, func(a, b blob) int { return strings.Compare(a.Digest, b.Digest) })
	for _, b := range slices.CompactFunc(blobs, func(a, b blob) bool { return a.Digest == b.Digest }) {
		if err := b.copy(t, open); err != nil {
			return Image{}, err
		}
	}
	if err := t.Close(); err != nil {
		return Image{}, err
	}
	return Image{Names: names, Digest: top.Digest, Size: count.n}, nil
}

func header(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o444, Format: tar.FormatUSTAR}
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// Describe reads what an archive that this package wrote holds. size is that of the archive in bytes.
func Describe(r io.Reader, size int64) (Image, error) {
	t := tar.NewReader(r)
	h, err := t.Next()
	if err != nil {
		return Image{}, err
	}
	if h.Name != indexFile {
		return Image{}, fmt.Errorf("its first member is %.80q and not %s", h.Name, indexFile)
	}
	var idx index
	if err := decode(io.LimitReader(t, maxDocument), &idx); err != nil {
		return Image{}, fmt.Errorf("%s: %w", indexFile, err)
	}
	out := Image{Size: size}
	for _, d := range idx.Manifests {
		out.Names, out.Digest = append(out.Names, d.name()), d.Digest
	}
	if len(out.Names) == 0 || slices.Contains(out.Names, "") {
		return Image{}, errors.New("it names no image")
	}
	return out, nil
}

// decode reads one JSON document.
func decode(r io.Reader, into any) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("there is more than one JSON document")
	}
	return nil
}
