// Package uki makes unified kernel images: one PE file for UEFI that holds systemd's EFI stub, the kernel, the initramfs
// and the kernel command line as sections (UAPI.5, Unified Kernel Image).
//
// It leaves out signatures (packages secureboot and pcr make them), addons, profiles, device trees and splash screens, and does
// not merge the .sbat section of the kernel into the stub's.
package uki

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"spore/builder/pechecksum"
)

// Options are the parts of a unified kernel image.
type Options struct {
	// Stub is systemd's linuxx64.efi.stub.
	Stub []byte
	// Kernel is a bzImage with an EFI stub.
	Kernel Content
	// Initrd is the initramfs, or nothing.
	Initrd Content
	// Cmdline is the kernel command line, ASCII and without NUL or line end.
	Cmdline string
	// OSRelease is the content of os-release(5); boot loaders show its PRETTY_NAME and sort by its VERSION_ID.
	OSRelease []byte
	// Uname is the kernel's release.
	Uname string
	// Microcode is an uncompressed cpio with processor microcode, or nothing.
	Microcode []byte
	// PCRPublicKey is the key, PEM, that PCRSignature is checked with. Machines are handed both; the key is measured into
	// PCR 11, its signature is not. Either may be empty.
	PCRPublicKey, PCRSignature []byte
}

// maxCmdline is the kernel's limit on x86 (COMMAND_LINE_SIZE), with its final NUL.
const maxCmdline = 2048

// part is a section that is added to the stub.
type part struct {
	name  string
	data  Content
	size  int64 // of data
	flags uint32
}

// parts lists the new sections in their order. .linux is last: kernels decompress in place, and what follows in memory
// would be written over (systemd#34578, #34583, #35851).
func (o Options) parts() ([]part, error) {
	if err := checkCmdline(o.Cmdline); err != nil {
		return nil, err
	}
	const data = flagInitialized | flagRead
	list := []part{
		{name: ".osrel", data: Bytes(o.OSRelease), flags: data},
		// Stubs before systemd 254 read up to a NUL, not up to the section's size.
		{name: ".cmdline", data: Bytes(append([]byte(o.Cmdline), 0)), flags: data},
		{name: ".uname", data: Bytes(o.Uname), flags: data},
		{name: ".ucode", data: Bytes(o.Microcode), flags: data},
		{name: ".pcrpkey", data: Bytes(o.PCRPublicKey), flags: data},
		{name: ".pcrsig", data: Bytes(o.PCRSignature), flags: data},
		{name: ".initrd", data: o.Initrd, flags: data},
		{name: ".linux", data: o.Kernel, flags: flagCode | flagRead},
	}
	kept := list[:0]
	for _, p := range list {
		if p.data == nil {
			continue
		}
		if p.size = p.data.Size(); p.size > 0 {
			kept = append(kept, p)
		}
	}
	if len(kept) == 0 || kept[len(kept)-1].name != ".linux" {
		return nil, errors.New("there is no kernel")
	}
	return kept, nil
}

func checkCmdline(s string) error {
	if len(s)+1 > maxCmdline {
		return fmt.Errorf("the kernel command line has %d bytes; the kernel takes %d", len(s), maxCmdline-1)
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return fmt.Errorf("the kernel command line has byte %#02x at offset %d; only printable ASCII is taken", s[i], i)
		}
	}
	return nil
}

// Build returns the image. The same options give the same bytes: the time in the header is that of the stub.
func Build(o Options) ([]byte, error) {
	out, err := build(o)
	if err != nil {
		return nil, fmt.Errorf("make unified kernel image: %w", err)
	}
	return out, nil
}

func build(o Options) ([]byte, error) {
	stub, err := readHeader(bytes.NewReader(o.Stub))
	if err != nil {
		return nil, fmt.Errorf("the stub is %w", err)
	}
	if err := checkStub(stub, uint64(len(o.Stub))); err != nil {
		return nil, fmt.Errorf("the stub %w", err)
	}
	parts, err := o.parts()
	if err != nil {
		return nil, err
	}
	sections, err := layOut(stub, parts)
	if err != nil {
		return nil, err
	}
	last := &sections[len(sections)-1]
	out := make([]byte, last.Offset+last.RawSize)
	copy(out, o.Stub[:endOfSections(stub.sections)])
	for i, p := range parts {
		if err := p.data.ReadInto(out[sections[i].Offset:][:p.size]); err != nil {
			return nil, fmt.Errorf("read what goes into %s: %w", p.name, err)
		}
	}
	if last.VirtualSize, err = kernelSize(out[last.Offset:][:parts[len(parts)-1].size]); err != nil {
		return nil, err
	}
	if uint64(last.VirtualAddress)+uint64(last.VirtualSize)+uint64(stub.sectionAlignment()) > math.MaxInt32 {
		return nil, tooLarge(last.Name)
	}
	if err := stub.extend(sections); err != nil {
		return nil, err
	}
	copy(out, stub.raw)
	pechecksum.Set(out, stub.opt+optCheckSum)
	return out, nil
}

// kernelSize is what a kernel takes in memory: more than in its file, as it decompresses there.
func kernelSize(kernel []byte) (uint32, error) {
	h, err := readHeader(bytes.NewReader(kernel))
	if err != nil {
		return 0, fmt.Errorf("the kernel is %w", err)
	}
	return max(h.sizeOfImage(), uint32(len(kernel))), nil
}

func tooLarge(section string) error {
	return fmt.Errorf("the image grows over 2 GiB with %s: firmware cannot load it", section)
}

// checkStub refuses what cannot be extended without breaking it.
func checkStub(h *header, size uint64) error {
	sa, fa := h.sectionAlignment(), h.fileAlignment()
	switch {
	case sa < 1 || sa&(sa-1) != 0 || fa < 1 || fa&(fa-1) != 0 || sa < fa || sa > 1<<24:
		return fmt.Errorf("has section alignment %d and file alignment %d, which cannot be", sa, fa)
	case h.u32(h.coff+coffSymbols) != 0 || h.u32(h.coff+coffSymbolNum) != 0:
		// systemd#27004: the table lies where new sections would go
		return errors.New("has a symbol table: strip it")
	case len(h.sections) == 0:
		return errors.New("has no section")
	case h.certificates():
		return errors.New("is signed: use the unsigned file, because new sections break a signature")
	}
	for _, s := range h.sections {
		if uint64(s.Offset)+uint64(s.RawSize) > size {
			return fmt.Errorf("ends before its section %s does", s.Name)
		}
		if s.Offset%fa != 0 || s.RawSize%fa != 0 {
			return fmt.Errorf("has a section %s that is not aligned in the file: it was changed after linking", s.Name)
		}
		if uint64(s.VirtualAddress)+uint64(s.VirtualSize) > uint64(h.sizeOfImage()) {
			return fmt.Errorf("has a section %s outside its own SizeOfImage", s.Name)
		}
	}
	return nil
}

// certificates reports whether the file has a table of signatures.
func (h *header) certificates() bool {
	dir := h.opt + optDirectories + 4 + directoryCert*8
	return h.u32(h.opt+optDirectories) > directoryCert && dir+8 <= h.table && h.u32(dir+4) != 0
}

// endOfSections is where the content of the sections ends in the file.
func endOfSections(sections []Section) uint32 {
	var end uint32
	for _, s := range sections {
		end = max(end, s.Offset+s.RawSize)
	}
	return end
}

// layOut gives the new sections their places: in memory after the stub's own SizeOfImage, by the stub's own alignment
// (systemd#25180), and in the file after its last section. What the last one, the kernel, takes in memory is for the caller
// to say: its header tells.
func layOut(stub *header, parts []part) ([]Section, error) {
	sa, fa := stub.sectionAlignment(), stub.fileAlignment()
	address := uint64(roundUp(stub.sizeOfImage(), sa))
	offset := uint64(roundUp(endOfSections(stub.sections), fa))
	out := make([]Section, len(parts))
	for i, p := range parts {
		raw := (uint64(p.size) + uint64(fa) - 1) / uint64(fa) * uint64(fa)
		if p.size > math.MaxInt32 || offset+raw > math.MaxInt32 || address+uint64(p.size)+uint64(sa) > math.MaxInt32 {
			return nil, tooLarge(p.name)
		}
		out[i] = Section{
			Name:           p.name,
			VirtualAddress: uint32(address), VirtualSize: uint32(p.size),
			Offset: uint32(offset), RawSize: uint32(raw),
			Flags: p.flags,
		}
		address += uint64(roundUp(uint32(p.size), sa))
		offset += raw
	}
	return out, nil
}

// extend puts the new sections into the header, in the unused space before the first section's content.
func (h *header) extend(sections []Section) error {
	end := h.table + (len(h.sections)+len(sections))*sectionSize
	first := h.sections[0].Offset
	for _, s := range h.sections {
		if s.RawSize > 0 {
			first = min(first, s.Offset)
		}
	}
	if uint32(end) > min(first, h.sizeOfHeaders()) {
		// systemd#28593
		return fmt.Errorf("the stub's header has no room for %d more sections: take a newer systemd-boot-efi", len(sections))
	}
	initialized := h.u32(h.opt + optInitializedData)
	for i, s := range sections {
		s.encode(h.raw[h.table+(len(h.sections)+i)*sectionSize:])
		if s.Flags&flagInitialized != 0 {
			initialized += s.RawSize
		}
	}
	last := sections[len(sections)-1]
	h.put16(h.coff+coffSections, uint16(len(h.sections)+len(sections)))
	h.put32(h.opt+optInitializedData, initialized)
	h.put32(h.opt+optSizeOfImage, roundUp(last.VirtualAddress+last.VirtualSize, h.sectionAlignment()))
	return nil
}

// Info is what Inspect finds in a unified kernel image.
type Info struct {
	Sections  []Section `json:"sections"`
	Cmdline   string    `json:"cmdline"`
	Uname     string    `json:"uname,omitempty"`
	OSRelease string    `json:"osRelease,omitempty"`
	// CheckSum is the header's field, not a fresh sum.
	CheckSum uint32 `json:"checkSum"`
}

// maxText bounds the sections that Inspect reads as text.
const maxText = 64 << 10

// Inspect reads the section table and the text sections of an image. It takes nothing for granted: the file may be
// anything. It is no check of integrity.
func Inspect(r io.ReaderAt) (*Info, error) {
	h, err := readHeader(r)
	if err != nil {
		return nil, fmt.Errorf("read unified kernel image: %w", err)
	}
	info := &Info{Sections: h.sections, CheckSum: h.u32(h.opt + optCheckSum)}
	seen := map[string]bool{}
	for _, s := range h.sections {
		into, ok := map[string]*string{".cmdline": &info.Cmdline, ".uname": &info.Uname, ".osrel": &info.OSRelease}[s.Name]
		seen[s.Name] = true
		if !ok {
			continue
		}
		if s.size() > maxText {
			return nil, fmt.Errorf("read unified kernel image: section %s has %d bytes, more than any text", s.Name, s.size())
		}
		text := make([]byte, s.size())
		if _, err := r.ReadAt(text, int64(s.Offset)); err != nil && !(errors.Is(err, io.EOF) && len(text) == 0) {
			return nil, fmt.Errorf("read unified kernel image: section %s: %w", s.Name, err)
		}
		*into = strings.TrimRight(string(text), "\x00")
	}
	if !seen[".linux"] {
		return nil, errors.New("read unified kernel image: it has no .linux section, so it is another kind of PE file")
	}
	return info, nil
}

// Param returns the value of a parameter of a kernel command line ("roothash=…"); the last of several counts.
func Param(cmdline, name string) (value string, ok bool) {
	for _, word := range strings.Fields(cmdline) {
		if v, found := strings.CutPrefix(word, name+"="); found {
			value, ok = v, true
		}
	}
	return value, ok
}
