package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"spore/builder/manifest"
	"spore/builder/needs"
	"spore/builder/oci"
	"spore/builder/packs"
	"spore/builder/payload"
	"spore/builder/recipe"
	"spore/builder/source"
	"spore/builder/store"
	"spore/builder/tree"
	"spore/services/kubernetes"
)

// Where an image carries container images, and the list of them that spore-agent reads.
const (
	imagesDir   = "/usr/share/spore/images"
	imagesIndex = imagesDir + "/images.json"
)

// imageFormat is part of each key; it changes when package oci writes other bytes for the same image.
const imageFormat = "container image 1"

// pausePayload is the program that holds the namespaces of a pod; nobody's account runs it.
const (
	pausePayload = "pause"
	pauseFrom    = "payload " + pausePayload
	pauseUser    = "65535:65535"
)

// containerImage is one archive in the store.
type containerImage struct {
	oci.Image
	// File is its name in imagesDir.
	File string
	// From is where it comes from: a payload, a file of the configuration, or a reference.
	From string

	key store.Key
	// sha256 names what came from outside in hexadecimal: an archive of the configuration folder, or the manifest of a
	// registry's image. Empty for a payload's.
	sha256 string
}

// collectImages brings the container images of Kubernetes into the store.
func (b *build) collectImages(ctx context.Context) error {
	names, some := needs.ContainerImages(b.Config)
	if !some {
		return nil
	}
	step := b.Progress.Step("images")
	if err := b.pauseImage(ctx); err != nil {
		return fmt.Errorf("container image %s: %w", kubernetes.PauseImage, err)
	}
	for i, name := range names {
		step.Update("container image %s", name)
		add := b.pulledImage
		if kubernetes.IsImageArchive(name) {
			add = b.archivedImage
		}
		if err := add(ctx, i, name); err != nil {
			return fmt.Errorf("container image %s: %w", name, err)
		}
	}
	var size int64
	owner := map[string]string{}
	for _, i := range b.images {
		size += i.Size
		for _, name := range i.Names {
			if owner[name] != "" {
				return fmt.Errorf("%s and %s both contain the container image %s; remove one from images in services/kubernetes.yaml", owner[name], i.From, name)
			}
			owner[name] = i.From
		}
	}
	step.Note("%d, %.1f MiB", len(b.images), float64(size)/(1<<20))
	step.Done()
	return nil
}

func (b *build) pauseImage(ctx context.Context) error {
	built, err := b.makePause(ctx, payload.Options{Env: b.Env, Hashes: b.Hashes})
	if err != nil {
		return err
	}
	inside := built
	inside.Target = path.Join(imagesDir, pausePayload+".tar") + ":/" + pausePayload
	b.binaries.contained = append(b.binaries.contained, inside)
	return b.addImage(containerImage{File: pausePayload + ".tar", From: pauseFrom, key: store.KeyOf(imageFormat, "program", kubernetes.PauseImage, built.Key.String())}, func(w *os.File) error {
		program, err := b.readProgram(built)
		if err != nil {
			return err
		}
		_, err = oci.Program(w, program, oci.ProgramOptions{Image: kubernetes.PauseImage, Name: pausePayload, User: pauseUser})
		return err
	})
}

// makePause is makePrograms for the program of the pause image.
func (b *build) makePause(ctx context.Context, o payload.Options) (payload.Program, error) {
	built, err := payload.Build(ctx, b.Store, source.Payload(b.Source, pausePayload), o)
	if err != nil {
		return payload.Program{}, err
	}
	if len(built) != 1 {
		return payload.Program{}, fmt.Errorf("payload %s has %d programs; it must have one", pausePayload, len(built))
	}
	return built[0], nil
}

// archivedImage takes an archive of the configuration folder.
func (b *build) archivedImage(_ context.Context, _ int, name string) error {
	f, err := b.Folder.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r, ok := f.(io.ReaderAt)
	if !ok {
		return errors.New("internal error: the configuration folder's files cannot be read at any place")
	}
	sum, err := hashOf(f)
	if err != nil {
		return err
	}
	key := store.KeyOf(imageFormat, "archive", sum)
	return b.addImage(containerImage{File: path.Base(name), From: name, key: key, sha256: sum}, func(w *os.File) error {
		_, err := oci.Repack(w, r, info.Size())
		return err
	})
}

// hashOf is the SHA-256 of what is read, in hexadecimal.
func hashOf(r io.Reader) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), err
}

// pulledImage takes an image of a registry; its reference names the content, so that it is asked for once.
func (b *build) pulledImage(ctx context.Context, i int, reference string) error {
	// A number before the name keeps two images of one name, and an archive of that name, apart.
	name, digest, _ := strings.Cut(path.Base(reference), "@")
	image := containerImage{
		File: fmt.Sprintf("%d-%s.tar", i+1, strings.ReplaceAll(name, ":", "-")), From: reference,
		key: store.KeyOf(imageFormat, "reference", reference), sha256: strings.TrimPrefix(digest, "sha256:"),
	}
	if b.Registry.Transport == nil && !b.Store.Has(image.key) {
		return errors.New("it is not in the cache, and this build is offline; build once without --offline")
	}
	return b.addImage(image, func(w *os.File) error {
		_, err := oci.Pull(ctx, w, reference, b.Registry)
		return err
	})
}

// addImage makes an archive unless the store has it, and notes what it holds.
func (b *build) addImage(image containerImage, fill func(w *os.File) error) error {
	f, err := b.Store.Ensure(image.key, fill)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if image.Image, err = oci.Describe(f, info.Size()); err != nil {
		return b.Store.Damaged(image.key, fmt.Errorf("read container image: %w", err))
	}
	b.images = append(b.images, image)
	return nil
}

// packImages compresses the container images, once for each. The caller closes what it gets.
func (b *build) packImages() ([]*packs.Content, error) {
	var out []*packs.Content
	for _, i := range b.images {
		c, err := packs.EnsureContent(b.Store, i.key, storedImage{b.Store, i})
		if err != nil {
			closeImages(out)
			return nil, fmt.Errorf("compress container image %s: %w", i.From, err)
		}
		out = append(out, c)
	}
	return out, nil
}

func closeImages(list []*packs.Content) {
	for _, c := range list {
		c.Close()
	}
}

// storedImage is an archive as the content of a file.
type storedImage struct {
	store *store.Store
	image containerImage
}

func (s storedImage) Size() int64                  { return s.image.Size }
func (s storedImage) Open() (io.ReadCloser, error) { return s.store.Open(s.image.key) }

// recipeImages lays the container images out, with their list.
func (b *build) recipeImages(contents []*packs.Content) ([]recipe.Payload, error) {
	if len(b.images) == 0 {
		return nil, nil
	}
	type entry struct {
		File   string   `json:"file"`
		Names  []string `json:"names"`
		Digest string   `json:"digest"`
	}
	var list struct {
		Images []entry `json:"images"`
	}
	out := recipe.Payload{Name: "container-images"}
	for i, image := range b.images {
		out.Files = append(out.Files, recipe.PayloadFile{Path: path.Join(imagesDir, image.File), Mode: 0o644, Content: contents[i].Content})
		list.Images = append(list.Images, entry{image.File, image.Names, image.Digest})
	}
	text, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		return nil, err
	}
	out.Files = append(out.Files, recipe.PayloadFile{Path: imagesIndex, Mode: 0o644, Content: tree.Bytes(append(text, '\n'))})
	return []recipe.Payload{out}, nil
}

// describeImages lists the container images for the manifest.
func (b *build) describeImages() []manifest.Image {
	var out []manifest.Image
	for _, i := range b.images {
		out = append(out, manifest.Image{File: path.Join(imagesDir, i.File), Names: i.Names, Digest: i.Digest, Size: i.Size, From: i.From})
	}
	return out
}
