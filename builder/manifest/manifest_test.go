package manifest

import (
	"bytes"
	"os"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/require"

	"spore/builder/tree"
)

func sample() Manifest {
	return Manifest{
		Format: 1, BuildTime: 1_700_000_000, Suite: "trixie", Kernel: "6.12.1-amd64",
		Packages: []Package{{Name: "mosquitto", Version: "2.0.21-1", Arch: "amd64", SHA256: "00"}},
		Payloads: []Payload{{Name: "coredns", Version: "v1.15.0", SHA256: "11", Modules: []Module{{Path: "example.test/m", Version: "v1.0.0"}}}},
		Images:   []Image{{File: "/usr/share/spore/images/pause.tar", Names: []string{"spore.local/pause:1"}, Digest: "sha256:22", Size: 9, From: "payload pause"}},
	}
}

func TestTheSBOMIsReadableAndTheSameTwice(t *testing.T) {
	var a, b bytes.Buffer
	require.NoError(t, sample().SBOM(&a, "plant"))
	require.NoError(t, sample().SBOM(&b, "plant"))
	require.Equal(t, a.String(), b.String())

	var bom cdx.BOM
	require.NoError(t, cdx.NewBOMDecoder(&a, cdx.BOMFileFormatJSON).Decode(&bom))
	require.Len(t, *bom.Components, 3)
	require.Equal(t, cdx.ComponentTypeContainer, (*bom.Components)[2].Type)
	require.Equal(t, "22", (*(*bom.Components)[2].Hashes)[0].Value)
	require.Equal(t, "pkg:deb/debian/mosquitto@2.0.21-1?arch=amd64&distro=trixie", (*bom.Components)[0].PackageURL)
	require.Len(t, *(*bom.Components)[1].Components, 1)
}

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

	_, err = GoPayload("none", "", "/usr/bin/none", []byte("#!/bin/sh\n"))
	require.Error(t, err)
}
