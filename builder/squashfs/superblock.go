package squashfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// Sizes and values of squashfs_fs.h.
const (
	// SuperblockSize is the length of a superblock in bytes.
	SuperblockSize = 96
	// DefaultBlockSize is the block size of packs and images in bytes. Measured on a trixie root of 5,704 inodes, with the
	// kernel's CPU time for starting a dozen of its programs from a fresh mount (10 runs):
	//
	//	 64 KiB  94.9 MB  145 ms
	//	128 KiB  93.7 MB  128 ms
	//	256 KiB  92.2 MB  138 ms
	//	  1 MiB  91.2 MB  222 ms
	//
	// A page fault decompresses a whole block, so larger blocks cost each boot more than they save once.
	DefaultBlockSize = 128 << 10

	magic           = 0x73717368
	versionMajor    = 4
	compressionZstd = 6
	minBlockSize    = 4 << 10
	maxBlockSize    = 1 << 20
	metadataSize    = 8 << 10
	invalidBlock    = ^uint64(0)
	invalidFragment = ^uint32(0)
	invalidXattr    = ^uint32(0)
	storedBlock     = 1 << 24 // of a data or fragment block's size: not compressed
	storedMetadata  = 1 << 15 // of a metadata block's length: not compressed
	padTo           = 4 << 10 // of the image, as loop devices and dm-verity want it

	flagNoFragments = 0x0010
	flagDuplicates  = 0x0040
	flagExportable  = 0x0080
	flagNoXattrs    = 0x0200
	flagOptions     = 0x0400
)

// Superblock is the head of an image. The starts of tables are byte offsets from it; a table that is not there starts at
// 2^64-1.
type Superblock struct {
	Inodes         uint32
	MakeTime       uint32 // seconds since the epoch
	BlockSize      uint32
	Fragments      uint32
	Compression    uint16
	Flags          uint16
	IDs            uint16
	RootInode      uint64
	BytesUsed      uint64
	IDTable        uint64
	XattrTable     uint64
	InodeTable     uint64
	DirectoryTable uint64
	FragmentTable  uint64
	ExportTable    uint64
}

func (s Superblock) encode() []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(make([]byte, 0, SuperblockSize), magic)
	b = le.AppendUint32(b, s.Inodes)
	b = le.AppendUint32(b, s.MakeTime)
	b = le.AppendUint32(b, s.BlockSize)
	b = le.AppendUint32(b, s.Fragments)
	b = le.AppendUint16(b, s.Compression)
	b = le.AppendUint16(b, uint16(bits.TrailingZeros32(s.BlockSize)))
	b = le.AppendUint16(b, s.Flags)
	b = le.AppendUint16(b, s.IDs)
	b = le.AppendUint16(b, versionMajor)
	b = le.AppendUint16(b, 0)
	for _, v := range []uint64{s.RootInode, s.BytesUsed, s.IDTable, s.XattrTable, s.InodeTable, s.DirectoryTable, s.FragmentTable, s.ExportTable} {
		b = le.AppendUint64(b, v)
	}
	return b
}

// ParseSuperblock reads the head of an image and checks that its numbers fit together: an error says which do not. It
// knows squashfs 4.0 of every compressor. It does not see how long the image really is; compare BytesUsed with that.
func ParseSuperblock(b []byte) (Superblock, error) {
	if len(b) < SuperblockSize {
		return Superblock{}, fmt.Errorf("squashfs superblock: %d bytes, want %d", len(b), SuperblockSize)
	}
	le := binary.LittleEndian
	if le.Uint32(b) != magic {
		return Superblock{}, errors.New("squashfs superblock: no squashfs magic")
	}
	if major, minor := le.Uint16(b[28:]), le.Uint16(b[30:]); major != versionMajor || minor != 0 {
		return Superblock{}, fmt.Errorf("squashfs superblock: version %d.%d, want 4.0", major, minor)
	}
	s := Superblock{
		Inodes: le.Uint32(b[4:]), MakeTime: le.Uint32(b[8:]), BlockSize: le.Uint32(b[12:]), Fragments: le.Uint32(b[16:]),
		Compression: le.Uint16(b[20:]), Flags: le.Uint16(b[24:]), IDs: le.Uint16(b[26:]),
		RootInode: le.Uint64(b[32:]), BytesUsed: le.Uint64(b[40:]), IDTable: le.Uint64(b[48:]), XattrTable: le.Uint64(b[56:]),
		InodeTable: le.Uint64(b[64:]), DirectoryTable: le.Uint64(b[72:]), FragmentTable: le.Uint64(b[80:]), ExportTable: le.Uint64(b[88:]),
	}
	if err := checkBlockSize(s.BlockSize); err != nil {
		return Superblock{}, fmt.Errorf("squashfs superblock: %w", err)
	}
	if log := le.Uint16(b[22:]); int(log) != bits.TrailingZeros32(s.BlockSize) {
		return Superblock{}, fmt.Errorf("squashfs superblock: block size %d with logarithm %d", s.BlockSize, log)
	}
	if s.Inodes == 0 || s.IDs == 0 {
		return Superblock{}, errors.New("squashfs superblock: no inodes or no ids")
	}
	if s.BytesUsed > 1<<62 {
		return Superblock{}, fmt.Errorf("squashfs superblock: impossible size of %d bytes", s.BytesUsed)
	}
	for _, t := range []struct {
		name     string
		at       uint64
		optional bool
	}{
		{"inode table", s.InodeTable, false}, {"directory table", s.DirectoryTable, false}, {"fragment table", s.FragmentTable, s.Fragments == 0},
		{"export table", s.ExportTable, true}, {"id table", s.IDTable, false}, {"xattr table", s.XattrTable, true},
	} {
		if t.optional && t.at == invalidBlock {
			continue
		}
		if t.at < SuperblockSize || t.at >= s.BytesUsed {
			return Superblock{}, fmt.Errorf("squashfs superblock: %s at %d, outside of the image of %d bytes", t.name, t.at, s.BytesUsed)
		}
	}
	if s.InodeTable >= s.DirectoryTable || s.RootInode>>16 >= s.DirectoryTable-s.InodeTable || s.RootInode&0xffff >= metadataSize {
		return Superblock{}, errors.New("squashfs superblock: inode and directory tables overlap, or the root inode is outside")
	}
	return s, nil
}

func checkBlockSize(n uint32) error {
	if n < minBlockSize || n > maxBlockSize || bits.OnesCount32(n) != 1 {
		return fmt.Errorf("block size %d is not a power of two from %d to %d", n, minBlockSize, maxBlockSize)
	}
	return nil
}
