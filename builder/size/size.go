// Package size tells what takes the room of an image: the bytes as they are stored, compressed, by package, payload,
// directory and file.
//
// A block belongs to the first file that has it in the order of a walk; a block that holds the ends of several files is
// divided between them by their lengths. So each byte is counted once, and the sums are those of the image.
package size

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"spore/builder/rootfs"
	"spore/builder/squashfs"
	"spore/builder/tree"
	"spore/builder/unsquash"
)

// A squashfs with flagOptions has the options of its compressor behind the superblock; zstd's are one number in a
// metadata block of its own (squashfs_fs.h, squashfs_comp_opts).
const (
	flagOptions = 0x0400
	optionsSize = 6
)

// Item is something that takes room.
type Item struct {
	Name string `json:"name"`
	// Bytes is what is stored, Size what that is uncompressed, duplicates included.
	Bytes int64 `json:"bytes"`
	Size  int64 `json:"size"`
	Files int   `json:"files"`
}

// Part is a part of an image that is no file of a root.
type Part struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Root divides the squashfs of a root. Data, Metadata, Unused and Padding are together Bytes.
type Root struct {
	Bytes int64 `json:"bytes"`
	// Data is what the blocks of files take, Metadata the tables of names, owners and places.
	Data     int64 `json:"data"`
	Metadata int64 `json:"metadata"`
	// Unused is in blocks that no file has, Padding the rest of the last block of the hash tree.
	Unused  int64 `json:"unused"`
	Padding int64 `json:"padding"`
	// Size is the sum of the lengths of all files, each name of a hard link counted once.
	Size int64 `json:"size"`
	// Duplicates are files whose data another file has already; Bytes is what they would take.
	Duplicates Item `json:"duplicates"`
	// Packages, Payloads, Own and Directories each have all of Data. Own is what the build lays in and makes.
	Packages    []Item `json:"packages"`
	Payloads    []Item `json:"payloads"`
	Own         []Item `json:"own"`
	Directories []Item `json:"directories"`
	Files       []Item `json:"files"`
}

// Report tells of one image. The sizes of its Parts are together Bytes.
type Report struct {
	Image  string `json:"image"`
	Format string `json:"format"`
	Bytes  int64  `json:"bytes"`
	Parts  []Part `json:"parts"`
	// UKI divides the largest part of the ESP by its sections.
	UKI  []Part `json:"uki"`
	Root Root   `json:"root"`
}

// Of measures an image.
func Of(i *rootfs.Image) (*Report, error) {
	r := &Report{Image: i.Name, Format: i.Format}
	r.Root = root(i)
	r.Parts = []Part{{"root", i.Root.Size}, {"hash tree of the root", i.Root.HashSize}}
	if i.Root.IndexSize > 0 {
		r.Parts = append(r.Parts, Part{"index of the root's pieces", i.Root.IndexSize})
	}
	r.Parts = append(r.Parts, Part{"cluster part", i.Cluster.Size}, Part{"hash tree of the cluster part", i.Cluster.HashSize}, Part{"UKI", i.UKISize})
	files, err := i.ESP()
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if !i.IsUKI(f) {
			r.Parts = append(r.Parts, Part{"ESP: " + f.Path, f.Size})
		}
	}
	others, err := i.Others()
	if err != nil {
		return nil, err
	}
	for _, o := range others {
		r.Parts = append(r.Parts, Part{o.Name, o.Size})
	}
	for _, p := range r.Parts {
		r.Bytes += p.Bytes
	}
	rest := i.UKISize
	for _, s := range i.UKI.Sections {
		n := int64(min(s.RawSize, s.VirtualSize))
		r.UKI = append(r.UKI, Part{s.Name, n})
		rest -= n
	}
	r.UKI = append(r.UKI, Part{"headers, padding and signature", rest})
	return r, nil
}

func root(i *rootfs.Image) Root {
	super := i.Root.Super
	out := Root{
		Bytes:    i.Root.Size,
		Metadata: int64(super.BytesUsed-super.InodeTable) + squashfs.SuperblockSize,
		Padding:  i.Root.Size - int64(super.BytesUsed),
	}
	if super.Flags&flagOptions != 0 {
		out.Metadata += optionsSize
	}
	stored, duplicate := Stored(i.Root.Image)
	byKind := map[string]map[string]*Item{"package": {}, "payload": {}, "own": {}}
	byDir := map[string]*Item{}
	inodes := map[uint32]bool{}
	for n := range i.Root.Entries {
		e := &i.Root.Entries[n]
		if e.Type != tree.Regular || inodes[e.Inode] {
			continue
		}
		inodes[e.Inode] = true
		item := Item{e.Path, stored[n], e.Size, 1}
		out.Data += item.Bytes
		out.Size += item.Size
		if duplicate[n] > 0 {
			out.Duplicates.add(Item{"", duplicate[n], e.Size, 1})
		}
		kind, name := "own", "unknown"
		if i.Origins != nil {
			kind, name = owner(i.Origins[n])
		}
		add(byKind[kind], name, item)
		add(byDir, directory(e.Path), item)
		out.Files = append(out.Files, item)
	}
	out.Unused = out.Bytes - out.Data - out.Metadata - out.Padding
	out.Duplicates.Name = "stored once"
	out.Packages, out.Payloads, out.Own = list(byKind["package"]), list(byKind["payload"]), list(byKind["own"])
	out.Directories = list(byDir)
	slices.SortStableFunc(out.Files, larger)
	return out
}

// owner is who a file belongs to, by its origin.
func owner(origin string) (kind, name string) {
	scheme, name, _ := strings.Cut(origin, ":")
	switch scheme {
	case "deb":
		name, _, _ = strings.Cut(name, "_")
		return "package", name
	case "payload":
		return "payload", name
	case "configuration":
		if program, ok := strings.CutSuffix(name, ".yaml"); ok && strings.HasPrefix(name, "programs/") {
			return "payload", program
		}
		return "own", "of the configuration"
	case "step":
		return "own", "made by the build: " + name
	}
	return "own", scheme
}

// directory is a file's directory, three levels deep at most.
func directory(p string) string {
	dir := strings.Split(path.Dir(p), "/")
	if len(dir) > 4 {
		dir = dir[:4]
	}
	return cmp.Or(strings.Join(dir, "/"), "/")
}

func (i *Item) add(other Item) {
	i.Bytes += other.Bytes
	i.Size += other.Size
	i.Files += other.Files
}

func add(to map[string]*Item, name string, item Item) {
	if to[name] == nil {
		to[name] = &Item{Name: name}
	}
	to[name].add(item)
}

func list(of map[string]*Item) []Item {
	out := make([]Item, 0, len(of))
	for _, i := range of {
		out = append(out, *i)
	}
	slices.SortFunc(out, func(a, b Item) int { return cmp.Or(larger(a, b), strings.Compare(a.Name, b.Name)) })
	return out
}

func larger(a, b Item) int { return cmp.Compare(b.Bytes, a.Bytes) }

// Stored gives, for each entry of an image, the bytes that its data takes, and of a file whose data another one has,
// what it would take. Names of one inode have the same values.
func Stored(img *unsquash.Image) (stored, duplicate []int64) {
	stored, duplicate = make([]int64, len(img.Entries)), make([]int64, len(img.Entries))
	ends := newEnds(img)
	blocks := map[int64]bool{}
	inodes := map[uint32]int{}
	for n := range img.Entries {
		e := &img.Entries[n]
		if first, ok := inodes[e.Inode]; ok {
			stored[n], duplicate[n] = stored[first], duplicate[first]
			continue
		}
		inodes[e.Inode] = n
		for _, b := range e.Blocks {
			switch {
			case b.Size == 0: // Zeros take no room, and the block behind them has the same offset.
			case blocks[b.Offset]:
				duplicate[n] += b.Size
			default:
				blocks[b.Offset] = true
				stored[n] += b.Size
			}
		}
		if share, first := ends.take(e, img.Super.BlockSize); first {
			stored[n] += share
		} else {
			duplicate[n] += share
		}
	}
	return stored, duplicate
}
