// Package microcode makes the early initramfs from which the kernel updates the processor before anything else runs
// (Linux: Documentation/arch/x86/microcode.rst): an uncompressed newc cpio with one file for each vendor.
package microcode

import (
	"bytes"
	"fmt"
	"path"
	"sort"
	"strings"

	"github.com/u-root/u-root/pkg/cpio"
)

// vendors maps the firmware directory of a vendor to the file that the kernel looks for.
var vendors = []struct{ dir, file string }{
	{"/usr/lib/firmware/amd-ucode", "kernel/x86/microcode/AuthenticAMD.bin"},
	{"/usr/lib/firmware/intel-ucode", "kernel/x86/microcode/GenuineIntel.bin"},
}

// Archive returns the cpio for a set of firmware files by their path in the packages; nil when none of them is microcode.
// The files of a vendor are joined in the order of their names.
func Archive(files map[string][]byte) ([]byte, error) {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)

	var records []cpio.Record
	for _, v := range vendors {
		var joined []byte
		for _, name := range names {
			// amd-microcode ships detached signatures and a README beside its containers.
			if path.Dir(name) == v.dir && !strings.HasSuffix(name, ".asc") && !strings.HasPrefix(path.Base(name), "README") {
				joined = append(joined, files[name]...)
			}
		}
		if len(joined) > 0 {
			records = append(records, cpio.StaticFile(v.file, string(joined), 0o644))
		}
	}
	if len(records) == 0 {
		return nil, nil
	}
	dirs := []cpio.Record{cpio.Directory("kernel", 0o755), cpio.Directory("kernel/x86", 0o755), cpio.Directory("kernel/x86/microcode", 0o755)}

	var out bytes.Buffer
	w := cpio.Newc.Writer(&out)
	for i, r := range append(dirs, records...) {
		r = cpio.MakeReproducible(r)
		r.Ino = uint64(i + 1)
		if err := w.WriteRecord(r); err != nil {
			return nil, fmt.Errorf("write microcode archive: %w", err)
		}
	}
	if err := cpio.WriteTrailer(w); err != nil {
		return nil, fmt.Errorf("write microcode archive: %w", err)
	}
	return out.Bytes(), nil
}
