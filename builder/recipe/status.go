package recipe

import (
	"fmt"
	"strings"
)

// StatusPath is where the image keeps dpkg's status file, for scanners: syft and grype take lib/dpkg/status below any folder
// of an unpacked root. On a running machine /var/lib/dpkg leads to its directory; the root itself has nothing below /var,
// since systemd notes at each boot that it mounts over a directory that is not empty. Packages whose files were dropped are
// not in it.
const StatusPath = "/usr/lib/dpkg/status"

// writeStatus writes the control paragraphs of all packages as dpkg does for installed ones.
func writeStatus(b *build) error {
	var out strings.Builder
	for _, p := range sortedPackages(b.packages) {
		if b.dropped[p.Name] {
			continue
		}
		text := strings.TrimRight(string(p.Status), "\n")
		first, rest, _ := strings.Cut(text, "\n")
		if !strings.HasPrefix(first, "Package:") {
			return fmt.Errorf("control paragraph of %s does not begin with its name", p.Name)
		}
		fmt.Fprintf(&out, "%s\nStatus: install ok installed\n", first)
		if rest != "" {
			out.WriteString(rest + "\n")
		}
		out.WriteByte('\n')
	}
	return b.file(StatusPath, []byte(out.String()), 0o644, "which packages the image is made of, for scanners")
}
