package recipe

import (
	"fmt"
	"strings"
)

// writeRelease writes os-release(5) and what a console shows.
func writeRelease(b *build) error {
	r := b.opts.Release
	version := r.Version
	if version == "" {
		version = "0"
	}
	var text strings.Builder
	for _, f := range [][2]string{
		{"NAME", "Spore"},
		{"ID", "spore"},
		{"ID_LIKE", "debian"},
		// No VERSION, no VERSION_ID: scanners that take Spore for the Debian of ID_LIKE would take them for Debian's.
		{"VERSION_CODENAME", r.Suite},
		{"PRETTY_NAME", strings.TrimSpace("Spore " + version)},
		{"IMAGE_ID", "spore"},
		{"IMAGE_VERSION", version},
	} {
		if f[1] == "" {
			continue
		}
		if strings.ContainsAny(f[1], "\"\\$`\n") {
			return fmt.Errorf("%s %q has a character that os-release cannot hold", f[0], f[1])
		}
		fmt.Fprintf(&text, "%s=\"%s\"\n", f[0], f[1])
	}
	if err := b.file("/usr/lib/os-release", []byte(text.String()), 0o644, "this is Spore"); err != nil {
		return err
	}
	if err := b.link("../usr/lib/os-release", "/etc/os-release", "this is Spore"); err != nil {
		return err
	}
	for _, f := range []struct{ path, text, why string }{
		{"/etc/issue", "Spore " + version + " \\n \\l\n\n", "this is Spore"},
		{"/etc/issue.net", "Spore " + version + "\n", "this is Spore"},
		{"/etc/machine-id", "", "stage1 writes the machine's own into the overlay of /etc"},
		{"/etc/hostname", "localhost\n", "spore-agent writes the node's"},
		{"/etc/resolv.conf", "", "spore-agent writes the node's"},
		{"/etc/fstab", "", "everything is mounted by units"},
		{"/etc/locale.conf", "LANG=C.UTF-8\n", "one locale"},
		{"/etc/default/keyboard", "", "no keyboard is set up"},
	} {
		if err := b.file(f.path, []byte(f.text), 0o644, f.why); err != nil {
			return err
		}
	}
	return nil
}
