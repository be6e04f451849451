package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"spore/builder/uki"
	"spore/cluster/answers"
	"spore/storage/espfiles"
	"spore/storage/fat"
	"spore/storage/pieces"
	"spore/storage/verity"
)

// Info is what Inspect finds in an image.
type Info struct {
	// Size is the length of the image in bytes, DiskUUID the identity of its partition table.
	Size       int64       `json:"size"`
	DiskUUID   string      `json:"diskUUID"`
	Partitions []Partition `json:"partitions"`
	// UKIs are in the order in which systemd-boot prefers them by name: the last is the newest.
	UKIs []UKI `json:"ukis"`
	// Node is the medium's choice of a node, or empty.
	Node string `json:"node,omitempty"`
	// Answers is the answer file by which the machine installs itself, as it lies on the medium (package answers).
	Answers []byte `json:"-"`
	// RootHash and ClusterHash are those of the last UKI's command line.
	RootHash    string `json:"rootHash"`
	ClusterHash string `json:"clusterHash"`
	// Root and Cluster tell where the filesystems lie that belong to these hashes.
	Root    *Filesystem `json:"root,omitempty"`
	Cluster *Filesystem `json:"cluster,omitempty"`
	// ISO is set when the image is a hybrid ISO.
	ISO *ISO `json:"iso,omitempty"`
	// Problems are faults that do not hide the rest, in plain words.
	Problems []string `json:"problems,omitempty"`
}

// UKI is a unified kernel image on the ESP.
type UKI struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	uki.Info
}

// Filesystem is a squashfs inside the image, in bytes from the image's beginning.
type Filesystem struct {
	Offset int64 `json:"offset"`
	Size   int64 `json:"size"`
	// HashOffset is where the verity superblock lies: behind the data, or at the beginning of a partition of its own.
	HashOffset int64 `json:"hashOffset"`
	// IndexOffset is where the index of the root's pieces lies (package pieces), behind the hash tree, and IndexSize
	// its length with its padding; both are 0 where there is none. Pieces counts what it lists.
	IndexOffset int64 `json:"indexOffset,omitempty"`
	IndexSize   int64 `json:"indexSize,omitempty"`
	Pieces      int   `json:"pieces,omitempty"`
}

// Bounds of what is listed.
const maxUKIs = 64

// squashfs and verity superblocks (Documentation/filesystems/squashfs.rst; cryptsetup's on-disk format of veritysetup).
const (
	squashfsMagic = "hsqs"
	squashfsSuper = 96
	verityMagic   = "verity\x00\x00"
	verityBlock   = 4096
)

// Inspect takes an image apart. It trusts nothing in it and checks no hash tree: the kernel does that on every read.
func Inspect(r io.ReaderAt, size int64) (*Info, error) {
	info := &Info{Size: size}
	t, err := info.readTables(r)
	if err != nil {
		return nil, fmt.Errorf("inspect image: %w", err)
	}
	info.DiskUUID, info.Partitions = t.guid, t.partitions
	esp := info.partition(TypeESP, "")
	if esp == nil {
		return nil, errors.New("inspect image: it has no EFI system partition")
	}
	if err := info.readESP(io.NewSectionReader(r, esp.Offset, esp.Size), esp.Size); err != nil {
		return nil, fmt.Errorf("inspect image: ESP: %w", err)
	}
	info.findFilesystems(r)
	info.readISO(r)
	return info, nil
}

// readTables takes the primary GPT, or the backup with a note.
func (i *Info) readTables(r io.ReaderAt) (*table, error) {
	last := i.Size/sectorSize - 1
	if last < 1 {
		return nil, errors.New("it is too short for a disk image")
	}
	primary, err := readTable(r, 1, i.Size)
	backup, backupErr := readTable(r, last, i.Size)
	switch {
	case err != nil && backupErr != nil:
		return nil, fmt.Errorf("it has no partition table: %w", err)
	case err != nil:
		i.note("primary partition table: %v; the backup is used", err)
		return backup, nil
	case backupErr != nil:
		i.note("backup partition table: %v", backupErr)
	case primary.guid != backup.guid || !slices.Equal(primary.partitions, backup.partitions):
		i.note("the two partition tables differ; the primary is used")
	}
	return primary, nil
}

func (i *Info) note(format string, args ...any) {
	i.Problems = append(i.Problems, fmt.Sprintf(format, args...))
}

// partition finds a partition by its type and, unless empty, its UUID.
func (i *Info) partition(kind, uuid string) *Partition {
	for n := range i.Partitions {
		if p := &i.Partitions[n]; p.Type == kind && (uuid == "" || p.UUID == uuid) {
			return p
		}
	}
	return nil
}

func (i *Info) readESP(r io.ReaderAt, size int64) error {
	f, err := fat.Open(r, size)
	if err != nil {
		return err
	}
	entries, err := f.List(ukiDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	slices.SortFunc(entries, func(a, b fat.Entry) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range entries {
		if e.Dir || !strings.HasSuffix(strings.ToLower(e.Name), ".efi") {
			continue
		}
		if len(i.UKIs) == maxUKIs {
			i.note("the ESP has more than %d UKIs; the others are not listed", maxUKIs)
			break
		}
		content, err := f.Open(e)
		if err != nil {
			i.note("%s/%s: %v", ukiDir, e.Name, err)
			continue
		}
		u, err := uki.Inspect(content)
		if err != nil {
			i.note("%s/%s: %v", ukiDir, e.Name, err)
			continue
		}
		i.UKIs = append(i.UKIs, UKI{Path: ukiDir + "/" + e.Name, Size: e.Size, Info: *u})
	}
	if len(i.UKIs) == 0 {
		i.note("the ESP has no unified kernel image")
	}
	if err := i.readNode(f); err != nil {
		return err
	}
	i.Answers, err = readSmall(f, espfiles.Answers, answers.MaxSize)
	return err
}

// readNode reads the choice of a node, if there is one.
func (i *Info) readNode(f *fat.FS) error {
	text, err := readSmall(f, espfiles.Node, maxNode+1)
	if err != nil {
		return err
	}
	i.Node = strings.TrimSpace(string(text))
	if len(i.Node) > maxNode {
		i.note("%s: longer than a node's name", espfiles.Node)
		i.Node = ""
	}
	return nil
}

// readSmall reads a file of an ESP; nil where there is none. Of one that is larger than limit, it is one byte more.
func readSmall(f *fat.FS, name string, limit int64) ([]byte, error) {
	entries, err := f.List(path.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e, ok := fat.Find(entries, path.Base(name))
	if !ok || e.Dir {
		return nil, nil
	}
	content, err := f.Open(e)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(content, limit+1))
}

// findFilesystems looks for the partitions that the hashes of the newest UKI name.
func (i *Info) findFilesystems(r io.ReaderAt) {
	if len(i.UKIs) == 0 {
		return
	}
	cmdline := i.UKIs[len(i.UKIs)-1].Cmdline
	i.RootHash, _ = uki.Param(cmdline, "roothash")
	i.ClusterHash, _ = uki.Param(cmdline, "spore.clusterhash")
	for _, v := range []struct {
		what, hash, kind string
		into             **Filesystem
	}{
		{"root", i.RootHash, TypeRoot, &i.Root},
		{"cluster", i.ClusterHash, TypeCluster, &i.Cluster},
	} {
		if err := checkHash(v.what, v.hash); err != nil {
			i.note("the UKI's command line names no usable %s hash", v.what)
			continue
		}
		uuid, treeUUID := HashUUIDs(v.hash)
		p := i.partition(v.kind, uuid)
		if p == nil {
			i.note("no partition belongs to the %s hash of the UKI's command line", v.what)
			continue
		}
		fsys, err := readFilesystem(r, *p)
		if err != nil {
			i.note("%s: %v", p.Name, err)
			continue
		}
		if tree := i.partition(TypeVerity, treeUUID); v.kind == TypeRoot && tree != nil {
			fsys.HashOffset = tree.Offset
		}
		if err := checkVerity(r, fsys.HashOffset); err != nil {
			i.note("%s: %v", p.Name, err)
			continue
		}
		if v.kind == TypeRoot {
			if err := fsys.readIndex(r); err != nil {
				i.note("%s: %v", p.Name, err)
			}
		}
		*v.into = fsys
	}
}

// readFilesystem reads the size of the squashfs at the beginning of a partition.
func readFilesystem(r io.ReaderAt, p Partition) (*Filesystem, error) {
	super := make([]byte, squashfsSuper)
	if _, err := r.ReadAt(super, p.Offset); err != nil {
		return nil, fmt.Errorf("read squashfs superblock: %w", err)
	}
	if string(super[:4]) != squashfsMagic {
		return nil, errors.New("it holds no squashfs")
	}
	used := binary.LittleEndian.Uint64(super[40:])
	if used < squashfsSuper || used > uint64(p.Size) {
		return nil, fmt.Errorf("its squashfs says that it has %d bytes, the partition has %d", used, p.Size)
	}
	padded := (int64(used) + verityBlock - 1) / verityBlock * verityBlock
	return &Filesystem{Offset: p.Offset, Size: int64(used), HashOffset: p.Offset + padded}, nil
}

// readIndex looks for an index of pieces behind the hash tree. An older image has none.
func (f *Filesystem) readIndex(r io.ReaderAt) error {
	at := f.HashOffset + verity.HashSize((f.Size+verityBlock-1)/verityBlock*verityBlock)
	if pieces.SizeAt(r, at) == 0 {
		return nil
	}
	x, err := pieces.ReadAt(r, at)
	if err != nil {
		return err
	}
	f.IndexOffset, f.IndexSize, f.Pieces = at, x.BlocksSize(), len(x)
	return nil
}

func checkVerity(r io.ReaderAt, off int64) error {
	magic := make([]byte, len(verityMagic))
	if _, err := r.ReadAt(magic, off); err != nil {
		return fmt.Errorf("read verity superblock: %w", err)
	}
	if string(magic) != verityMagic {
		return fmt.Errorf("no hash tree where it should be, at byte %d", off)
	}
	return nil
}
