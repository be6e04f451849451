package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

const appName = "registry.example/app:1.2"

// member is one file of an archive that a test makes.
type member struct {
	name string
	data []byte
}

// kit makes archives by hand, right ones and wrong ones.
type kit struct {
	t       testing.TB
	members []member
	// without drops the member of this name from the archive.
	without string
	links   []string
}

func (k *kit) blob(mediaType string, data []byte) descriptor {
	sum := sha256.Sum256(data)
	d := descriptor{MediaType: mediaType, Digest: digestOf(sum[:]), Size: int64(len(data))}
	m := member{blobDir + strings.TrimPrefix(d.Digest, "sha256:"), data}
	if !slices.ContainsFunc(k.members, func(o member) bool { return o.name == m.name }) {
		k.members = append(k.members, m)
	}
	return d
}

func (k *kit) json(mediaType string, v any) descriptor {
	data, err := json.Marshal(v)
	require.NoError(k.t, err)
	return k.blob(mediaType, data)
}

func (k *kit) layer(compress string) (descriptor, string) {
	var plain, packed bytes.Buffer
	w := tar.NewWriter(&plain)
	require.NoError(k.t, w.WriteHeader(header("app", 3)))
	_, err := w.Write([]byte("app"))
	require.NoError(k.t, err)
	require.NoError(k.t, w.Close())
	sum := sha256.Sum256(plain.Bytes())
	switch compress {
	case "+gzip", ".gzip":
		z := gzip.NewWriter(&packed)
		_, err = z.Write(plain.Bytes())
		require.NoError(k.t, err)
		require.NoError(k.t, z.Close())
	case "+zstd":
		z, err := zstd.NewWriter(&packed)
		require.NoError(k.t, err)
		_, err = z.Write(plain.Bytes())
		require.NoError(k.t, err)
		require.NoError(k.t, z.Close())
	default:
		packed = plain
	}
	prefix := typeLayer
	if strings.HasPrefix(compress, ".") {
		prefix = layerTypes[1]
	}
	return k.blob(prefix+compress, packed.Bytes()), digestOf(sum[:])
}

// image makes an image with one layer.
func (k *kit) image(compress, arch string) descriptor {
	l, diff := k.layer(compress)
	c := k.json(typeConfig, config{Architecture: arch, OS: "linux", RootFS: rootFS{Type: "layers", DiffIDs: []string{diff}}})
	d := k.json(typeManifest, manifest{SchemaVersion: 2, MediaType: typeManifest, Config: c, Layers: []descriptor{l}})
	d.Platform = &platform{Architecture: arch, OS: "linux"}
	return d
}

func named(d descriptor, name string) descriptor {
	d.Annotations = map[string]string{annotationName: name}
	return d
}

// archive writes the members; index.json is last, as most tools have it somewhere.
func (k *kit) archive(list ...descriptor) []byte {
	text, err := json.Marshal(index{SchemaVersion: 2, Manifests: list})
	require.NoError(k.t, err)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, m := range append(k.members, member{layoutFile, []byte(layoutText)}, member{indexFile, text}) {
		if m.name == k.without {
			continue
		}
		require.NoError(k.t, w.WriteHeader(header(m.name, int64(len(m.data)))))
		_, err := w.Write(m.data)
		require.NoError(k.t, err)
	}
	for _, l := range k.links {
		require.NoError(k.t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: l, Linkname: "/etc/passwd"}))
	}
	require.NoError(k.t, w.Close())
	return out.Bytes()
}

func repack(data []byte) ([]byte, Image, error) {
	var out bytes.Buffer
	i, err := Repack(&out, bytes.NewReader(data), int64(len(data)))
	return out.Bytes(), i, err
}

// unpack lays an archive into a folder and reads it with another implementation of the specification.
func unpack(t *testing.T, data []byte) (v1.Image, []string) {
	dir := t.TempDir()
	var order []string
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		order = append(order, h.Name)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		writeFile(t, dir, h.Name, content)
	}
	p, err := layout.FromPath(dir)
	require.NoError(t, err)
	idx, err := p.ImageIndex()
	require.NoError(t, err)
	m, err := idx.IndexManifest()
	require.NoError(t, err)
	var names []string
	for _, d := range m.Manifests {
		names = append(names, d.Annotations[annotationName])
	}
	d := m.Manifests[0]
	for d.MediaType.IsIndex() {
		idx, err = idx.ImageIndex(d.Digest)
		require.NoError(t, err)
		m, err = idx.IndexManifest()
		require.NoError(t, err)
		for _, c := range m.Manifests {
			if c.Platform == nil || c.Platform.Architecture == "amd64" {
				d = c
			}
		}
	}
	img, err := idx.Image(d.Digest)
	require.NoError(t, err)
	require.Equal(t, []string{indexFile, layoutFile}, order[:2])
	return img, names
}

func TestAProgramIsAnImage(t *testing.T) {
	o := ProgramOptions{Image: "spore.local/pause:1", Name: "pause", User: "65535:65535"}
	var a, b bytes.Buffer
	i, err := Program(&a, []byte("program"), o)
	require.NoError(t, err)
	_, err = Program(&b, []byte("program"), o)
	require.NoError(t, err)
	require.Equal(t, a.Bytes(), b.Bytes(), "the same program gives the same bytes")
	require.Equal(t, int64(a.Len()), i.Size)

	img, names := unpack(t, a.Bytes())
	require.NoError(t, validate.Image(img, validate.Fast)) // it takes every layer for gzip
	require.Equal(t, []string{"spore.local/pause:1"}, names)
	d, err := img.Digest()
	require.NoError(t, err)
	require.Equal(t, d.String(), i.Digest)
	c, err := img.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, []string{"/pause"}, c.Config.Entrypoint)
	require.Equal(t, "65535:65535", c.Config.User)

	described, err := Describe(bytes.NewReader(a.Bytes()), int64(a.Len()))
	require.NoError(t, err)
	require.Equal(t, i, described)
	again, _, err := repack(a.Bytes())
	require.NoError(t, err)
	require.Equal(t, a.Bytes(), again, "what is finished stays as it is")
}

func TestArchivesOfEveryCompressionAreTaken(t *testing.T) {
	for _, compress := range []string{"", "+gzip", "+zstd", ".gzip"} {
		k := &kit{t: t, links: []string{"latest"}}
		k.blob("text/plain", []byte("nobody needs it"))
		out, i, err := repack(k.archive(named(k.image(compress, "amd64"), appName)))
		require.NoError(t, err, compress)
		require.Equal(t, []string{appName}, i.Names)
		img, _ := unpack(t, out)
		if strings.HasSuffix(compress, "gzip") {
			require.NoError(t, validate.Image(img))
		} else {
			require.NoError(t, validate.Image(img, validate.Fast)) // it takes every layer for gzip
		}
		require.NotContains(t, string(out), "nobody needs it")
		again, _, err := repack(out)
		require.NoError(t, err)
		require.Equal(t, out, again)
	}
}

func TestOfAnIndexOnlyOurPlatformIsKept(t *testing.T) {
	k := &kit{t: t}
	arm := k.image("", "arm64")
	ours := k.image("+gzip", "amd64")
	attestation := k.json(typeManifest, manifest{SchemaVersion: 2})
	attestation.Platform = &platform{OS: "unknown", Architecture: "unknown"}
	idx := k.json(typeIndex, index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{arm, ours, attestation}})
	out, i, err := repack(k.archive(named(idx, appName)))
	require.NoError(t, err)
	require.Equal(t, idx.Digest, i.Digest, "the digest that people know stays")
	require.Contains(t, string(out), blobDir+strings.TrimPrefix(ours.Digest, "sha256:"))
	require.NotContains(t, string(out), blobDir+strings.TrimPrefix(arm.Digest, "sha256:"))
	img, _ := unpack(t, out)
	require.NoError(t, validate.Image(img))
}

func TestSeveralNamesOfOneImage(t *testing.T) {
	k := &kit{t: t}
	d := k.image("", "amd64")
	_, i, err := repack(k.archive(named(d, "registry.example/app:latest"), named(d, appName), named(d, appName)))
	require.NoError(t, err)
	require.Equal(t, []string{appName, "registry.example/app:latest"}, i.Names)
}

func TestWhatIsWrongWithAnArchive(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		make       func(k *kit) []byte
	}{
		{"no tar", "it is not a tar", func(k *kit) []byte { return []byte(strings.Repeat("x", 600)) }},
		{"compressed as a whole", "OCI archives are not compressed as a whole", func(k *kit) []byte {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write(k.archive(named(k.image("", "amd64"), appName)))
			_ = z.Close()
			return b.Bytes()
		}},
		{"no index", "it has no index.json, so it is not an OCI archive", func(k *kit) []byte { k.without = indexFile; return k.archive() }},
		{"an empty index", "it contains no image for linux/amd64", func(k *kit) []byte { return k.archive() }},
		{"no name", "it does not say the image's full name", func(k *kit) []byte { return k.archive(k.image("", "amd64")) }},
		{"a name without a registry", "it does not say the image's full name", func(k *kit) []byte { return k.archive(named(k.image("", "amd64"), "app:1.2")) }},
		{"a name without a tag", "it does not say the image's full name", func(k *kit) []byte { return k.archive(named(k.image("", "amd64"), "registry.example/app")) }},
		{"two images", "it contains more than one image", func(k *kit) []byte {
			return k.archive(named(k.image("", "amd64"), appName), named(k.image("+gzip", "amd64"), "registry.example/b:1"))
		}},
		{"another processor", "the image is for linux/arm64", func(k *kit) []byte { return k.archive(named(k.image("", "arm64"), appName)) }},
		{"an index without us", "there is no image for linux/amd64, only for [linux/arm64]", func(k *kit) []byte {
			d := k.image("", "arm64")
			return k.archive(named(k.json(typeIndex, index{Manifests: []descriptor{d}}), appName))
		}},
		{"indexes without end", "nested more than 3 deep", func(k *kit) []byte {
			d := k.image("", "amd64")
			for range 5 {
				d = k.json(typeIndex, index{Manifests: []descriptor{d}})
			}
			return k.archive(named(d, appName))
		}},
		{"a lost layer", "the archive does not have it", func(k *kit) []byte {
			d := k.image("", "amd64")
			k.without = k.members[0].name
			return k.archive(named(d, appName))
		}},
		{"a layer that was changed", "its content does not match", func(k *kit) []byte {
			d := k.image("", "amd64")
			k.members[0].data[600] ^= 1
			return k.archive(named(d, appName))
		}},
		{"a compressed layer that was changed", "layer sha256:", func(k *kit) []byte {
			d := k.image("+gzip", "amd64")
			k.members[0].data[len(k.members[0].data)-1] ^= 1
			return k.archive(named(d, appName))
		}},
		{"a manifest that was changed", "its content does not match", func(k *kit) []byte {
			d := k.image("", "amd64")
			k.members[2].data[3] ^= 1
			return k.archive(named(d, appName))
		}},
		{"a size that is wrong", "its descriptor says", func(k *kit) []byte {
			d := k.image("", "amd64")
			d.Size++
			return k.archive(named(d, appName))
		}},
		{"a digest of another kind", "is not sha256", func(k *kit) []byte {
			d := k.image("", "amd64")
			d.Digest = "md5:00"
			return k.archive(named(d, appName))
		}},
		{"a digest that leads outside", "is not sha256", func(k *kit) []byte {
			d := k.image("", "amd64")
			d.Digest = "sha256:../../etc/passwd"
			return k.archive(named(d, appName))
		}},
		{"a layer of a strange type", "cannot be unpacked by nodes", func(k *kit) []byte {
			l, diff := k.layer("")
			l.MediaType = "application/vnd.oci.image.layer.v1.tar+gzip+encrypted"
			c := k.json(typeConfig, config{Architecture: "amd64", OS: "linux", RootFS: rootFS{DiffIDs: []string{diff}}})
			return k.archive(named(k.json(typeManifest, manifest{Config: c, Layers: []descriptor{l}}), appName))
		}},
		{"a configuration of another layer", "of its configuration", func(k *kit) []byte {
			l, _ := k.layer("+gzip")
			c := k.json(typeConfig, config{Architecture: "amd64", OS: "linux", RootFS: rootFS{DiffIDs: []string{l.Digest}}})
			return k.archive(named(k.json(typeManifest, manifest{Config: c, Layers: []descriptor{l}}), appName))
		}},
		{"a configuration of fewer layers", "its configuration tells of 0", func(k *kit) []byte {
			l, _ := k.layer("")
			c := k.json(typeConfig, config{Architecture: "amd64", OS: "linux"})
			return k.archive(named(k.json(typeManifest, manifest{Config: c, Layers: []descriptor{l}}), appName))
		}},
		{"something that is not an image", "which is not an image", func(k *kit) []byte {
			return k.archive(named(k.json("application/vnd.example+json", "x"), appName))
		}},
		{"a member twice", "twice", func(k *kit) []byte {
			d := k.image("", "amd64")
			k.members = append(k.members, k.members[0])
			return k.archive(named(d, appName))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := repack(tc.make(&kit{t: t}))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestADocumentThatIsTooLargeIsNotRead(t *testing.T) {
	k := &kit{t: t}
	d := k.blob(typeManifest, bytes.Repeat([]byte(" "), maxDocument+1))
	_, _, err := repack(k.archive(named(d, appName)))
	require.ErrorContains(t, err, "a document has at most")
}

// serve runs a registry on loopback and tells how it is called.
func serve(t *testing.T) (string, http.RoundTripper) {
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), s.Client().Transport
}

func TestPullAnImage(t *testing.T) {
	host, transport := serve(t)
	img, err := random.Image(4096, 3)
	require.NoError(t, err)
	img, err = mutate.ConfigFile(img, withPlatform(t, img, "amd64"))
	require.NoError(t, err)
	arm, err := random.Image(512, 1)
	require.NoError(t, err)
	arm, err = mutate.ConfigFile(arm, withPlatform(t, arm, "arm64"))
	require.NoError(t, err)
	idx := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		mutate.IndexAddendum{Add: arm, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}},
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}})
	tag, err := name.NewTag(host + "/team/app:1.2")
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(tag, idx))
	digest, err := idx.Digest()
	require.NoError(t, err)

	var out, again bytes.Buffer
	from := Registry{Transport: transport}
	i, err := Pull(context.Background(), &out, tag.String()+"@"+digest.String(), from)
	require.NoError(t, err)
	require.Equal(t, []string{host + "/team/app:1.2", host + "/team/app@" + digest.String()}, i.Names)
	require.Equal(t, digest.String(), i.Digest)
	_, err = Pull(context.Background(), &again, tag.String()+"@"+digest.String(), from)
	require.NoError(t, err)
	require.Equal(t, out.Bytes(), again.Bytes())
	got, _ := unpack(t, out.Bytes())
	require.NoError(t, validate.Image(got))
	want, err := img.Digest()
	require.NoError(t, err)
	have, err := got.Digest()
	require.NoError(t, err)
	require.Equal(t, want, have)

	_, err = Pull(context.Background(), io.Discard, tag.String()+"@sha256:"+strings.Repeat("0", 64), from)
	require.ErrorContains(t, err, "ask the registry")
	_, err = Pull(context.Background(), io.Discard, tag.String(), from)
	require.Error(t, err, "without a digest")
}

// A registry that gives another blob than the one asked for is not believed.
func TestARegistryThatLies(t *testing.T) {
	host, transport := serve(t)
	img, err := random.Image(4096, 1)
	require.NoError(t, err)
	img, err = mutate.ConfigFile(img, withPlatform(t, img, "amd64"))
	require.NoError(t, err)
	tag, err := name.NewTag(host + "/app:1")
	require.NoError(t, err)
	require.NoError(t, remote.Write(tag, img))
	d, err := img.Digest()
	require.NoError(t, err)
	layers, err := img.Layers()
	require.NoError(t, err)
	first, err := layers[0].Digest()
	require.NoError(t, err)
	lying := roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := transport.RoundTrip(r)
		if err == nil && strings.HasSuffix(r.URL.Path, "/blobs/"+first.String()) && r.Method == http.MethodGet {
			data, _ := io.ReadAll(resp.Body)
			data[len(data)/2] ^= 1
			resp.Body = io.NopCloser(bytes.NewReader(data))
		}
		return resp, err
	})
	_, err = Pull(context.Background(), io.Discard, tag.String()+"@"+d.String(), Registry{Transport: lying})
	require.Error(t, err)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func withPlatform(t *testing.T, img v1.Image, arch string) *v1.ConfigFile {
	c, err := img.ConfigFile()
	require.NoError(t, err)
	c = c.DeepCopy()
	c.OS, c.Architecture = "linux", arch
	return c
}

// FuzzRepack reads anything: no panic, and what is taken can be taken again with the same bytes.
func FuzzRepack(f *testing.F) {
	for _, compress := range []string{"", "+gzip", "+zstd"} {
		k := &kit{t: f}
		d := k.image(compress, "amd64")
		f.Add(k.archive(named(d, appName)))
		f.Add(k.archive(named(k.json(typeIndex, index{Manifests: []descriptor{d}}), appName)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, i, err := repack(data)
		if err != nil {
			return
		}
		again, same, err := repack(out)
		require.NoError(t, err)
		require.Equal(t, i, same)
		require.Equal(t, out, again)
	})
}

func writeFile(t *testing.T, dir, name string, data []byte) {
	file := filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, data, 0o644))
}
