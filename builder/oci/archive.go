package oci

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Repack reads an OCI archive, as `skopeo copy` and `docker buildx` write them, checks it, and writes the finished one.
func Repack(w io.Writer, r io.ReaderAt, size int64) (Image, error) {
	a, err := openArchive(r, size)
	if err != nil {
		return Image{}, err
	}
	top, names, err := a.top()
	if err != nil {
		return Image{}, err
	}
	return finish(w, names, top, a.open)
}

// Peek tells which image an OCI archive holds, without its size, and reads no blob.
func Peek(r io.ReaderAt, size int64) (Image, error) {
	a, err := openArchive(r, size)
	if err != nil {
		return Image{}, err
	}
	top, names, err := a.top()
	if err != nil {
		return Image{}, err
	}
	slices.Sort(names)
	return Image{Names: names, Digest: top.Digest}, nil
}

// archive is the list of a tar's regular files.
type archive struct {
	r       io.ReaderAt
	members map[string]extent
}

type extent struct{ offset, size int64 }

func openArchive(r io.ReaderAt, size int64) (*archive, error) {
	a := &archive{r: r, members: map[string]extent{}}
	in := io.NewSectionReader(r, 0, size)
	for t := tar.NewReader(in); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("it is not a tar archive (OCI archives are not compressed as a whole): %w", err)
		}
		if len(a.members) == maxMembers {
			return nil, fmt.Errorf("it has more than %d members", maxMembers)
		}
		offset, err := in.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		name := path.Clean(h.Name)
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if _, twice := a.members[name]; twice {
			return nil, fmt.Errorf("it has the member %.80q twice", name)
		}
		// The content of a sparse member is not what lies here; its digest will not fit.
		a.members[name] = extent{offset, h.Size}
	}
	if _, ok := a.members[indexFile]; !ok {
		return nil, fmt.Errorf("it has no %s, so it is not an OCI archive; write one with `skopeo copy … oci-archive:app.tar:registry.example/app:1.2`", indexFile)
	}
	return a, nil
}

// open is the archive's opener.
func (a *archive) open(d descriptor) (io.ReadCloser, error) {
	e, ok := a.members[blobDir+strings.TrimPrefix(d.Digest, "sha256:")]
	switch {
	case !ok:
		return nil, errors.New("the archive does not have it")
	case e.size != d.Size:
		return nil, fmt.Errorf("it has %d bytes, and its descriptor says %d", e.size, d.Size)
	}
	return io.NopCloser(io.NewSectionReader(a.r, e.offset, e.size)), nil
}

// top finds the one image of the archive and its names.
func (a *archive) top() (descriptor, []string, error) {
	e := a.members[indexFile]
	if e.size > maxDocument {
		return descriptor{}, nil, fmt.Errorf("%s has %d bytes; at most %d are read", indexFile, e.size, maxDocument)
	}
	var idx index
	if err := decode(io.NewSectionReader(a.r, e.offset, e.size), &idx); err != nil {
		return descriptor{}, nil, fmt.Errorf("%s: %w", indexFile, err)
	}
	if len(idx.Manifests) > maxEntries {
		return descriptor{}, nil, fmt.Errorf("%s has %d entries; at most %d are read", indexFile, len(idx.Manifests), maxEntries)
	}
	var top descriptor
	var names []string
	for _, d := range idx.Manifests {
		if p := d.Platform; p != nil && len(idx.Manifests) > 1 && (p.OS != "linux" || p.Architecture != "amd64") {
			continue
		}
		if top.Digest != "" && top.Digest != d.Digest {
			return descriptor{}, nil, errors.New("it contains more than one image; write one archive for each image")
		}
		top = d
		if n := d.name(); n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	switch {
	case top.Digest == "":
		return descriptor{}, nil, errors.New("it contains no image for linux/amd64")
	case len(names) == 0:
		return descriptor{}, nil, errors.New("it does not say the image's full name, registry and tag included; write it with `skopeo copy … oci-archive:app.tar:registry.example/app:1.2`, or `docker buildx build --output type=oci,dest=app.tar,name=registry.example/app:1.2`")
	}
	top.Annotations = nil
	return top, names, nil
}
