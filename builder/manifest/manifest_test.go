package manifest

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
)

func TestEveryPathOfATreeIsListedWithItsOrigin(t *testing.T) {
	tr := tree.New()
	require.NoError(t, tr.WriteFile("/usr/bin/x", []byte("abc"), 0o4755, "deb:x_1"))
	files := Files(tr)
	require.Len(t, files, 4)
	require.Equal(t, File{Path: "/usr/bin/x", Type: "file", Mode: "4755", Size: 3, Origin: "deb:x_1"}, files[3])
}

func TestAGoProgramIsKnownByItsBuildInformation(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	program, err := os.ReadFile(exe)
	require.NoError(t, err)
	p, err := GoPayload("self", "v1.2.3", "/usr/bin/self", program)
	require.NoError(t, err)
	require.Len(t, p.SHA256, 64)
	require.EqualValues(t, len(program), p.Size)
	require.Equal(t, runtime.Version(), p.GoVersion)
	require.Equal(t, "spore", p.Main.Path)

	_, err = GoPayload("none", "", "/usr/bin/none", []byte("#!/bin/sh\n"))
	require.Error(t, err)
}

func TestAFileIsKnownByItsHash(t *testing.T) {
	p := FilePayload("server/codec.jar", "1.0", "/usr/share/server/libs/codec.jar", []byte("jar"))
	require.Equal(t, "0163f1eea7894350060624d315234d40c508ab251ba121714e234503045faadd", p.SHA256)
	require.EqualValues(t, 3, p.Size)
}

func TestAnAbsentPackageIsNoPart(t *testing.T) {
	m := Manifest{
		Packages:      []Package{{Name: "a"}, {Name: "dpkg", Absent: true}, {Name: "ipxe", Absent: true}},
		MediaPackages: []Package{{Name: "a"}, {Name: "ipxe"}},
	}
	var names []string
	for _, p := range m.Contained() {
		names = append(names, p.Name)
	}
	require.Equal(t, []string{"a", "ipxe"}, names)
}
