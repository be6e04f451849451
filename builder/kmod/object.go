package kmod

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// object is what depmod needs of a module's file.
type object struct {
	info    []keyValue
	exports []string
	// needs are the undefined symbols, in the order of the symbol table.
	needs []string
}

type keyValue struct{ key, value string }

// values returns all values of a key of .modinfo.
func (o *object) values(key string) []string {
	var out []string
	for _, kv := range o.info {
		if kv.key == key {
			out = append(out, kv.value)
		}
	}
	return out
}

// Sizes and constants of ELF64 (System V ABI, chapter 4).
const (
	ehdrSize = 64
	shdrSize = 64
	symSize  = 24
	shnUndef = 0
	shtNobit = 8
)

var errTruncated = errors.New("the file ends before its ELF sections do")

// parseObject reads a module: a little-endian, relocatable ELF64 file. It copies what it keeps.
func parseObject(b []byte) (*object, error) {
	secs, err := sections(b)
	if err != nil {
		return nil, err
	}
	o := &object{info: parseInfo(secs[".modinfo"])}
	if err := o.readSymbols(secs[".symtab"], secs[".strtab"]); err != nil {
		return nil, err
	}
	if len(o.exports) == 0 { // a kernel without CONFIG_MODVERSIONS has no __crc_ symbols
		o.exports = stringsOf(secs["__ksymtab_strings"])
	}
	return o, nil
}

// sections returns the content of the sections of a file by name; of several with one name the first.
func sections(b []byte) (map[string][]byte, error) {
	if len(b) < ehdrSize || string(b[:4]) != "\x7fELF" {
		return nil, errors.New("not an ELF file")
	}
	if b[4] != 2 || b[5] != 1 {
		return nil, errors.New("not a little-endian ELF64 file")
	}
	le := binary.LittleEndian
	shoff, shentsize := le.Uint64(b[40:]), le.Uint16(b[58:])
	shnum, shstrndx := int(le.Uint16(b[60:])), int(le.Uint16(b[62:]))
	if shentsize != shdrSize {
		return nil, fmt.Errorf("section headers of %d bytes instead of %d", shentsize, shdrSize)
	}
	if shoff > uint64(len(b)) || uint64(shnum)*shdrSize > uint64(len(b))-shoff {
		return nil, errTruncated
	}
	header := func(i int) []byte { return b[shoff+uint64(i)*shdrSize:][:shdrSize] }
	data := func(i int) ([]byte, error) {
		h := header(i)
		off, size := le.Uint64(h[24:]), le.Uint64(h[32:])
		if le.Uint32(h[4:]) == shtNobit {
			return nil, nil
		}
		if off > uint64(len(b)) || size > uint64(len(b))-off {
			return nil, errTruncated
		}
		return b[off : off+size], nil
	}
	if shstrndx >= shnum {
		return nil, errors.New("no section holds the section names")
	}
	names, err := data(shstrndx)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for i := 1; i < shnum; i++ {
		name, ok := cstring(names, le.Uint32(header(i)))
		if !ok {
			return nil, errors.New("a section name is outside the section of names")
		}
		if _, seen := out[name]; seen {
			continue
		}
		if out[name], err = data(i); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// cstring is the NUL-terminated string at an offset.
func cstring(b []byte, off uint32) (string, bool) {
	if uint64(off) >= uint64(len(b)) {
		return "", false
	}
	end := bytes.IndexByte(b[off:], 0)
	if end < 0 {
		return "", false
	}
	return string(b[off : int(off)+end]), true
}

func parseInfo(b []byte) []keyValue {
	var out []keyValue
	for _, s := range stringsOf(b) {
		if k, v, ok := strings.Cut(s, "="); ok {
			out = append(out, keyValue{k, v})
		}
	}
	return out
}

// stringsOf splits a section of NUL-terminated strings; the padding between them is dropped.
func stringsOf(b []byte) []string {
	var out []string
	for len(b) > 0 {
		var s []byte
		s, b, _ = bytes.Cut(b, []byte{0})
		if len(s) > 0 {
			out = append(out, string(s))
		}
	}
	return out
}

// readSymbols fills exports (the symbols that have a __crc_ companion) and needs.
func (o *object) readSymbols(symtab, strtab []byte) error {
	if len(symtab)%symSize != 0 {
		return errors.New("the symbol table does not hold a whole number of symbols")
	}
	le := binary.LittleEndian
	for i := symSize; i < len(symtab); i += symSize { // the first entry is reserved
		nameOff := le.Uint32(symtab[i:])
		undefined := le.Uint16(symtab[i+6:]) == shnUndef
		if nameOff == 0 {
			continue
		}
		if uint64(nameOff) >= uint64(len(strtab)) {
			return errors.New("a symbol name is outside the table of strings")
		}
		if !undefined && !bytes.HasPrefix(strtab[nameOff:], crcPrefix) {
			continue
		}
		name, ok := cstring(strtab, nameOff)
		if !ok {
			return errors.New("a symbol name has no end")
		}
		if undefined {
			o.needs = append(o.needs, name)
		}
		if export, ok := strings.CutPrefix(name, string(crcPrefix)); ok && export != "" {
			o.exports = append(o.exports, export)
		}
	}
	return nil
}

var crcPrefix = []byte("__crc_")
