package manifest

import (
	"bytes"
	"os"
	"runtime"
	"strings"
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
	p, err := GoPayload("self", "v1.2.3", "/usr/bin/self", bytes.NewReader(program), int64(len(program)))
	require.NoError(t, err)
	require.Len(t, p.SHA256, 64)
	require.EqualValues(t, len(program), p.Size)
	require.Equal(t, runtime.Version(), p.GoVersion)
	require.Equal(t, "spore", p.Main.Path)

	_, err = GoPayload("none", "", "/usr/bin/none", strings.NewReader("#!/bin/sh\n"), 10)
	require.Error(t, err)
}

func TestAFileIsKnownByItsHash(t *testing.T) {
	p, err := FilePayload("server/codec.jar", "1.0", "/usr/share/server/libs/codec.jar", strings.NewReader("jar"), 3)
	require.NoError(t, err)
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

func TestAListOfFilesThatWasEncodedBeforeIsPutIn(t *testing.T) {
	m := Manifest{Format: 1, Suite: "trixie", Programs: []string{"<&>"}, Files: []File{
		{Path: "/usr", Type: "dir", Mode: "0755", Origin: "recipe"}, {Path: "/usr/<a>", Type: "file", Mode: "0644", Size: 7, Origin: "deb:a_1"},
	}}
	var whole, put bytes.Buffer
	require.NoError(t, m.Encode(&whole))
	list, err := ListFiles(m.Files)
	require.NoError(t, err)
	m.Files = []File{{Path: "/another"}}
	require.NoError(t, m.EncodeWith(&put, list))
	require.Equal(t, whole.String(), put.String())
}
