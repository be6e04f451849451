// Package updateset is what an update of running nodes is made of: the pieces of a root, of a UKI, of a cluster part
// and of a boot loader, and the two indexes that list them (package pieces), each known by its SHA-256. It says of
// them what the head of an update does (package update), gives the content of each, and writes all of them as a folder
// of files that any web server can serve.
//
// It signs nothing, and reads the root where it is. Who may update which node is for whoever makes the head.
package updateset

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"spore/builder/image"
	"spore/storage/pieces"
	"spore/storage/verity"
	"spore/wire/update"
)

// rootPiece and partPiece are how long pieces are, in bytes, of a root whose image has no index, and of a cluster part
// or a boot loader.
const (
	rootPiece = 256 << 10
	partPiece = 64 << 10
)

// Parts are what nodes are to have.
type Parts struct {
	// Root is the squashfs with its padding. Tree begins with the hash tree; the index of pieces follows, where the
	// image has one.
	Root, Tree image.Source
	// UKI starts the root and the cluster part, which ClusterFile holds with its hash tree.
	UKI         []byte
	ClusterFile string
	// Loader is the boot loader; empty for none.
	Loader []byte
}

// Set is an update without a head. It may be used from many goroutines at once. Close closes the files that it reads.
type Set struct {
	// Root is without the build time and the versions of services, which are for whoever reads the manifest.
	Root update.Root
	// Boot, UKI, Part and Loader are those of the head.
	Boot, UKI, Part, Loader update.Blob
	// RootPieces and BootPieces are the two indexes.
	RootPieces, BootPieces pieces.Index
	// Listed says that the image had an index. Otherwise the root was cut into pieces of equal length, of which a node
	// has few once anything before them changed.
	Listed bool

	places  map[pieces.Sum]place
	indexes map[pieces.Sum][]byte
	sources []io.ReaderAt
	files   []*os.File
}

// place is where an object is.
type place struct {
	source   uint8
	at, size int64
}

// Of finds out what an update to some parts is made of. The root is read only where its image has no index of pieces.
func Of(p Parts) (_ *Set, err error) {
	s := &Set{places: map[pieces.Sum]place{}, indexes: map[pieces.Sum][]byte{}}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := s.addRoot(p.Root, p.Tree); err != nil {
		return nil, fmt.Errorf("the root: %w", err)
	}
	return s, s.addBoot(p)
}

// Close closes all files.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// open opens a file that is closed with the others.
func (s *Set) open(name string) (*os.File, error) {
	f, err := os.Open(name)
	if err == nil {
		s.files = append(s.files, f)
	}
	return f, err
}

// addRoot makes the objects of a root known.
func (s *Set) addRoot(data, tree image.Source) error {
	hashes, err := s.open(tree.Path)
	if err != nil {
		return err
	}
	begin := make([]byte, verity.SuperblockSize)
	if _, err := hashes.ReadAt(begin, tree.Offset); err != nil {
		return fmt.Errorf("read the superblock of its hash tree: %w", err)
	}
	super, err := verity.Parse(begin)
	if err != nil {
		return err
	}
	if len(super.Salt) != sha256.Size {
		return fmt.Errorf("its hash tree has a salt of %d bytes, and nodes make trees with %d", len(super.Salt), sha256.Size)
	}
	size := super.DataBlocks * verity.BlockSize
	s.Root = update.Root{Size: size, Salt: fmt.Sprintf("%x", super.Salt), UUID: fmt.Sprintf("%x", super.UUID)}
	file, err := s.open(data.Path)
	if err != nil {
		return err
	}
	content := io.NewSectionReader(file, data.Offset, size)
	s.RootPieces, err = pieces.ReadAt(hashes, tree.Offset+verity.HashSize(size))
	switch {
	case errors.Is(err, pieces.ErrForm), errors.Is(err, io.ErrUnexpectedEOF):
		if s.RootPieces, err = pieces.Cut(content, size, nil, rootPiece); err != nil {
			return err
		}
	case err != nil:
		return err
	case s.RootPieces.Size() != size:
		return fmt.Errorf("its index of pieces is of %d bytes, and the root has %d: build the image anew", s.RootPieces.Size(), size)
	default:
		s.Listed = true
	}
	s.add(content, s.RootPieces)
	s.Root.Index, err = s.addIndex(s.RootPieces)
	return err
}

// addBoot makes the objects of a UKI, a cluster part and a boot loader known.
func (s *Set) addBoot(p Parts) error {
	kernel, loader := bytes.NewReader(p.UKI), bytes.NewReader(p.Loader)
	first, err := pieces.OfProgram(kernel, kernel.Size())
	if err != nil {
		return fmt.Errorf("the UKI: %w", err)
	}
	file, err := s.open(p.ClusterFile)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	part := io.NewSectionReader(file, 0, info.Size())
	second, err := pieces.Cut(part, part.Size(), nil, partPiece)
	if err != nil {
		return fmt.Errorf("the cluster part: %w", err)
	}
	s.add(kernel, first)
	s.add(part, second)
	s.BootPieces = slices.Concat(first, second)
	if len(p.Loader) > 0 {
		third, err := pieces.Cut(loader, loader.Size(), nil, partPiece)
		if err != nil {
			return fmt.Errorf("the boot loader: %w", err)
		}
		s.add(loader, third)
		s.BootPieces = append(s.BootPieces, third...)
		if s.Loader, err = update.Sum(loader); err != nil {
			return err
		}
	}
	if s.Boot, err = s.addIndex(s.BootPieces); err != nil {
		return err
	}
	if s.UKI, err = update.Sum(kernel); err != nil {
		return err
	}
	s.Part, err = update.Sum(part)
	return err
}

// add makes the pieces of a source known.
func (s *Set) add(from io.ReaderAt, x pieces.Index) {
	source := uint8(len(s.sources))
	s.sources = append(s.sources, from)
	at := int64(0)
	for _, p := range x {
		if _, ok := s.places[p.Sum]; !ok {
			s.places[p.Sum] = place{source, at, p.Size}
		}
		at += p.Size
	}
}

func (s *Set) addIndex(x pieces.Index) (update.Blob, error) {
	data, err := x.Encode()
	if err != nil {
		return update.Blob{}, err
	}
	sum := pieces.Sum(sha256.Sum256(data))
	s.indexes[sum] = data
	return update.Blob{Size: int64(len(data)), SHA256: sum.String()}, nil
}

// ErrObject is a hash that is of nothing in an update.
var ErrObject = errors.New("the update has nothing with this hash")

// Object returns an index or a piece by its hash.
func (s *Set) Object(sum pieces.Sum) ([]byte, error) {
	if data, ok := s.indexes[sum]; ok {
		return data, nil
	}
	p, ok := s.places[sum]
	if !ok {
		return nil, ErrObject
	}
	data := make([]byte, p.size)
	if n, err := s.sources[p.source].ReadAt(data, p.at); n < len(data) {
		return nil, fmt.Errorf("read the image: %w", err)
	}
	if sha256.Sum256(data) != sum {
		return nil, errors.New("the image is not what its index of pieces says: build it anew")
	}
	return data, nil
}

// Boots are the objects that a node lacks that has the root: both indexes, and the pieces of UKI, cluster part and
// boot loader, each once.
func (s *Set) Boots() []pieces.Sum { return s.sums(s.BootPieces) }

// All are all objects, each once: both indexes, the pieces of UKI, cluster part and boot loader, and those of the root.
func (s *Set) All() []pieces.Sum { return s.sums(s.BootPieces, s.RootPieces) }

func (s *Set) sums(of ...pieces.Index) []pieces.Sum {
	var out []pieces.Sum
	seen := map[pieces.Sum]bool{}
	add := func(sum pieces.Sum) {
		if !seen[sum] {
			seen[sum] = true
			out = append(out, sum)
		}
	}
	for _, b := range []update.Blob{s.Root.Index, s.Boot} {
		sum, _ := pieces.ParseSum(b.SHA256) // which addIndex wrote
		add(sum)
	}
	for _, x := range of {
		for _, p := range x {
			add(p.Sum)
		}
	}
	return out
}
