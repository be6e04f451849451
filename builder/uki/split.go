package uki

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// added are the sections that Build adds to a stub.
var added = []string{".osrel", ".cmdline", ".uname", ".ucode", ".pcrpkey", ".pcrsig", ".initrd", ".linux"}

// Split takes a unified kernel image without signature apart: Build makes the same bytes of what it returns. The stub is the
// image without the added sections, and the kernel has the zeros behind it that fill its section.
func Split(image []byte) (Options, error) {
	o, err := split(image)
	if err != nil {
		return Options{}, fmt.Errorf("take unified kernel image apart: %w", err)
	}
	return o, nil
}

func split(image []byte) (Options, error) {
	h, err := readHeader(bytes.NewReader(image))
	if err != nil {
		return Options{}, fmt.Errorf("it is %w", err)
	}
	if h.certificates() {
		return Options{}, errors.New("it is signed, and a change would break the signature")
	}
	own := slices.IndexFunc(h.sections, func(s Section) bool { return slices.Contains(added, s.Name) })
	if own <= 0 {
		return Options{}, errors.New("it has no stub, or only a stub")
	}
	var o Options
	var initrd, kernel []byte
	into := map[string]*[]byte{
		".osrel": &o.OSRelease, ".cmdline": new([]byte), ".uname": new([]byte), ".ucode": &o.Microcode,
		".pcrpkey": &o.PCRPublicKey, ".pcrsig": &o.PCRSignature, ".initrd": &initrd, ".linux": &kernel,
	}
	for _, s := range h.sections[own:] {
		p := into[s.Name]
		switch {
		case p == nil:
			return Options{}, fmt.Errorf("its section %s is unknown, or appears twice", s.Name)
		case uint64(s.Offset)+uint64(s.RawSize) > uint64(len(image)):
			return Options{}, fmt.Errorf("it ends before its section %s does", s.Name)
		}
		*p = image[s.Offset:][:s.size()]
		if s.Name == ".cmdline" {
			o.Cmdline = string(bytes.TrimRight(*p, "\x00"))
		}
		if s.Name == ".uname" {
			o.Uname = string(*p)
		}
		delete(into, s.Name)
	}
	o.Initrd, o.Kernel = Bytes(initrd), Bytes(kernel)
	o.Stub, err = h.stub(image, own)
	return o, err
}

// stub is the file before sections were added to it: its own come first.
func (h *header) stub(image []byte, own int) ([]byte, error) {
	end := endOfSections(h.sections[:own])
	if uint64(end) > uint64(len(image)) || int(end) < len(h.raw) {
		return nil, errors.New("its stub is not whole")
	}
	initialized := h.u32(h.opt + optInitializedData)
	for _, s := range h.sections[own:] {
		if s.Flags&flagInitialized != 0 {
			initialized -= s.RawSize
		}
	}
	raw := header{raw: bytes.Clone(h.raw), coff: h.coff, opt: h.opt, table: h.table}
	clear(raw.raw[h.table+own*sectionSize : h.table+len(h.sections)*sectionSize])
	raw.put16(h.coff+coffSections, uint16(own))
	raw.put32(h.opt+optInitializedData, initialized)
	// The first added section begins where the stub ended in memory.
	raw.put32(h.opt+optSizeOfImage, h.sections[own].VirtualAddress)
	raw.put32(h.opt+optCheckSum, 0)
	out := bytes.Clone(image[:end])
	copy(out, raw.raw)
	return out, nil
}
