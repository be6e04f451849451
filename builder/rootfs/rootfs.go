// Package rootfs opens what `spore build` wrote, a disk image, an ISO, a folder for network boot or a folder of
// outputs, and gives the filesystems in it with what the image says of itself: manifest, origins, hashes, command line.
//
// It reads only the image: nothing beside it is needed, and nothing in it is checked against its hash tree. A manifest
// beside the image is taken for the origins of files where the image is older than its own table of them.
package rootfs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"spore/builder/image"
	"spore/builder/manifest"
	"spore/builder/media"
	"spore/builder/netboot/ipxe"
	"spore/builder/origins"
	"spore/builder/uki"
	"spore/builder/unsquash"
	"spore/cluster/spec"
	"spore/storage/pieces"
	"spore/storage/verity"
)

// Names in a folder of outputs, the first that is there is taken.
var outputs = []string{"spore.img", "spore.iso", "netboot"}

// manifestName is the manifest beside an image.
const manifestName = "spore.manifest.json"

// maxManifest bounds a manifest in bytes.
const maxManifest = 256 << 20

// Filesystem is one squashfs of an image.
type Filesystem struct {
	*unsquash.Image
	// File holds it, at Offset, with Size bytes: whole blocks of its hash tree.
	File         string
	Offset, Size int64
	// Hash is the root hash of its hash tree, which has HashSize bytes.
	Hash     string
	HashSize int64
	// IndexSize is what the index of pieces takes behind the hash tree, with its padding; 0 is that there is none.
	IndexSize int64
}

// Image is an opened image. It may be used by one goroutine at a time.
type Image struct {
	// Name leads to the image: a file, or a folder for network boot.
	Name string
	// Format is disk, iso or netboot.
	Format string
	// Info tells of a disk image or an ISO; it is nil for network boot.
	Info *image.Info

	Root, Cluster Filesystem
	// Pieces are what the root is made of, by the index behind its hash tree; nil is that an older spore wrote none.
	Pieces pieces.Index
	// UKI is what the firmware starts, with its size in bytes.
	UKI     *uki.Info
	UKISize int64
	// Manifest is what the root says of itself, without a list of files.
	Manifest *manifest.Manifest
	// Origins tells where each of Root.Entries comes from, and is nil where nothing tells.
	Origins []string
	// Table is the root's own table of origins, or nil.
	Table *origins.Table

	uki   io.ReaderAt
	files []*os.File
}

// Open opens an image, or the one in a folder of outputs.
func Open(name string) (_ *Image, err error) {
	i := &Image{Name: name}
	defer func() {
		if err != nil {
			i.Close()
			err = fmt.Errorf("%s: %w", name, err)
		}
	}()
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() && !exists(filepath.Join(name, media.NetbootRoot)) {
		if i.Name, err = find(name); err != nil {
			return nil, err
		}
		if info, err = os.Stat(i.Name); err != nil {
			return nil, err
		}
	}
	if info.IsDir() {
		err = i.openNetboot()
	} else {
		err = i.openMedium()
	}
	if err != nil {
		return nil, err
	}
	if err := i.readManifest(); err != nil {
		return nil, err
	}
	return i, i.readOrigins()
}

// Close closes all files.
func (i *Image) Close() {
	for _, f := range []*unsquash.Image{i.Root.Image, i.Cluster.Image} {
		if f != nil {
			f.Close()
		}
	}
	for _, f := range i.files {
		f.Close()
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// find looks for an image in a folder of outputs.
func find(dir string) (string, error) {
	for _, name := range outputs {
		if p := filepath.Join(dir, name); exists(p) {
			return p, nil
		}
	}
	return "", fmt.Errorf("the folder has none of %s; name an image that `spore build` wrote, or its folder", strings.Join(outputs, ", "))
}

func (i *Image) open(name string) (*os.File, int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	i.files = append(i.files, f)
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a regular file", name)
	}
	return f, info.Size(), nil
}

// openMedium opens a disk image or an ISO.
func (i *Image) openMedium() error {
	f, size, err := i.open(i.Name)
	if err != nil {
		return err
	}
	if i.Info, err = image.Inspect(f, size); err != nil {
		return err
	}
	if i.Info.Root == nil || i.Info.Cluster == nil {
		return fmt.Errorf("the partitions that its UKI names are not there: %s", strings.Join(i.Info.Problems, "; "))
	}
	i.Format = spec.FormatDisk
	if i.Info.ISO != nil {
		i.Format = spec.FormatISO
	}
	last := i.Info.UKIs[len(i.Info.UKIs)-1]
	esp := i.Info.ESP()
	files, err := i.ESP()
	if err != nil {
		return err
	}
	for _, file := range files {
		if file.Path == last.Path {
			i.UKISize, i.uki = file.Size, file.Content
		}
	}
	if i.uki == nil {
		return fmt.Errorf("the ESP of %d MiB has no %s", esp.Size>>20, last.Path)
	}
	i.UKI = &last.Info
	if i.Root, err = openFilesystem(f, i.Name, i.Info.Root.Offset, i.Info.Root.Size, i.Info.RootHash); err != nil {
		return fmt.Errorf("read the root: %w", err)
	}
	if i.Info.Root.IndexSize > 0 {
		if i.Pieces, err = pieces.ReadAt(f, i.Info.Root.IndexOffset); err != nil {
			return fmt.Errorf("read the root: %w", err)
		}
		i.Root.IndexSize = i.Pieces.BlocksSize()
	}
	if i.Cluster, err = openFilesystem(f, i.Name, i.Info.Cluster.Offset, i.Info.Cluster.Size, i.Info.ClusterHash); err != nil {
		return fmt.Errorf("read the cluster part: %w", err)
	}
	return nil
}

func openFilesystem(r io.ReaderAt, name string, offset, size int64, hash string) (Filesystem, error) {
	img, err := unsquash.Open(io.NewSectionReader(r, offset, size), size)
	if err != nil {
		return Filesystem{}, err
	}
	padded := (int64(img.Super.BytesUsed) + verity.BlockSize - 1) / verity.BlockSize * verity.BlockSize
	return Filesystem{Image: img, File: name, Offset: offset, Size: padded, Hash: hash, HashSize: verity.HashSize(padded)}, nil
}

// openNetboot opens a folder for network boot.
func (i *Image) openNetboot() error {
	i.Format = spec.FormatNetboot
	f, size, err := i.open(filepath.Join(i.Name, ipxe.UKI))
	if err != nil {
		return err
	}
	i.uki, i.UKISize = f, size
	if i.UKI, err = uki.Inspect(f); err != nil {
		return fmt.Errorf("%s: %w", ipxe.UKI, err)
	}
	for _, v := range []struct {
		file, param string
		into        *Filesystem
	}{{media.NetbootRoot, "roothash", &i.Root}, {media.NetbootCluster, "spore.clusterhash", &i.Cluster}} {
		name := filepath.Join(i.Name, v.file)
		f, size, err := i.open(name)
		if err != nil {
			return err
		}
		hash, _ := uki.Param(i.UKI.Cmdline, v.param)
		if *v.into, err = openFilesystem(f, name, 0, size, hash); err != nil {
			return fmt.Errorf("%s: %w", v.file, err)
		}
	}
	return i.openTree(filepath.Join(i.Name, media.NetbootVerity))
}

// openTree looks for the index of pieces behind the hash tree of a folder for network boot.
func (i *Image) openTree(name string) error {
	f, _, err := i.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the files of the root are readable without it
	}
	if err != nil {
		return err
	}
	if pieces.SizeAt(f, i.Root.HashSize) == 0 {
		return nil
	}
	if i.Pieces, err = pieces.ReadAt(f, i.Root.HashSize); err != nil {
		return fmt.Errorf("%s: %w", media.NetbootVerity, err)
	}
	i.Root.IndexSize = i.Pieces.BlocksSize()
	return nil
}

func (i *Image) readManifest() error {
	data, err := i.Root.ReadFile(manifest.ImagePath, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the root has no manifest, so this is not an image of spore")
	}
	if err != nil {
		return err
	}
	i.Manifest = &manifest.Manifest{}
	if err := json.Unmarshal(data, i.Manifest); err != nil {
		return fmt.Errorf("%s: %w", manifest.ImagePath, err)
	}
	return nil
}

func (i *Image) readOrigins() error {
	data, err := i.Root.ReadFile(origins.Path, origins.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return i.originsBeside()
	}
	if err != nil {
		return err
	}
	if i.Table, err = origins.Decode(data); err != nil {
		return err
	}
	i.Origins, err = i.Table.List(len(i.Root.Entries))
	return err
}

// originsBeside takes the origins of the manifest beside an image whose root has no table, if it is that of this image.
func (i *Image) originsBeside() error {
	f, err := os.Open(filepath.Join(filepath.Dir(i.Name), manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var m manifest.Manifest
	if err := json.NewDecoder(io.LimitReader(f, maxManifest)).Decode(&m); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	var short, own bytes.Buffer
	if err := errors.Join(m.WithoutFiles().Encode(&short), i.Manifest.Encode(&own)); err != nil {
		return err
	}
	if !bytes.Equal(short.Bytes(), own.Bytes()) || len(m.Files) != len(i.Root.Entries) {
		return nil
	}
	list := make([]string, len(m.Files))
	for n, file := range m.Files {
		if file.Path != i.Root.Entries[n].Path {
			return nil
		}
		list[n] = file.Origin
	}
	i.Origins = list
	return nil
}
