package flash

import (
	"encoding/binary"
	"io"

	"spore/storage/gpt"
	"spore/storage/pieces"
)

// Superblocks of squashfs (Documentation/filesystems/squashfs.rst) and of hash trees (cryptsetup's on-disk format of
// veritysetup), and the only block size that we make.
const (
	squashfsMagic = "hsqs"
	squashfsSuper = 96
	verityMagic   = "verity\x00\x00"
	veritySuper   = 512
	block         = 4096
	hashesInBlock = block / 32
)

// Used is how much of a partition of a type and size has a meaning: a filesystem, its hash tree and the index of its
// pieces say where they end, and nobody ever reads what is behind. Anything else counts whole.
func Used(r io.ReaderAt, kind gpt.GUID, size int64) int64 {
	if kind != typeRoot && kind != typeVerity && kind != typeCluster {
		return size
	}
	end := int64(0)
	super := make([]byte, squashfsSuper)
	if _, err := r.ReadAt(super, 0); err == nil && string(super[:4]) == squashfsMagic {
		n := binary.LittleEndian.Uint64(super[40:])
		if n > uint64(size) {
			return size
		}
		end = (int64(n) + block - 1) / block * block
	}
	if tree, ok := treeSize(r, end); ok {
		end += tree
		end += pieces.SizeAt(r, end)
	}
	if end == 0 || end > size {
		return size
	}
	return end
}

// treeSize is the size of the hash tree at a place, with its superblock.
func treeSize(r io.ReaderAt, at int64) (int64, bool) {
	b := make([]byte, veritySuper)
	if _, err := r.ReadAt(b, at); err != nil || string(b[:8]) != verityMagic {
		return 0, false
	}
	le := binary.LittleEndian
	blocks := le.Uint64(b[72:])
	if le.Uint32(b[64:]) != block || le.Uint32(b[68:]) != block || blocks == 0 || blocks > 1<<40 {
		return 0, false
	}
	size := int64(1)
	for n := int64(blocks); n > 1; {
		n = (n + hashesInBlock - 1) / hashesInBlock
		size += n
	}
	return size * block, true
}
