package recipe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
)

// own is a program of the user's own.
func ownProgram(f PayloadFile) Options {
	f.Mode, f.Content = 0o755, tree.Bytes("program")
	return Options{Payloads: []Payload{{Name: "programs/x", Configured: "programs/x.yaml", Files: []PayloadFile{f}}}}
}

// shell is a package with a shell, a library and a link out of /usr.
func shell() Package {
	return pkg("a", "", fileEntry("/usr/bin/dash", "elf", 0o755), linkEntry("/usr/bin/sh", "dash"), dirEntry("/etc/a", 0o755),
		linkEntry("/usr/share/a", "/etc/a"), fileEntry("/usr/lib/x86_64-linux-gnu/liba.so.1.2", "elf", 0o644),
		linkEntry("/usr/lib/x86_64-linux-gnu/liba.so.1", "liba.so.1.2"), fileEntry("/usr/lib64/ld.so", "elf", 0o755),
		fileEntry("/usr/share/doc.sh", "text", 0o644))
}

func TestProgramsOfTheUsersOwnAreLaidWithTheirLinks(t *testing.T) {
	r := compose(t, ownProgram(PayloadFile{
		Path: "/opt/x/bin/x", Links: []string{"/usr/bin/x"}, Interpreter: "/usr/lib64/ld.so", Libraries: []string{"liba.so.1"},
	}), shell())
	n, err := r.Tree.Stat("/usr/bin/x")
	require.NoError(t, err)
	require.Equal(t, "configuration:programs/x.yaml", n.Origin)
	require.Equal(t, uint32(0o755), n.Mode)
	link, err := r.Tree.Lstat("/usr/bin/x")
	require.NoError(t, err)
	require.Equal(t, "../../opt/x/bin/x", link.Target)
	compose(t, ownProgram(PayloadFile{Path: "/usr/bin/x", Interpreter: "sh"}), shell())
}

func TestProgramsOfTheUsersOwnThatARootRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		file PayloadFile
		want string
	}{
		"over a file": {PayloadFile{Path: "/usr/bin/dash"},
			"step payloads: programs/x.yaml: /usr/bin/dash is there already, from deb:a_1; write another path"},
		"over a link": {PayloadFile{Path: "/usr/bin/sh"},
			"step payloads: programs/x.yaml: /usr/bin/sh is there already, from deb:a_1; write another path"},
		"a link over a file": {PayloadFile{Path: "/usr/bin/x", Links: []string{"/usr/bin/sh"}},
			"step payloads: programs/x.yaml: /usr/bin/sh is there already, from deb:a_1; write another path"},
		"over a directory": {PayloadFile{Path: "/usr/bin"},
			"step payloads: programs/x.yaml: /usr/bin is there already, from step:usr-merge; write another path"},
		"through a link out of /usr": {PayloadFile{Path: "/usr/share/a/x"},
			"step payloads: programs/x.yaml: /usr/share/a/x leads to /etc/a, which is not below /usr or /opt; write another path"},
		"a script whose interpreter is missing": {PayloadFile{Path: "/usr/bin/x", Interpreter: "/usr/bin/python3"},
			"step own-programs: programs/x.yaml: /usr/bin/x is started by /usr/bin/python3, which is not in the image; " +
				"add the Debian package that has it to packages in image.yaml"},
		"a script by env whose interpreter is missing": {PayloadFile{Path: "/usr/bin/x", Interpreter: "python3"},
			"step own-programs: programs/x.yaml: /usr/bin/x is started by python3, which is not in the image; " +
				"add the Debian package that has it to packages in image.yaml"},
		"an interpreter that is no program": {PayloadFile{Path: "/usr/bin/x", Interpreter: "/usr/share/doc.sh"},
			"step own-programs: programs/x.yaml: /usr/bin/x is started by /usr/share/doc.sh, which is not a program; " +
				"add the Debian package that has it to packages in image.yaml"},
		"a program for another C library": {
			PayloadFile{Path: "/usr/bin/x", Interpreter: "/lib/ld-musl-x86_64.so.1", Libraries: []string{"libc.musl-x86_64.so.1"}},
			"step own-programs: programs/x.yaml: /usr/bin/x is linked dynamically for /lib/ld-musl-x86_64.so.1, which is not in the image; " +
				"add the Debian package that has it to packages in image.yaml"},
		"libraries that are missing": {
			PayloadFile{Path: "/usr/bin/x", Interpreter: "/usr/lib64/ld.so", Libraries: []string{"liba.so.1", "libb.so.1", "libc.so.1"}},
			"step own-programs: programs/x.yaml: /usr/bin/x needs libb.so.1, libc.so.1, which no package of the image has; " +
				"add the Debian packages of these libraries to packages in image.yaml, or take a program that is linked statically"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compose([]Package{shell()}, ownProgram(tc.file))
			require.EqualError(t, err, tc.want)
		})
	}
}
