package oci

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
)

// ProgramOptions say what an image of one program is.
type ProgramOptions struct {
	// Image is the full name, such as spore.local/pause:1.
	Image string
	// Name is the program's file in the image's root, such as pause.
	Name string
	// User is UID:GID; root when empty.
	User string
}

// Program writes an archive whose image holds one static program and nothing else.
func Program(w io.Writer, program []byte, o ProgramOptions) (Image, error) {
	if !fullName.MatchString(o.Image) {
		return Image{}, fmt.Errorf("internal error: %q is not a full image name", o.Image)
	}
	var layer bytes.Buffer
	t := tar.NewWriter(&layer)
	h := header(o.Name, int64(len(program)))
	h.Mode = 0o555
	if err := t.WriteHeader(h); err != nil {
		return Image{}, err
	}
	if _, err := t.Write(program); err != nil {
		return Image{}, err
	}
	if err := t.Close(); err != nil {
		return Image{}, err
	}
	// Not compressed: the root file system is.
	content := map[string][]byte{}
	add := func(mediaType string, data []byte) descriptor {
		sum := sha256.Sum256(data)
		d := descriptor{MediaType: mediaType, Digest: digestOf(sum[:]), Size: int64(len(data))}
		content[d.Digest] = data
		return d
	}
	l := add(typeLayer, layer.Bytes())
	text, err := json.Marshal(config{
		Architecture: "amd64", OS: "linux",
		Config: &runtimeParts{User: o.User, Entrypoint: []string{"/" + o.Name}, WorkingDir: "/"},
		RootFS: rootFS{Type: "layers", DiffIDs: []string{l.Digest}},
	})
	if err != nil {
		return Image{}, err
	}
	text, err = json.Marshal(manifest{SchemaVersion: 2, MediaType: typeManifest, Config: add(typeConfig, text), Layers: []descriptor{l}})
	if err != nil {
		return Image{}, err
	}
	top := add(typeManifest, text)
	top.Platform = &platform{Architecture: "amd64", OS: "linux"}
	return finish(w, []string{o.Image}, top, func(d descriptor) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content[d.Digest])), nil
	})
}

// finish walks an image and writes what it needs.
func finish(w io.Writer, names []string, top descriptor, open opener) (Image, error) {
	found := walk{open: open}
	if err := found.collect(top, 0); err != nil {
		return Image{}, err
	}
	return write(w, names, top, found.blobs, open)
}
