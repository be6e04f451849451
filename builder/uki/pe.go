package uki

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Offsets and sizes of PE32+ (Microsoft's PE Format, "Optional Header Standard Fields" and following).
const (
	dosHeaderSize  = 64
	dosNewHeader   = 0x3c // where the offset of the PE signature is
	signatureSize  = 4
	coffHeaderSize = 20
	sectionSize    = 40
	magicPE32Plus  = 0x20b
	machineAMD64   = 0x8664

	// from the beginning of the COFF header
	coffSections   = 2
	coffSymbols    = 8
	coffSymbolNum  = 12
	coffOptionSize = 16

	// from the beginning of the optional header
	optEntry            = 16
	optInitializedData  = 8
	optSectionAlignment = 32
	optFileAlignment    = 36
	optSizeOfImage      = 56
	optSizeOfHeaders    = 60
	optCheckSum         = 64
	optDirectories      = 108 // NumberOfRvaAndSizes
	optMinSize          = 112 // without data directories
)

// Bounds on what is read from outside.
const (
	maxSections   = 96 // the Windows loader's limit
	maxHeaders    = 64 << 10
	directoryCert = 4 // the attribute certificate table, which holds signatures
)

// Section flags.
const (
	flagCode        = 0x00000020
	flagInitialized = 0x00000040
	flagRead        = 0x40000000
)

// Section is a row of a PE file's section table.
type Section struct {
	// Name is up to eight bytes: ".linux".
	Name string `json:"name"`
	// VirtualAddress is where the section is in memory, relative to the image; VirtualSize is its length there.
	VirtualAddress uint32 `json:"virtualAddress"`
	VirtualSize    uint32 `json:"virtualSize"`
	// Offset and RawSize tell where its bytes are in the file.
	Offset  uint32 `json:"offset"`
	RawSize uint32 `json:"rawSize"`
	// Flags are its characteristics.
	Flags uint32 `json:"flags"`
}

// size is the number of bytes that are content: sections are padded in the file, or grow in memory.
func (s Section) size() uint32 { return min(s.VirtualSize, s.RawSize) }

// header is the part of a PE file before its sections.
type header struct {
	raw      []byte // SizeOfHeaders bytes, or fewer when the file is shorter
	coff     int    // offset of the COFF header
	opt      int    // offset of the optional header
	table    int    // offset of the section table
	sections []Section
}

func (h *header) u16(off int) uint16       { return binary.LittleEndian.Uint16(h.raw[off:]) }
func (h *header) u32(off int) uint32       { return binary.LittleEndian.Uint32(h.raw[off:]) }
func (h *header) put16(off int, v uint16)  { binary.LittleEndian.PutUint16(h.raw[off:], v) }
func (h *header) put32(off int, v uint32)  { binary.LittleEndian.PutUint32(h.raw[off:], v) }
func (h *header) sectionAlignment() uint32 { return h.u32(h.opt + optSectionAlignment) }
func (h *header) fileAlignment() uint32    { return h.u32(h.opt + optFileAlignment) }
func (h *header) sizeOfImage() uint32      { return h.u32(h.opt + optSizeOfImage) }
func (h *header) sizeOfHeaders() uint32    { return h.u32(h.opt + optSizeOfHeaders) }

// readHeader reads the header of a PE32+ file for x86-64.
func readHeader(r io.ReaderAt) (*header, error) {
	dos := make([]byte, dosHeaderSize)
	if _, err := r.ReadAt(dos, 0); err != nil {
		return nil, notPE(err)
	}
	if string(dos[:2]) != "MZ" {
		return nil, errors.New("not a PE file: it does not begin with MZ")
	}
	at := binary.LittleEndian.Uint32(dos[dosNewHeader:])
	if at > maxHeaders {
		return nil, errors.New("not a PE file: its header is said to be too far inside")
	}
	fixed := make([]byte, signatureSize+coffHeaderSize+optMinSize)
	if _, err := r.ReadAt(fixed, int64(at)); err != nil {
		return nil, notPE(err)
	}
	if string(fixed[:4]) != "PE\x00\x00" {
		return nil, errors.New("not a PE file: no PE signature")
	}
	h := &header{raw: fixed, coff: signatureSize, opt: signatureSize + coffHeaderSize}
	if m := h.u16(h.coff); m != machineAMD64 {
		return nil, fmt.Errorf("a PE file for machine type %#x, not for x86-64", m)
	}
	if m := h.u16(h.opt); m != magicPE32Plus {
		return nil, fmt.Errorf("a PE file of kind %#x, not PE32+", m)
	}
	optSize, n, size := int(h.u16(h.coff+coffOptionSize)), int(h.u16(h.coff+coffSections)), h.sizeOfHeaders()
	end := int(at) + signatureSize + coffHeaderSize + optSize + n*sectionSize
	if optSize < optMinSize || n > maxSections || size > maxHeaders || uint32(end) > size {
		return nil, errors.New("a PE file whose header is inconsistent")
	}
	h.raw = make([]byte, size)
	if _, err := r.ReadAt(h.raw, 0); err != nil {
		return nil, notPE(err)
	}
	h.coff += int(at)
	h.opt += int(at)
	h.table = h.opt + optSize
	for i := range n {
		h.sections = append(h.sections, parseSection(h.raw[h.table+i*sectionSize:]))
	}
	return h, nil
}

func notPE(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("not a PE file: it is too short")
	}
	return err
}

func parseSection(b []byte) Section {
	le := binary.LittleEndian
	name := b[:8]
	for len(name) > 0 && name[len(name)-1] == 0 {
		name = name[:len(name)-1]
	}
	return Section{
		Name:        string(name),
		VirtualSize: le.Uint32(b[8:]), VirtualAddress: le.Uint32(b[12:]),
		RawSize: le.Uint32(b[16:]), Offset: le.Uint32(b[20:]),
		Flags: le.Uint32(b[36:]),
	}
}

func (s Section) encode(b []byte) {
	le := binary.LittleEndian
	clear(b[:sectionSize])
	copy(b[:8], s.Name)
	le.PutUint32(b[8:], s.VirtualSize)
	le.PutUint32(b[12:], s.VirtualAddress)
	le.PutUint32(b[16:], s.RawSize)
	le.PutUint32(b[20:], s.Offset)
	le.PutUint32(b[36:], s.Flags)
}

func roundUp(n, align uint32) uint32 { return (n + align - 1) &^ (align - 1) }
