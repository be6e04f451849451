package image

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"spore/builder/iso"
	"spore/storage/fat"
)

// Bounds on what ReadESP keeps in memory, in bytes.
const (
	maxUKI    = 1 << 30
	maxLoader = 16 << 20
	maxOthers = 16 << 20
	maxConf   = 64 << 10
)

// ESP is the content of an EFI system partition as Write made it.
type ESP struct {
	// UKI and Loader are its one unified kernel image and its boot loader.
	UKI, Loader []byte
	// Enroll has the boot loader enrol keys; nil where it does not.
	Enroll *Enrolment
	// Files are all other files by their path, without the loader's configuration: this medium's choice of a node, a
	// bundle.
	Files map[string][]byte
}

// ReadKernel reads the kernel of an ISO that Inspect has taken apart: at its own length, where the UKI has it padded.
func (i *Info) ReadKernel(r io.ReaderAt) ([]byte, error) {
	if i.ISO == nil {
		return nil, errors.New("read kernel: the image is not an ISO")
	}
	f, ok := iso.Find(i.ISO.Files, isoKernel)
	if !ok || f.Size > maxUKI {
		return nil, fmt.Errorf("read kernel: the ISO has no %s of at most %d bytes", isoKernel, maxUKI)
	}
	data := make([]byte, f.Size)
	if _, err := r.ReadAt(data, f.Sector*iso.SectorSize); err != nil {
		return nil, fmt.Errorf("read kernel: %w", err)
	}
	return data, nil
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
	var conf []byte
	for _, file := range list {
		switch {
		case strings.EqualFold(file.Path, systemdBootPath):
		case file.Path == loaderPath:
			conf, err = readBounded(file, maxConf)
		case strings.EqualFold(file.Path, bootPath):
			out.Loader, err = readBounded(file, maxLoader)
		case isUKI(file.Path) && out.UKI != nil:
			return nil, errors.New("it has more than one unified kernel image, so it is the disk of a machine")
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
	out.Enroll, err = readEnrolment(conf, out.Files)
	return out, err
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

// ESP is the EFI system partition, or nil.
func (i *Info) ESP() *Partition { return i.partition(TypeESP, "") }

// HasSlots tells whether a disk image has the layout that Write gives it for these sizes.
func (i *Info) HasSlots(s Slots) bool {
	s, err := s.withDefaults()
	if err != nil {
		return false
	}
	parts, size := layOut(s, i.RootHash, i.ClusterHash)
	return size == i.Size && slices.Equal(parts, i.Partitions)
}
