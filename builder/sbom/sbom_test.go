package sbom

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
	spdxjson "github.com/spdx/tools-golang/json"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
	"github.com/stretchr/testify/require"

	"spore/builder/manifest"
)

var digest = strings.Repeat("ab", 32)

func sample() manifest.Manifest {
	module := manifest.Module{Path: "example.test/M", Version: "v1.0.0", Sum: "h1:Khu2En+0gcYPZ2kuIihfswbzxv/mIHXgzPZ018Oty48="}
	return manifest.Manifest{
		Format: 1, BuildTime: 1_700_000_000, Version: "0.1", Suite: "trixie", DebianVersion: "13.5", Kernel: "6.12.1-amd64",
		Packages: []manifest.Package{
			{Name: "libstdc++6", Version: "14.2.0-19", Arch: "amd64", Source: "gcc-14", SHA256: digest, FilesIn: 3, FilesOut: 2, License: "GPL-3.0-only WITH GCC-exception-3.1 AND LicenseRef-debian-GPL"},
			{Name: "e2fsprogs", Version: "1:1.47.2-3+b10", Arch: "amd64", Source: "e2fsprogs (1.47.2-3)", SHA256: digest, FilesIn: 4},
			{Name: "dpkg", Version: "1.22", Arch: "amd64", SHA256: digest, FilesOut: 9, Absent: true},
		},
		Payloads: []manifest.Payload{
			{Name: "coredns", Version: "v1.15.0", Path: "/usr/bin/coredns", SHA256: digest, GoVersion: "go1.26.1 X:jsonv2", Modules: []manifest.Module{module}},
			{Name: "other", Path: "/usr/bin/other", SHA256: digest, GoVersion: "go1.26.1", Modules: []manifest.Module{module}},
			{Name: "server/codec.jar", Path: "/usr/share/server/codec.jar", SHA256: digest,
				Artifact: &manifest.Artifact{Group: "org.example", Name: "codec", Version: "1.0", Classifier: "linux_amd64"},
				Bundled:  []manifest.Artifact{{Group: "org.shaded", Name: "inner", Version: "3"}}},
			{Name: "server/run.sh", Path: "/usr/bin/run", SHA256: digest},
			{Name: "programs/tool", Version: "v1.2.3", Path: "/usr/bin/tool", SHA256: digest, GoVersion: "go1.26.1",
				Configured: "programs/tool.yaml", License: "MIT OR LicenseRef-Acme",
				Main: &manifest.Module{Path: "example.test/tool", Version: "v1.2.3", Sum: module.Sum}},
		},
		BootPayloads: []manifest.Payload{{Name: "init", Path: "initramfs:/init", SHA256: digest, GoVersion: "go1.26.1"}},
		Images: []manifest.Image{
			{File: "/usr/share/spore/images/pause.tar", Names: []string{"spore.local/pause:1"}, Digest: "sha256:" + digest, From: "payload pause"},
			{File: "/usr/share/spore/images/2-app.tar", Names: []string{"r.test:5000/team/app:1.2"}, Digest: "sha256:" + digest, From: "r.test:5000/team/App:1.2@sha256:" + digest},
		},
		Own: []manifest.OwnFile{
			{From: "overlay/etc/line", Path: "/etc/line", Type: "file", SHA256: strings.Repeat("cd", 32)},
			{From: "overlay/etc/link", Path: "/etc/link", Type: "symlink", Target: "line"},
		},
		Files: []manifest.File{{Path: "/usr/bin/coredns"}},
	}
}

func written(t *testing.T, m manifest.Manifest, write func(io.Writer, manifest.Manifest, string) error) []byte {
	var a, b bytes.Buffer
	require.NoError(t, write(&a, m, "plant"))
	require.NoError(t, write(&b, m, "plant"))
	require.Equal(t, a.String(), b.String())
	return a.Bytes()
}

// bill is the CycloneDX form by the refs of its components, and what each depends on.
func bill(t *testing.T, m manifest.Manifest) (cdx.BOM, map[string]cdx.Component, map[string][]string) {
	var bom cdx.BOM
	require.NoError(t, cdx.NewBOMDecoder(bytes.NewReader(written(t, m, CycloneDX)), cdx.BOMFileFormatJSON).Decode(&bom))
	components, holds := map[string]cdx.Component{}, map[string][]string{}
	for _, c := range *bom.Components {
		require.NotContains(t, components, c.BOMRef, "each ref once")
		components[c.BOMRef] = c
	}
	for _, d := range *bom.Dependencies {
		holds[d.Ref] = *d.Dependencies
	}
	return bom, components, holds
}

func TestTheBillSaysWhatTheImageHolds(t *testing.T) {
	bom, components, holds := bill(t, sample())
	require.Equal(t, "2023-11-14T22:13:20Z", bom.Metadata.Timestamp)
	require.NotContains(t, components, "deb:dpkg", "of which nothing is there")

	lib := components["deb:libstdc++6"]
	require.Equal(t, "pkg:deb/debian/libstdc%2B%2B6@14.2.0-19?arch=amd64&distro=debian-13&upstream=gcc-14", lib.PackageURL)
	require.Equal(t, digest, (*lib.Hashes)[0].Value)
	require.Equal(t, []cdx.Property{{Name: "spore:source", Value: "gcc-14 14.2.0-19"}, {Name: "spore:filesIn", Value: "3"}, {Name: "spore:filesOut", Value: "2"}}, *lib.Properties)
	require.Equal(t, "GPL-3.0-only WITH GCC-exception-3.1 AND LicenseRef-debian-GPL", (*lib.Licenses)[0].Expression)
	require.Equal(t, "pkg:deb/debian/e2fsprogs@1:1.47.2-3%2Bb10?arch=amd64&distro=debian-13&upstream=e2fsprogs%401.47.2-3", components["deb:e2fsprogs"].PackageURL)

	require.Equal(t, cdx.ComponentTypeOS, components["os:debian"].Type)
	require.Equal(t, "13.5", components["os:debian"].Version)
	require.Equal(t, []string{"deb:libstdc++6", "deb:e2fsprogs"}, holds["os:debian"])
	require.Contains(t, holds[imageRef], "os:debian")
	require.Contains(t, holds[imageRef], "payload:init")

	const module, stdlib = "go:example.test/M@v1.0.0", "go:stdlib@1.26.1"
	require.Equal(t, []string{stdlib, module}, holds["payload:coredns"])
	require.Equal(t, []string{stdlib, module}, holds["payload:other"])
	require.Equal(t, "example.test/M", components[module].Name)
	require.Equal(t, "pkg:golang/example.test/m@v1.0.0", components[module].PackageURL)
	require.Equal(t, "pkg:golang/stdlib@1.26.1", components[stdlib].PackageURL)
	require.Nil(t, components[module].Hashes, "a sum of go.sum is not a hash of a file")
	require.Equal(t, "h1:Khu2En+0gcYPZ2kuIihfswbzxv/mIHXgzPZ018Oty48=", (*components[module].Properties)[0].Value)

	jar := components["payload:server/codec.jar"]
	require.Equal(t, "pkg:maven/org.example/codec@1.0?classifier=linux_amd64", jar.PackageURL)
	require.Equal(t, []string{"maven:org.shaded:inner:3"}, holds["payload:server/codec.jar"])
	require.Equal(t, cdx.ComponentTypeFile, components["payload:server/run.sh"].Type)

	require.Empty(t, components["image:/usr/share/spore/images/pause.tar"].PackageURL, "from no registry")
	require.Equal(t, "pkg:oci/app@sha256:"+digest+"?repository_url=r.test:5000%2Fteam%2FApp&tag=1.2", components["image:/usr/share/spore/images/2-app.tar"].PackageURL)
	require.Equal(t, cdx.CompositionAggregateUnknown, (*bom.Compositions)[0].Aggregate)
	require.Len(t, *(*bom.Compositions)[0].Assemblies, 2)
}

func TestTheSerialNumberIsOfTheContent(t *testing.T) {
	a, _, _ := bill(t, sample())
	m := sample()
	m.Files = nil
	same, _, _ := bill(t, m)
	require.Equal(t, a.SerialNumber, same.SerialNumber, "files are in the manifest alone")
	m.Packages[0].SHA256 = strings.Repeat("cd", 32)
	other, _, _ := bill(t, m)
	require.NotEqual(t, a.SerialNumber, other.SerialNumber)
	require.True(t, strings.HasPrefix(a.SerialNumber, "urn:uuid:"))
}

func TestSPDXSaysTheSame(t *testing.T) {
	doc := &spdx.Document{}
	require.NoError(t, spdxjson.ReadInto(bytes.NewReader(written(t, sample(), SPDX)), doc))
	require.NoError(t, spdxlib.ValidateDocument(doc))
	_, components, _ := bill(t, sample())
	require.Len(t, doc.Packages, len(components)+1, "and the image")

	byName := map[string]*spdx.Package{}
	for _, p := range doc.Packages {
		byName[p.PackageName] = p
	}
	lib := byName["libstdc++6"]
	require.Equal(t, "GPL-3.0-only WITH GCC-exception-3.1 AND LicenseRef-debian-GPL", lib.PackageLicenseDeclared)
	require.Equal(t, "The image has 3 of its 5 files and links.", lib.PackageComment)
	require.Empty(t, byName["e2fsprogs"].PackageComment, "all of it is there")
	require.Equal(t, "NOASSERTION", byName["e2fsprogs"].PackageLicenseDeclared)
	require.Contains(t, lib.PackageSourceInfo, "gcc-14 14.2.0-19")
	require.Equal(t, digest, lib.PackageChecksums[0].Value)
	require.Empty(t, byName["example.test/M"].PackageChecksums)
	require.Contains(t, byName["example.test/M"].PackageSourceInfo, "h1:Khu2")
	require.Len(t, doc.OtherLicenses, 2)
	require.Equal(t, "LicenseRef-Acme", doc.OtherLicenses[0].LicenseIdentifier)
	require.Equal(t, "LicenseRef-debian-GPL", doc.OtherLicenses[1].LicenseIdentifier)
	require.Equal(t, "org.shaded:inner", byName["org.shaded:inner"].PackageName)

	related := map[string]bool{}
	for _, r := range doc.Relationships {
		related[string(r.RefA.ElementRefID)+" "+r.Relationship+" "+string(r.RefB.ElementRefID)] = true
	}
	id := func(name string) string { return string(byName[name].PackageSPDXIdentifier) }
	require.True(t, related["DOCUMENT DESCRIBES image"])
	require.True(t, related["image CONTAINS "+id("debian")])
	require.True(t, related[id("debian")+" CONTAINS "+id("libstdc++6")])
	require.True(t, related[id("coredns")+" STATIC_LINK "+id("stdlib")])
}

func TestTwoNamesThatLookAlikeAreTwoElements(t *testing.T) {
	require.NotEqual(t, part{ref: "deb:a+b"}.id(), part{ref: "deb:a-b"}.id())
	require.Equal(t, "deb-zlib1g", part{ref: "deb:zlib1g"}.id())
}

// The schemas are those that the projects publish.
func TestBothFormsAreValidByTheirSchemas(t *testing.T) {
	cdxSchema := schema(t, "http://cyclonedx.org/schema/bom-1.6.schema.json", map[string]string{
		"http://cyclonedx.org/schema/bom-1.6.schema.json":  cycloneDXFile(t, "bom-1.6.schema.json"),
		"http://cyclonedx.org/schema/spdx.schema.json":     cycloneDXFile(t, "spdx.schema.json"),
		"http://cyclonedx.org/schema/jsf-0.82.schema.json": cycloneDXFile(t, "jsf-0.82.schemax.json"),
	})
	spdxSchema := schema(t, "http://spdx.org/rdf/terms/2.3", map[string]string{"http://spdx.org/rdf/terms/2.3": filepath.Join("testdata", "spdx-schema-2.3.json")})
	valid := func(s *jsonschema.Schema, text []byte) error {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err)
		return s.Validate(v)
	}
	for _, m := range []manifest.Manifest{sample(), {Suite: "trixie"}} {
		require.NoError(t, valid(cdxSchema, written(t, m, CycloneDX)))
		require.NoError(t, valid(spdxSchema, written(t, m, SPDX)))
	}
	// The schemas look: what is wrong is refused.
	broken := bytes.Replace(written(t, sample(), CycloneDX), []byte(`"SHA-256"`), []byte(`"SHA-255"`), 1)
	require.Error(t, valid(cdxSchema, broken))
	broken = bytes.Replace(written(t, sample(), SPDX), []byte(`"SHA256"`), []byte(`"SHA255"`), 1)
	require.Error(t, valid(spdxSchema, broken))
}

func cycloneDXFile(t *testing.T, name string) string {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	require.NoError(t, err)
	return filepath.Join(strings.TrimSpace(string(dir)), "schema", name)
}

func schema(t *testing.T, url string, files map[string]string) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for url, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err)
		require.NoError(t, c.AddResource(url, v))
	}
	s, err := c.Compile(url)
	require.NoError(t, err)
	return s
}

func TestPackagesOfMediaAreNamedOnce(t *testing.T) {
	m := manifest.Manifest{
		Packages:      []manifest.Package{{Name: "isolinux", Version: "1"}},
		MediaPackages: []manifest.Package{{Name: "isolinux", Version: "1"}, {Name: "syslinux-common", Version: "1"}},
	}
	var out strings.Builder
	require.NoError(t, CycloneDX(&out, m, "x"))
	require.Equal(t, 1, strings.Count(out.String(), `"bom-ref": "deb:isolinux"`))
	require.Equal(t, 1, strings.Count(out.String(), `"bom-ref": "deb:syslinux-common"`))
}

func TestFilesOfTheConfigurationAreParts(t *testing.T) {
	_, components, holds := bill(t, sample())
	own := components["configuration:overlay/etc/line"]
	require.Equal(t, cdx.ComponentTypeFile, own.Type)
	require.Equal(t, "overlay/etc/line", own.Name)
	require.Equal(t, strings.Repeat("cd", 32), (*own.Hashes)[0].Value)
	require.Equal(t, "/etc/line", (*own.Evidence.Occurrences)[0].Location)
	require.Contains(t, holds[imageRef], "configuration:overlay/etc/line")
	require.NotContains(t, components, "configuration:overlay/etc/link", "a link has no content")
}

func TestProgramsOfTheUsersOwnHaveTheirLicence(t *testing.T) {
	_, components, holds := bill(t, sample())
	tool := components["payload:programs/tool"]
	require.Equal(t, "tool v1.2.3", tool.Name+" "+tool.Version)
	require.Equal(t, "pkg:golang/example.test/tool@v1.2.3", tool.PackageURL)
	require.Equal(t, "MIT OR LicenseRef-Acme", (*tool.Licenses)[0].Expression)
	require.Contains(t, holds[imageRef], "payload:programs/tool")
	require.Nil(t, components["payload:other"].Licenses)

	text := string(written(t, sample(), SPDX))
	require.Contains(t, text, `"licenseDeclared": "MIT OR LicenseRef-Acme"`)
	require.Contains(t, text, `"extractedText": "Named in programs/ of the configuration; whoever brings the program has its text."`)
}
