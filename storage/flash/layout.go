package flash

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"spore/storage/espfiles"
	"spore/storage/fat"
	"spore/storage/gpt"
)

// Types of partitions (Discoverable Partitions Specification; cluster is ours).
var (
	typeRoot    = gpt.MustParseGUID("4f68bce3-e8cd-4db1-96e7-fbcaf984b709")
	typeVerity  = gpt.MustParseGUID("2c7357ed-ebd2-46d9-aec1-23d437ec2bf5")
	typeCluster = gpt.MustParseGUID("6b0d4b7e-5c0a-4e0e-9d55-73706f726500")
	typeState   = gpt.MustParseGUID("4d21b016-b534-45c2-a9fb-5c16e091fd2d")
)

// seedPath is systemd-boot's own and no two machines may have the same.
const seedPath = "/loader/random-seed"

const espLabel = "SPORE ESP"

// maxImageParts bounds the partitions of an image.
const maxImageParts = 32

// Layout is what a disk is to hold.
type Layout struct {
	// Table are the partitions, in bytes.
	Table gpt.Table
	// Extents are the content, sorted and beside each other. What is between them is left as it is.
	Extents []Extent
	// MBR is the first sector where it has more than a protective entry: the boot code of a hybrid image.
	MBR []byte
	// SectorSize is the only size of sectors for which the content is made; 0 when any will do.
	SectorSize int
}

// Extent is content at a place of the disk.
type Extent struct {
	// At and Size are in bytes.
	At, Size int64
	Content  io.ReaderAt
}

// Choice is what a medium says about the machine that is booted from it.
type Choice struct {
	// Node is the node that it becomes; empty leaves that to the machine.
	Node string
	// Bundle is the node's bundle of secrets, or empty.
	Bundle []byte
	// Answers is an answer file by which a machine installs itself, or empty.
	Answers []byte
	// Installed is the mark of the answer file by which the disk came about, or empty.
	Installed []byte
	// Time is the date of the files.
	Time time.Time
}

// Image is the layout of an image in size bytes: a disk image, or a hybrid ISO image. Both have a GPT with 512-byte sectors.
func Image(r io.ReaderAt, size int64) (Layout, error) {
	t, err := gpt.Read(r, size, 512)
	switch {
	case errors.Is(err, gpt.ErrNone):
		return Layout{}, errors.New("it is not a disk image: it has no partition table; name spore.img or spore.iso of a build's folder")
	case err != nil:
		return Layout{}, fmt.Errorf("it is damaged: %w; build or copy it again", err)
	case t.Backup:
		return Layout{}, errors.New("it is damaged: its first partition table is not sound; build or copy it again")
	case len(t.Partitions) > maxImageParts:
		return Layout{}, fmt.Errorf("it has %d partitions, and an image has at most %d", len(t.Partitions), maxImageParts)
	}
	l := Layout{Table: t, SectorSize: 512}
	if isISO(r) {
		return l.hybrid(r, size)
	}
	if err := l.needs(gpt.ESP, typeRoot, typeVerity, typeCluster); err != nil {
		return Layout{}, err
	}
	for _, p := range sorted(t.Partitions) {
		part := io.NewSectionReader(r, p.Start, p.Size)
		l.Extents = append(l.Extents, Extent{p.Start, Used(part, p.Type, p.Size), part})
	}
	return l, nil
}

// isISO looks for the first volume descriptor (ECMA-119, section 8.1).
func isISO(r io.ReaderAt) bool {
	b := make([]byte, 5)
	n, _ := r.ReadAt(b, 16*2048+1)
	return n == len(b) && string(b) == "CD001"
}

// hybrid takes an ISO image as it is, but for the partition table and its backup: those are made for the disk.
func (l Layout) hybrid(r io.ReaderAt, size int64) (Layout, error) {
	if err := l.needs(gpt.ESP); err != nil {
		return Layout{}, err
	}
	l.MBR = make([]byte, 512)
	if _, err := r.ReadAt(l.MBR, 0); err != nil {
		return Layout{}, err
	}
	end := size - size%512
	if at := l.Table.Alternate; at > size-64<<10 && at < size {
		end = at - 32*512 // The backup's entries.
	}
	for _, p := range l.Table.Partitions {
		end = max(end, p.Start+p.Size)
	}
	// In pieces, so that the ESP can be made anew.
	from := gpt.Reserved(512)
	for _, p := range sorted(l.Table.Partitions) {
		if p.Type == gpt.ESP && p.Start > from {
			l.Extents = append(l.Extents, extentOf(r, from, p.Start), extentOf(r, p.Start, p.Start+p.Size))
			from = p.Start + p.Size
		}
	}
	if from < end {
		l.Extents = append(l.Extents, extentOf(r, from, end))
	}
	return l, nil
}

// extentOf is what r has between two places, to stay there.
func extentOf(r io.ReaderAt, from, to int64) Extent {
	return Extent{from, to - from, io.NewSectionReader(r, from, to-from)}
}

// needs makes sure that there is a partition of each type.
func (l Layout) needs(types ...gpt.GUID) error {
	for _, want := range types {
		if !slices.ContainsFunc(l.Table.Partitions, func(p gpt.Partition) bool { return p.Type == want }) {
			return fmt.Errorf("it is not an image of Spore: it has no partition of the type %s", want)
		}
	}
	return nil
}

// With puts the choice of a node on the ESP, for a disk with sectors of a size. The rest of the ESP stays as it is.
func (l Layout) With(c Choice, sectorSize int) (Layout, error) {
	i := slices.IndexFunc(l.Table.Partitions, func(p gpt.Partition) bool { return p.Type == gpt.ESP })
	j := -1
	if i >= 0 {
		j = slices.IndexFunc(l.Extents, func(e Extent) bool { return e.At == l.Table.Partitions[i].Start })
	}
	if j < 0 {
		return Layout{}, errors.New("the image has no ESP that can be changed: take the disk image (spore.img) instead")
	}
	from := l.Extents[j]
	content, err := Choose(from.Content, from.Size, from.At, c, sectorSize)
	if err != nil {
		return Layout{}, err
	}
	l.Extents = slices.Clone(l.Extents)
	l.Extents[j].Content = content
	l.SectorSize = sectorSize
	return l, nil
}

// Choose makes the ESP of size bytes at a place of a disk anew from the files of another, with another choice of a node.
// What the other chose is left out, as is the random seed of its boot loader.
func Choose(from io.ReaderAt, size, at int64, c Choice, sectorSize int) (io.ReaderAt, error) {
	fsys, err := fat.Open(from, size)
	if err != nil {
		return nil, fmt.Errorf("ESP: %w", err)
	}
	files, err := fsys.Walk()
	if err != nil {
		return nil, fmt.Errorf("ESP: %w", err)
	}
	return NewESP(files, size, at, c, sectorSize)
}

// NewESP makes an ESP of size bytes at a place of a disk with the files and a choice.
func NewESP(files []fat.File, size, at int64, c Choice, sectorSize int) (io.ReaderAt, error) {
	files = slices.DeleteFunc(slices.Clone(files), func(f fat.File) bool {
		return slices.ContainsFunc([]string{espfiles.Node, espfiles.ChosenHere, espfiles.Bundle, espfiles.Answers, espfiles.Installed,
			seedPath},
			func(s string) bool { return strings.EqualFold(s, f.Path) })
	})
	for name, data := range map[string][]byte{
		espfiles.Node: []byte(c.Node), espfiles.Bundle: c.Bundle, espfiles.Answers: c.Answers, espfiles.Installed: c.Installed,
	} {
		if len(data) > 0 {
			files = append(files, fat.File{Path: name, Size: int64(len(data)), Content: bytes.NewReader(data)})
		}
	}
	slices.SortFunc(files, func(a, b fat.File) int { return strings.Compare(a.Path, b.Path) })
	img, err := fat.New(fat.Options{Size: size, Offset: at, SectorSize: sectorSize, Label: espLabel, Time: c.Time, Files: files})
	if err != nil {
		return nil, fmt.Errorf("ESP: %w", err)
	}
	return img, nil
}

func sorted(parts []gpt.Partition) []gpt.Partition {
	return slices.SortedFunc(slices.Values(parts), func(a, b gpt.Partition) int { return int(min(max(a.Start-b.Start, -1), 1)) })
}
