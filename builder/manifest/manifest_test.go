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

func TestAJarIsKnownByItsArtifact(t *testing.T) {
	p := FilePayload("server/codec-1.0-linux_amd64.jar", "1.0", "/usr/share/server/libs/codec-1.0-linux_amd64.jar", []byte("jar"))
	require.Equal(t, "0163f1eea7894350060624d315234d40c508ab251ba121714e234503045faadd", p.SHA256)
	require.EqualValues(t, 3, p.Size)
	p.Artifact = &Artifact{Group: "org.example", Name: "codec", Version: "1.0", Classifier: "linux_amd64"}
	m := Manifest{Payloads: []Payload{p, {Name: "server/other.jar", Artifact: &Artifact{Group: "org.example", Name: "other", Version: "2"}}}}
	var out bytes.Buffer
	require.NoError(t, m.SBOM(&out, "plant"))
	var bom cdx.BOM
	require.NoError(t, cdx.NewBOMDecoder(&out, cdx.BOMFileFormatJSON).Decode(&bom))
	first, second := (*bom.Components)[0], (*bom.Components)[1]
	require.Equal(t, cdx.ComponentTypeLibrary, first.Type)
	require.Equal(t, "org.example", first.Group)
	require.Equal(t, "codec", first.Name)
	require.Equal(t, "pkg:maven/org.example/codec@1.0?classifier=linux_amd64", first.PackageURL)
	require.Equal(t, p.SHA256, (*first.Hashes)[0].Value)
	require.Equal(t, "pkg:maven/org.example/other@2", second.PackageURL)
	require.NotEqual(t, first.BOMRef, second.BOMRef)
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
