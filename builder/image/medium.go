package image

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"spore/fat"
)

// Bounds on what ReadESP keeps in memory, in bytes.
const (
	maxUKI    = 1 << 30
	maxLoader = 16 << 20
	maxOthers = 16 << 20
)

// ESP is the content of an EFI system partition as Write made it.
type ESP struct {
	// UKI and Loader are its one unified kernel image and its boot loader.
	UKI, Loader []byte
	// Files are all other files by their path, without the loader's configuration: this medium's choice of a node, a
	// bundle, keys for the firmware.
	Files map[string][]byte
}

// ReadESP reads the ESP in size bytes. One that a machine has updated, so that it has several UKIs, is an error.
func ReadESP(r io.ReaderAt, size int64) (*ESP, error) {
	e, err := readESP(r, size)
	if err != nil {
		return nil, fmt.Errorf("read the ESP: %w", err)
	}
	return e, nil
}

func readESP(r io.ReaderAt, size int64) (*ESP, error) {
	f, err := fat.Open(r, size)
	if err != nil {
		return nil, err
	}
	list, err := f.Walk()
	if err != nil {
		return nil, err
	}
	out := &ESP{Files: map[string][]byte{}}
	var others int64
	for _, file := range list {
		switch {
		case file.Path == loaderPath || strings.EqualFold(file.Path, systemdBootPath):
		case strings.EqualFold(file.Path, bootPath):
			out.Loader, err = readBounded(file, maxLoader)
		case isUKI(file.Path) && out.UKI != nil:
			return nil, errors.New("it has more than one unified kernel image, so it is that of a machine")
		case isUKI(file.Path):
			out.UKI, err = readBounded(file, maxUKI)
		default:
			others += file.Size
			out.Files[file.Path], err = readBounded(file, maxOthers-others+file.Size)
		}
		if err != nil {
			return nil, err
		}
	}
	if out.UKI == nil || out.Loader == nil {
		return nil, fmt.Errorf("it has no unified kernel image in %s, or no boot loader %s", ukiDir, bootPath)
	}
	return out, nil
}

func isUKI(name string) bool {
	dir, base := name[:strings.LastIndexByte(name, '/')], name[strings.LastIndexByte(name, '/')+1:]
	return strings.EqualFold(dir, ukiDir) && strings.HasSuffix(strings.ToLower(base), ".efi")
}

func readBounded(f fat.File, limit int64) ([]byte, error) {
	if f.Size > limit {
		return nil, fmt.Errorf("%s has %d bytes, which is too much", f.Path, f.Size)
	}
	data := make([]byte, f.Size)
	if _, err := io.ReadFull(io.NewSectionReader(f.Content, 0, f.Size), data); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Path, err)
	}
	return data, nil
}

// HasSlots tells whether a disk image has the layout that Write gives it for these sizes.
func (i *Info) HasSlots(s Slots) bool {
	s, err := s.withDefaults()
	if err != nil {
		return false
	}
	parts, size := layOut(s, i.RootHash, i.ClusterHash)
	return size == i.Size && slices.Equal(parts, i.Partitions)
}
