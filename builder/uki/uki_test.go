package uki

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/pechecksum"
)

const (
	testNewHeader = 128
	testOptSize   = 240
)

// makePE makes a PE32+ file for x86-64 with the given sections, whose content begins at the end of the headers.
func makePE(sizeOfHeaders int, sectionAlignment uint32, sections ...Section) []byte {
	le := binary.LittleEndian
	b := make([]byte, sizeOfHeaders)
	copy(b, "MZ")
	le.PutUint32(b[dosNewHeader:], testNewHeader)
	copy(b[testNewHeader:], "PE\x00\x00")
	coff, opt := testNewHeader+4, testNewHeader+4+coffHeaderSize
	le.PutUint16(b[coff:], machineAMD64)
	le.PutUint16(b[coff+coffSections:], uint16(len(sections)))
	le.PutUint32(b[coff+4:], 1700000000) // the time of linking
	le.PutUint16(b[coff+coffOptionSize:], testOptSize)
	le.PutUint16(b[coff+18:], 0x22e)
	le.PutUint16(b[opt:], magicPE32Plus)
	le.PutUint32(b[opt+optEntry:], 0x1000)
	le.PutUint64(b[opt+24:], 0x14df90000)
	le.PutUint32(b[opt+optSectionAlignment:], sectionAlignment)
	le.PutUint32(b[opt+optFileAlignment:], 512)
	le.PutUint32(b[opt+optSizeOfHeaders:], uint32(sizeOfHeaders))
	le.PutUint16(b[opt+68:], 10) // EFI application
	le.PutUint32(b[opt+optDirectories:], 16)
	var image uint32
	for i, s := range sections {
		s.encode(b[opt+testOptSize+i*sectionSize:])
		image = max(image, roundUp(s.VirtualAddress+s.VirtualSize, sectionAlignment))
	}
	le.PutUint32(b[opt+optSizeOfImage:], image)
	for _, s := range sections {
		content := bytes.Repeat([]byte(s.Name[1:2]), int(s.RawSize))
		b = append(b, content...)
	}
	return b
}

func stub() []byte {
	return makePE(1536, 4096,
		Section{".text", 0x1000, 1000, 1536, 1024, flagCode | flagRead | 0x20000000},
		Section{".data", 0x2000, 100, 2560, 512, flagInitialized | flagRead | 0x80000000},
		Section{".sbat", 0x3000, 200, 3072, 512, flagInitialized | flagRead},
	)
}

// kernel has a SizeOfImage that is larger than its file, as real ones have.
func kernel() []byte {
	return makePE(512, 4096, Section{".text", 0x1000, 100000, 512, 7000, flagCode | flagRead})
}

func options() Options {
	return Options{
		Stub: stub(), Kernel: Bytes(kernel()), Initrd: Bytes(bytes.Repeat([]byte("initrd"), 1000)),
		Cmdline: "roothash=abc ro console=ttyS0", OSRelease: []byte("ID=spore\n"), Uname: "6.12.0-test", Microcode: []byte("070701 microcode"),
	}
}

// golden is the section table of options: new sections behind the stub's own SizeOfImage, each on a page of its own,
// .linux last and with the kernel's SizeOfImage.
var golden = []Section{
	{".text", 0x1000, 1000, 1536, 1024, 0x60000020},
	{".data", 0x2000, 100, 2560, 512, 0xc0000040},
	{".sbat", 0x3000, 200, 3072, 512, 0x40000040},
	{".osrel", 0x4000, 9, 3584, 512, 0x40000040},
	{".cmdline", 0x5000, 30, 4096, 512, 0x40000040},
	{".uname", 0x6000, 11, 4608, 512, 0x40000040},
	{".ucode", 0x7000, 16, 5120, 512, 0x40000040},
	{".initrd", 0x8000, 6000, 5632, 6144, 0x40000040},
	{".linux", 0xa000, 0x1a000, 11776, 7680, 0x40000020},
}

func TestSectionTable(t *testing.T) {
	out, err := Build(options())
	require.NoError(t, err)
	info, err := Inspect(bytes.NewReader(out))
	require.NoError(t, err)
	require.Equal(t, golden, info.Sections)
	require.Equal(t, "roothash=abc ro console=ttyS0", info.Cmdline)
	require.Equal(t, "6.12.0-test", info.Uname)
	require.Equal(t, "ID=spore\n", info.OSRelease)
}

func TestDebugPEReadsTheSame(t *testing.T) {
	o := options()
	out, err := Build(o)
	require.NoError(t, err)
	f, err := pe.NewFile(bytes.NewReader(out))
	require.NoError(t, err)
	want := map[string][]byte{
		".osrel": o.OSRelease, ".cmdline": append([]byte(o.Cmdline), 0), ".uname": []byte(o.Uname),
		".ucode": o.Microcode, ".initrd": o.Initrd.(Bytes), ".linux": o.Kernel.(Bytes), ".text": bytes.Repeat([]byte("t"), 1024),
	}
	for name, data := range want {
		s := f.Section(name)
		require.NotNil(t, s, name)
		got, err := s.Data()
		require.NoError(t, err)
		require.Equal(t, data, got[:len(data)], name)
		require.Empty(t, bytes.Trim(got[len(data):], "\x00"), "%s is padded with zeros", name)
	}
	header := f.OptionalHeader.(*pe.OptionalHeader64)
	require.Equal(t, uint32(0x24000), header.SizeOfImage)
	require.Equal(t, uint32(512*4+6144), header.SizeOfInitializedData)
	require.Equal(t, uint32(1700000000), f.TimeDateStamp, "the stub's own time, not that of the build")
}

func TestObjdumpReadsTheSame(t *testing.T) {
	out, err := Build(options())
	require.NoError(t, err)
	p := filepath.Join(t.TempDir(), "uki.efi")
	require.NoError(t, os.WriteFile(p, out, 0o644))
	text, err := exec.Command("objdump", "-h", p).Output()
	require.NotErrorIs(t, err, exec.ErrNotFound, "objdump is missing: run make deps")
	require.NoError(t, err)
	lines := strings.Join(strings.Fields(string(text)), " ")
	for _, s := range golden {
		size := min(s.VirtualSize, s.RawSize) // objdump shows no memory beyond the file
		require.Contains(t, lines, fmt.Sprintf("%s %08x %016x %016x %08x", s.Name, size, 0x14df90000+uint64(s.VirtualAddress),
			0x14df90000+uint64(s.VirtualAddress), s.Offset))
	}
}

func TestTheChecksumIsThatOfTheFile(t *testing.T) {
	out, err := Build(options())
	require.NoError(t, err)
	info, err := Inspect(bytes.NewReader(out))
	require.NoError(t, err)
	field := testNewHeader + 4 + coffHeaderSize + optCheckSum
	want := bytes.Clone(out)
	pechecksum.Set(want, field)
	require.Equal(t, want, out)
	require.Equal(t, binary.LittleEndian.Uint32(out[field:]), info.CheckSum)
}

func TestSameOptionsSameBytes(t *testing.T) {
	first, err := Build(options())
	require.NoError(t, err)
	second, err := Build(options())
	require.NoError(t, err)
	require.Equal(t, first, second)
}

func TestEmptyPartsHaveNoSection(t *testing.T) {
	o := options()
	o.Microcode, o.OSRelease = nil, nil
	out, err := Build(o)
	require.NoError(t, err)
	f, err := pe.NewFile(bytes.NewReader(out))
	require.NoError(t, err)
	require.Nil(t, f.Section(".ucode"))
	require.Nil(t, f.Section(".osrel"))
}

func TestTheStubsAlignmentCounts(t *testing.T) {
	o := options()
	o.Stub = makePE(1024, 0x10000, Section{".text", 0x10000, 1000, 1024, 1024, flagCode | flagRead})
	out, err := Build(o)
	require.NoError(t, err)
	info, err := Inspect(bytes.NewReader(out))
	require.NoError(t, err)
	require.Equal(t, uint32(0x20000), info.Sections[1].VirtualAddress)
}

func TestRefusedParts(t *testing.T) {
	patch := func(b []byte, off int, v uint32) []byte {
		binary.LittleEndian.PutUint32(b[off:], v)
		return b
	}
	const coff, opt = testNewHeader + 4, testNewHeader + 4 + coffHeaderSize
	for name, c := range map[string]struct {
		change func(*Options)
		err    string
	}{
		"no stub":                   {func(o *Options) { o.Stub = nil }, "the stub is not a PE file: it is too short"},
		"a stub that is text":       {func(o *Options) { o.Stub = bytes.Repeat([]byte("text"), 100) }, "it does not begin with MZ"},
		"a stub without signature":  {func(o *Options) { o.Stub = patch(stub(), testNewHeader, 0) }, "no PE signature"},
		"a stub for ARM":            {func(o *Options) { o.Stub = patch(stub(), coff, 0x3aa64) }, "for machine type 0xaa64"},
		"a 32-bit stub":             {func(o *Options) { o.Stub = patch(stub(), opt, 0x10b) }, "not PE32+"},
		"a stub with symbols":       {func(o *Options) { o.Stub = patch(stub(), coff+coffSymbols, 4096) }, "has a symbol table: strip it"},
		"a signed stub":             {func(o *Options) { o.Stub = patch(stub(), opt+optDirectories+4+4*8+4, 100) }, "is signed"},
		"a stub without room":       {func(o *Options) { o.Stub = makePE(512, 4096, Section{".text", 0x1000, 1000, 512, 1024, 0}) }, "no room for 6 more sections: take a newer systemd-boot-efi"},
		"a stub without sections":   {func(o *Options) { o.Stub = makePE(1024, 4096) }, "has no section"},
		"a truncated stub":          {func(o *Options) { o.Stub = stub()[:3000] }, "ends before its section .data does"},
		"an odd alignment":          {func(o *Options) { o.Stub = patch(stub(), opt+optSectionAlignment, 3000) }, "section alignment 3000"},
		"an unaligned section":      {func(o *Options) { o.Stub = makePE(1536, 4096, Section{".text", 0x1000, 1000, 1536, 1000, 0}) }, "not aligned in the file"},
		"a section out of image":    {func(o *Options) { o.Stub = patch(stub(), opt+optSizeOfImage, 0x1000) }, "outside its own SizeOfImage"},
		"a header that lies":        {func(o *Options) { o.Stub = patch(stub(), opt+optSizeOfHeaders, 1<<30) }, "header is inconsistent"},
		"a kernel that is no PE":    {func(o *Options) { o.Kernel = Bytes("\x7fELF") }, "the kernel is not a PE file"},
		"no kernel":                 {func(o *Options) { o.Kernel = nil }, "there is no kernel"},
		"an empty kernel":           {func(o *Options) { o.Kernel = Bytes{} }, "there is no kernel"},
		"a kernel that is not read": {func(o *Options) { o.Kernel = unreadable(9000) }, "read what goes into .linux: it is gone"},
		"initramfs of over 2 GiB":   {func(o *Options) { o.Initrd = unreadable(1 << 31) }, "over 2 GiB with .initrd"},
		"a command line too long":   {func(o *Options) { o.Cmdline = strings.Repeat("x", 2048) }, "has 2048 bytes; the kernel takes 2047"},
		"a command line with lines": {func(o *Options) { o.Cmdline = "ro\nquiet" }, "byte 0x0a at offset 2"},
		"a command line with NUL":   {func(o *Options) { o.Cmdline = "ro\x00" }, "byte 0x00"},
		"a kernel of over 2 GiB":    {func(o *Options) { o.Kernel = Bytes(patch(kernel(), opt+optSizeOfImage, 0xfffff000)) }, "over 2 GiB with .linux"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			c.change(&o)
			_, err := Build(o)
			require.ErrorContains(t, err, c.err)
		})
	}
}

func TestInspectRefusesOtherPrograms(t *testing.T) {
	_, err := Inspect(bytes.NewReader(stub()))
	require.ErrorContains(t, err, "no .linux section")
	big := makePE(1024, 4096, Section{".cmdline", 0x1000, 1 << 20, 1024, 1 << 20, 0}, Section{".linux", 0x200000, 512, 1024, 512, 0})
	_, err = Inspect(bytes.NewReader(big))
	require.ErrorContains(t, err, "more than any text")
}

func TestParam(t *testing.T) {
	const line = "ro roothash=1 spore.clusterhash=2 roothash=3 quiet x=a=b"
	for name, want := range map[string]string{"roothash": "3", "spore.clusterhash": "2", "x": "a=b", "quiet": "", "hash": ""} {
		got, ok := Param(line, name)
		require.Equal(t, want, got, name)
		require.Equal(t, want != "", ok, name)
	}
}

func FuzzInspect(f *testing.F) {
	out, err := Build(options())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(out)
	f.Add(stub())
	f.Add([]byte("MZ"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if info, err := Inspect(bytes.NewReader(data)); err == nil {
			require.LessOrEqual(t, len(info.Cmdline), maxText)
		}
		o := options()
		o.Stub = data
		if out, err := Build(o); err == nil {
			_, err := Inspect(bytes.NewReader(out))
			require.NoError(t, err, "what we make we read")
		}
	})
}
