// Package kmodtest makes kernels for tests: ELF files with the sections that depmod(8) reads, and the lists beside them.
package kmodtest

import (
	"encoding/binary"
	"os"
	"path"
	"path/filepath"
	"strings"

	"spore/builder/tree"
)

// Release is the release of the made-up kernel.
const Release = "6.12.0-test"

// Module describes a made-up module.
type Module struct {
	// Path is relative to the module directory and ends with .ko.
	Path string
	// Info are the entries of .modinfo: "alias=crypto-sha256".
	Info []string
	// Exports are symbols for others, Needs symbols of others.
	Exports, Needs []string
}

// Kernel is a small kernel with the modules that stage1 always needs.
var Kernel = []Module{
	{Path: "kernel/lib/reed_solomon/reed_solomon.ko", Exports: []string{"init_rs", "free_rs"}},
	{Path: "kernel/drivers/md/dm-bufio.ko", Exports: []string{"dm_bufio_read"}},
	{Path: "kernel/drivers/md/dm-mod.ko", Exports: []string{"dm_register_target"}, Info: []string{"alias=devname:mapper/control", "alias=char-major-10-236"}},
	{Path: "kernel/drivers/md/dm-verity.ko", Needs: []string{"printk", "dm_bufio_read", "free_rs", "dm_register_target", "init_rs"}, Info: []string{"softdep=pre: sha256"}},
	{Path: "kernel/arch/x86/crypto/sha256-ssse3.ko", Info: []string{"alias=sha256", "alias=crypto-sha256", "alias=crypto-sha256-ni"}},
	{Path: "kernel/drivers/crypto/padlock-sha.ko", Info: []string{"alias=crypto-sha256", "alias=cpu:type:x86,ven0005fam*mod*:feature:*00C2*"}},
	{Path: "kernel/drivers/block/virtio_blk.ko", Info: []string{"alias=virtio:d00000002v*"}},
	{Path: "kernel/drivers/net/a-b.ko", Info: []string{"alias=usb:v0[1-3]-x*", "alias=broken[", "alias=broken]", "firmware=a/b.bin"}, Needs: []string{"c_sym"}},
	{Path: "kernel/drivers/net/c.ko", Info: []string{"alias=usb:v02-x7", "softdep=post: virtio_blk"}, Exports: []string{"c_sym"}, Needs: []string{"dm_register_target"}},
	{Path: "kernel/fs/squashfs/squashfs.ko", Info: []string{"alias=fs-squashfs"}},
	{Path: "kernel/fs/overlayfs/overlay.ko", Info: []string{"alias=fs-overlay"}},
	{Path: "extra/unordered.ko", Needs: []string{"c_sym"}, Info: []string{"weakdep=c"}},
}

// Files are the files of the module directory of a kernel with the given modules, by their path in it.
func Files(modules []Module) map[string][]byte {
	out := map[string][]byte{
		"modules.builtin": []byte("kernel/crypto/sha256_generic.ko\nkernel/drivers/virtio/virtio-pci.ko\n"),
		"modules.builtin.modinfo": []byte("sha256_generic.alias=crypto-sha256\x00sha256_generic.license=GPL\x00" +
			"virtio_pci.alias=pci:v00001AF4d*\x00"),
	}
	var order strings.Builder
	for _, m := range modules {
		out[m.Path] = m.Encode()
		if strings.HasPrefix(m.Path, "kernel/") {
			order.WriteString(m.Path + "\n")
		}
	}
	out["modules.order"] = []byte(order.String())
	return out
}

// Tree is a filesystem with a kernel of the given modules.
func Tree(modules []Module) (*tree.Tree, error) {
	t := tree.New()
	for name, data := range Files(modules) {
		if err := t.WriteFile(path.Join("/usr/lib/modules", Release, name), data, 0o644, "test"); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Write lays a kernel of the given modules into DIR/lib/modules.
func Write(dir string, modules []Module) error {
	for name, data := range Files(modules) {
		p := filepath.Join(dir, "lib/modules", Release, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(p, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Sizes of ELF64 (System V ABI, chapter 4).
const (
	ehdrSize = 64
	shdrSize = 64
	symSize  = 24
)

// Encode makes a relocatable ELF64 file.
func (m Module) Encode() []byte {
	strtab := []byte{0}
	symtab := make([]byte, symSize)
	symbol := func(name string, section uint16) {
		s := make([]byte, symSize)
		binary.LittleEndian.PutUint32(s, uint32(len(strtab)))
		s[4] = 1 << 4 // global
		binary.LittleEndian.PutUint16(s[6:], section)
		symtab = append(symtab, s...)
		strtab = append(append(strtab, name...), 0)
	}
	for _, e := range m.Exports {
		symbol("__crc_"+e, 0xfff1) // SHN_ABS
		symbol(e, 1)
	}
	for _, n := range m.Needs {
		symbol(n, 0) // SHN_UNDEF
	}
	name := strings.ReplaceAll(strings.TrimSuffix(path.Base(m.Path), ".ko"), "-", "_")
	info := []byte(strings.Join(append(m.Info[:len(m.Info):len(m.Info)], "name="+name), "\x00") + "\x00")
	return elf([]section{{".modinfo", info, 1}, {".symtab", symtab, 2}, {".strtab", strtab, 3}})
}

type section struct {
	name string
	data []byte
	kind uint32
}

func elf(secs []section) []byte {
	le := binary.LittleEndian
	secs = append(secs, section{".shstrtab", nil, 3})
	names := []byte{0}
	offs := make([]uint32, len(secs))
	for i, s := range secs {
		offs[i] = uint32(len(names))
		names = append(append(names, s.name...), 0)
	}
	secs[len(secs)-1].data = names
	out := make([]byte, ehdrSize)
	copy(out, "\x7fELF\x02\x01\x01")
	le.PutUint16(out[16:], 1)  // ET_REL
	le.PutUint16(out[18:], 62) // EM_X86_64
	le.PutUint32(out[20:], 1)
	le.PutUint16(out[52:], ehdrSize)
	le.PutUint16(out[58:], shdrSize)
	le.PutUint16(out[60:], uint16(len(secs)+1))
	le.PutUint16(out[62:], uint16(len(secs)))
	headers := make([]byte, shdrSize)
	for i, s := range secs {
		h := make([]byte, shdrSize)
		le.PutUint32(h, offs[i])
		le.PutUint32(h[4:], s.kind)
		le.PutUint64(h[24:], uint64(len(out)))
		le.PutUint64(h[32:], uint64(len(s.data)))
		if s.kind == 2 {
			le.PutUint32(h[40:], uint32(i+2)) // its strings are the next section
			le.PutUint64(h[56:], symSize)
		}
		headers = append(headers, h...)
		out = append(out, s.data...)
		for len(out)%8 != 0 {
			out = append(out, 0)
		}
	}
	le.PutUint64(out[40:], uint64(len(out)))
	return append(out, headers...)
}
