package recipe

import (
	"path"
	"strings"

	"spore/builder/tree"
)

// bootFiles are path patterns (path.Match) of what goes to the ESP or the initramfs and not into the root.
var bootFiles = []string{
	"/boot/vmlinuz-*",
	"/usr/lib/systemd/boot/efi/*",
	"/usr/lib/firmware/intel-ucode/*",
	"/usr/lib/firmware/amd-ucode/*",
}

// takeBootFiles moves them into Result.Boot.
func takeBootFiles(b *build) error {
	for _, p := range b.tree.Paths() {
		for _, pattern := range bootFiles {
			if ok, _ := path.Match(pattern, p); !ok {
				continue
			}
			n, err := b.tree.Lstat(p)
			if err != nil {
				return err
			}
			if n.Type != tree.Regular {
				continue
			}
			b.boot[p] = n
			if err := b.tree.Remove(p); err != nil {
				return err
			}
			b.report.Entries = append(b.report.Entries, Entry{Step: b.step, Action: "take", Path: p, Why: "for the ESP or the initramfs", Bytes: n.Content.Size(), Origin: n.Origin})
		}
	}
	for _, dir := range []string{"/usr/lib/systemd/boot", "/usr/lib/firmware/intel-ucode", "/usr/lib/firmware/amd-ucode"} {
		if err := b.removeIfEmpty(dir); err != nil {
			return err
		}
	}
	return nil
}

// removeIfEmpty takes away a directory that holds no file at any depth.
func (b *build) removeIfEmpty(dir string) error {
	empty := true
	err := b.walkBelow(dir, func(_ string, n *tree.Inode) { empty = empty && n.Type == tree.Dir })
	if err != nil || !empty || !b.tree.Exists(strings.TrimSuffix(dir, "/")) {
		return err
	}
	return b.tree.Remove(dir)
}
