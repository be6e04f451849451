package initrd

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"

	"github.com/u-root/u-root/pkg/cpio"

	"spore/builder/tree"
)

// firmwareDir is where Debian's packages put firmware.
const firmwareDir = "/usr/lib/firmware"

// vendors are the makers of processors whose microcode the kernel takes from an initramfs, and their files (the
// kernel's Documentation/arch/x86/microcode.rst).
var vendors = []struct {
	dir, target string
	file        *regexp.Regexp
}{
	{"amd-ucode", "kernel/x86/microcode/AuthenticAMD.bin", regexp.MustCompile(`^microcode_amd.*\.bin$`)},
	{"intel-ucode", "kernel/x86/microcode/GenuineIntel.bin", regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{2}-[0-9a-f]{2}(\.initramfs)?$`)},
}

// microcodeAlign is the alignment in memory that processors of Intel want of an update (Intel SDM volume 3, section
// 10.11.6). The kernel hands over the data where it lies.
const microcodeAlign = 16

// Microcode returns the uncompressed cpio with the microcode that a tree holds, or an error when it holds none. It is
// the section .ucode of the UKI.
func Microcode(t *tree.Tree) ([]byte, error) {
	var out bytes.Buffer
	w := cpio.Newc.Writer(&out)
	for _, d := range []string{"kernel", "kernel/x86", "kernel/x86/microcode"} {
		if err := w.WriteRecord(cpio.Directory(d, 0o755)); err != nil {
			return nil, fmt.Errorf("make microcode archive: %w", err)
		}
	}
	found := false
	for _, v := range vendors {
		data, err := concat(t, path.Join(firmwareDir, v.dir), v.file)
		if err != nil {
			return nil, fmt.Errorf("make microcode archive: %w", err)
		}
		if len(data) == 0 {
			continue
		}
		found = true
		for _, r := range []cpio.Record{filler(out.Len(), v.target), cpio.StaticFile(v.target, string(data), 0o644)} {
			if err := w.WriteRecord(r); err != nil {
				return nil, fmt.Errorf("make microcode archive: %w", err)
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("make microcode archive: no microcode below %s: add the component non-free-firmware and the packages intel-microcode and amd64-microcode, or set microcode: false in image.yaml", firmwareDir)
	}
	if err := cpio.WriteTrailer(w); err != nil {
		return nil, fmt.Errorf("make microcode archive: %w", err)
	}
	return out.Bytes(), nil
}

// filler is a record of the length that brings the data of the following file to microcodeAlign. Its name is unused
// elsewhere, and the kernel forgets the archive with the initramfs.
func filler(at int, next string) cpio.Record {
	const header = 110 // newc
	name := "early-" + path.Base(next)
	after := roundUp(header+len(name)+1, 4) + roundUp(header+len(next)+1, 4)
	n := roundUp(at+after, microcodeAlign) - (at + after)
	return cpio.StaticFile(name, string(make([]byte, n)), 0o644)
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// concat joins the files of a directory whose names match, by name.
func concat(t *tree.Tree, dir string, name *regexp.Regexp) ([]byte, error) {
	names := t.Children(dir)
	slices.Sort(names)
	var out []byte
	for _, n := range names {
		if !name.MatchString(n) {
			continue
		}
		data, err := t.ReadFile(path.Join(dir, n))
		if err != nil {
			return nil, err
		}
		out = append(out, data...)
	}
	return out, nil
}
