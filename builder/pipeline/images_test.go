package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"spore/builder/oci"
	"spore/builder/store"
	"spore/cluster"
	"spore/cluster/spec"
	"spore/services/kubernetes"
)

// imageBuild is a build with Kubernetes, a folder with the archive images/hello.tar, and the given images.
func imageBuild(t *testing.T, st *store.Store, images ...string) *build {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "images"), 0o755))
	f, err := os.Create(filepath.Join(dir, "images", "hello.tar"))
	require.NoError(t, err)
	_, err = oci.Program(f, []byte("hello"), oci.ProgramOptions{Image: "spore.local/hello:1", Name: "hello"})
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return &build{
		Options: Options{
			Store: st, Source: "../..", Folder: os.DirFS(dir), Env: os.Environ(),
			Config: &cluster.Config{
				Cluster:  spec.Cluster{Services: []string{"kubernetes"}},
				Services: spec.Services{&kubernetes.Settings{Images: images}},
			},
		},
	}
}

// publish puts an image into a registry on loopback and returns its reference.
func publish(t *testing.T) (string, *httptest.Server) {
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	img, err := random.Image(2048, 2)
	require.NoError(t, err)
	c, err := img.ConfigFile()
	require.NoError(t, err)
	c = c.DeepCopy()
	c.OS, c.Architecture = "linux", "amd64"
	img, err = mutate.ConfigFile(img, c)
	require.NoError(t, err)
	tag, err := name.NewTag(strings.TrimPrefix(s.URL, "http://") + "/team/app:1.2")
	require.NoError(t, err)
	require.NoError(t, remote.Write(tag, img))
	d, err := img.Digest()
	require.NoError(t, err)
	return tag.String() + "@" + d.String(), s
}

func openTestStore(t *testing.T) *store.Store {
	st, err := store.Open(t.TempDir())
	require.NoError(t, err)
	return st
}

func TestContainerImagesAreLaidIntoTheRootWithTheirList(t *testing.T) {
	reference, server := publish(t)
	st := openTestStore(t)
	b := imageBuild(t, st, "images/hello.tar", reference)
	b.Registry.Transport = server.Client().Transport
	require.NoError(t, b.collectImages(context.Background()))
	contents, err := b.packImages()
	require.NoError(t, err)
	defer closeImages(contents)
	laid, err := b.recipeImages(contents)
	require.NoError(t, err)
	require.Len(t, laid, 1)
	files := map[string][]byte{}
	for _, f := range laid[0].Files {
		r, err := f.Content.Open()
		require.NoError(t, err)
		files[f.Path], err = io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, f.Content.Size(), int64(len(files[f.Path])))
		require.Equal(t, uint32(0o644), f.Mode)
	}
	var list struct {
		Images []struct {
			File, Digest string
			Names        []string
		}
	}
	require.NoError(t, json.Unmarshal(files[imagesIndex], &list))
	require.Len(t, list.Images, 3)
	require.Equal(t, "pause.tar", list.Images[0].File)
	require.Equal(t, []string{kubernetes.PauseImage}, list.Images[0].Names)
	require.Equal(t, []string{"spore.local/hello:1"}, list.Images[1].Names)
	require.Equal(t, "2-app-1.2.tar", list.Images[2].File)
	require.Equal(t, reference[strings.Index(reference, "@")+1:], list.Images[2].Digest)
	for _, i := range list.Images {
		data := files["/usr/share/spore/images/"+i.File]
		described, err := oci.Describe(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		require.Equal(t, i.Digest, described.Digest)
		require.Equal(t, i.Names, described.Names)
	}
	listed := b.describeImages()
	require.Equal(t, "payload pause", listed[0].From)
	require.Equal(t, "images/hello.tar", listed[1].From)

	// What the store has needs neither a registry nor a network.
	server.Close()
	again := imageBuild(t, st, "images/hello.tar", reference)
	require.NoError(t, again.collectImages(context.Background()))
	require.Equal(t, listed, again.describeImages())
}

func TestWithoutKubernetesThereAreNoContainerImages(t *testing.T) {
	b := imageBuild(t, openTestStore(t))
	b.Config.Cluster.Services = []string{"dns"}
	b.Config.Services.Remove("kubernetes")
	require.NoError(t, b.collectImages(context.Background()))
	laid, err := b.recipeImages(nil)
	require.NoError(t, err)
	require.Empty(t, laid)
	require.Empty(t, b.describeImages())
}

func TestContainerImagesThatCannotBeHad(t *testing.T) {
	reference, _ := publish(t)
	st := openTestStore(t)
	require.ErrorContains(t, imageBuild(t, st, reference).collectImages(context.Background()), "this build is offline; build once without --offline")
	require.ErrorContains(t, imageBuild(t, st, "images/other.tar").collectImages(context.Background()), "container image images/other.tar: open images/other.tar")

	b := imageBuild(t, st, "images/hello.tar", "images/copy.tar")
	data, err := os.ReadFile(filepath.Join(folderOf(t, b), "images", "hello.tar"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folderOf(t, b), "images", "copy.tar"), data, 0o644))
	require.EqualError(t, b.collectImages(context.Background()), "images/hello.tar and images/copy.tar both contain the container image spore.local/hello:1; remove one from images in services/kubernetes.yaml")

	b = imageBuild(t, st, "images/bad.tar")
	require.NoError(t, os.WriteFile(filepath.Join(folderOf(t, b), "images", "bad.tar"), []byte("no archive"), 0o644))
	require.ErrorContains(t, b.collectImages(context.Background()), "container image images/bad.tar: ")
}

// folderOf finds the folder of a build by a file in it.
func folderOf(t *testing.T, b *build) string {
	f, err := b.Folder.Open("images/hello.tar")
	require.NoError(t, err)
	defer f.Close()
	return filepath.Dir(filepath.Dir(f.(*os.File).Name()))
}

// The version that validate knows is the one that the payload pins.
func TestTheReleaseLineIsThatOfThePins(t *testing.T) {
	mod, err := os.ReadFile("../../payloads/kubernetes/go.mod")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^\s*(require )?k8s\.io/kubernetes `+strings.ReplaceAll(kubernetes.Line, ".", `\.`)+`\.[0-9]+$`, string(mod))
}
