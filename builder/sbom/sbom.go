// Package sbom writes the bill of materials of an image in two forms: CycloneDX 1.6 JSON (ECMA-424) and SPDX 2.3 JSON.
//
// Both have the same parts: the Debian packages that the image has files of, the programs and jars that are none, the
// Go modules and the standard library inside each program, the artifacts that a jar says to hold inside, container
// images, and the files of the user's own in overlay/ and units/. The single files of packages are not in them: the
// manifest has those. What is inside a container image is not known here.
//
// Nothing in either form is random: the same manifest gives the same bytes. Times are the time of the build.
package sbom

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	purl "github.com/package-url/packageurl-go"

	"spore/builder/manifest"
)

// kind is what a part is.
type kind int

const (
	osKind kind = iota
	debKind
	programKind
	fileKind
	jarKind
	moduleKind
	containerKind
)

// part is one entry of a bill of materials.
type part struct {
	kind kind
	// ref names it inside the document.
	ref, group, name, version, purl string
	// path is where the image has it, sha256 the hash of the file that it is, or, for a package, came as.
	path, sha256 string
	// sum is the hash of a Go module in the form of go.sum, which is not a hash of a file.
	sum string
	// source is the source package, license an SPDX expression; both may be empty.
	source, license string
	// in and out count files of a package in the image and left out of it.
	in, out int
	// holds are the refs of what is inside it.
	holds []string
}

// document is what both forms are written of.
type document struct {
	name, version string
	time          string
	id            uuid.UUID
	// parts are in a fixed order, each ref once; top are the refs of those that the image holds by itself.
	parts []part
	top   []string
}

// newDocument lists the parts of an image with the name of its cluster.
func newDocument(m manifest.Manifest, name string) (*document, error) {
	m = m.WithoutFiles()
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	d := &document{
		name: name, version: m.Version, time: time.Unix(m.BuildTime, 0).UTC().Format(time.RFC3339),
		id: uuid.NewSHA1(uuid.NameSpaceOID, append([]byte("spore sbom\n"+name+"\n"), text...)),
	}
	d.addPackages(m)
	seen := map[string]bool{}
	for _, p := range append(slices.Clone(m.Payloads), m.BootPayloads...) {
		d.addPayload(p, seen)
	}
	for _, f := range m.Own {
		if f.SHA256 == "" {
			continue // a link or a directory
		}
		p := part{kind: fileKind, ref: "configuration:" + f.From, name: f.From, path: f.Path, sha256: f.SHA256}
		d.parts, d.top = append(d.parts, p), append(d.top, p.ref)
	}
	for _, i := range m.Images {
		p := part{kind: containerKind, ref: "image:" + i.File, name: i.Names[0], version: i.Digest, path: i.File, purl: ociURL(i)}
		d.parts, d.top = append(d.parts, p), append(d.top, p.ref)
	}
	return d, nil
}

// addPackages adds Debian as the operating system, and its packages as what that holds.
func (d *document) addPackages(m manifest.Manifest) {
	system := part{kind: osKind, ref: "os:debian", name: "debian", version: m.DebianVersion}
	at := len(d.parts)
	d.parts = append(d.parts, part{})
	for _, p := range m.Contained() {
		source, sourceVersion := sourceOf(p)
		c := part{
			kind: debKind, ref: "deb:" + p.Name, name: p.Name, version: p.Version, sha256: p.SHA256, license: p.License,
			purl:   DebianURL(m, p),
			source: source + " " + sourceVersion, in: p.FilesIn, out: p.FilesOut,
		}
		d.parts, system.holds = append(d.parts, c), append(system.holds, c.ref)
	}
	d.parts[at], d.top = system, append(d.top, system.ref)
}

// DebianURL is the package URL of a Debian package of an image (purl-spec, PURL-TYPES, deb). The qualifier upstream,
// with the source package where it has another name or version, and a distro of name and number are what grype goes by.
func DebianURL(m manifest.Manifest, p manifest.Package) string {
	distro := m.Suite
	if major, _, _ := strings.Cut(m.DebianVersion, "."); major != "" {
		distro = "debian-" + major
	}
	q := purl.Qualifiers{{Key: "arch", Value: p.Arch}, {Key: "distro", Value: distro}}
	switch source, version := sourceOf(p); {
	case version != p.Version:
		q = append(q, purl.Qualifier{Key: "upstream", Value: source + "@" + version})
	case source != p.Name:
		q = append(q, purl.Qualifier{Key: "upstream", Value: source})
	}
	return canonical(purl.NewPackageURL(purl.TypeDebian, "debian", p.Name, p.Version, q, ""))
}

// sourceOf is the source package of a package, and its version.
func sourceOf(p manifest.Package) (name, version string) {
	name, version, _ = strings.Cut(p.Source, " ")
	version = strings.Trim(version, "()")
	if name == "" {
		name = p.Name
	}
	if version == "" {
		version = p.Version
	}
	return name, version
}

func (d *document) addPayload(p manifest.Payload, seen map[string]bool) {
	c := part{kind: fileKind, ref: "payload:" + p.Name, name: p.Name, version: p.Version, path: p.Path, sha256: p.SHA256}
	c.license = p.License
	if p.Configured != "" {
		c.name = strings.TrimPrefix(p.Name, "programs/")
	}
	if p.Main != nil && p.Main.Sum != "" {
		c.purl = GolangURL(p.Main.Path, p.Main.Version)
	}
	at := len(d.parts)
	d.parts, d.top = append(d.parts, c), append(d.top, c.ref)
	hold := func(inner part) {
		c.holds = append(c.holds, inner.ref)
		if !seen[inner.ref] {
			seen[inner.ref] = true
			d.parts = append(d.parts, inner)
		}
	}
	if a := p.Artifact; a != nil {
		c.kind, c.group, c.name, c.version, c.purl = jarKind, a.Group, a.Name, a.Version, MavenURL(*a)
	}
	for _, a := range p.Bundled {
		url := MavenURL(a)
		hold(part{kind: jarKind, ref: "maven:" + a.Group + ":" + a.Name + ":" + a.Version, group: a.Group, name: a.Name, version: a.Version, purl: url})
	}
	if p.GoVersion != "" {
		c.kind = programKind
		// Of a development version such as "devel go1.27-abc" or one with experiments, the first word that is a version
		// counts.
		for _, word := range strings.Fields(p.GoVersion) {
			if version, ok := strings.CutPrefix(word, "go"); ok {
				url := GolangURL("stdlib", version)
				hold(part{kind: moduleKind, ref: "go:stdlib@" + version, name: "stdlib", version: version, purl: url, license: "BSD-3-Clause"})
				break
			}
		}
	}
	for _, mod := range p.Modules {
		url := GolangURL(mod.Path, mod.Version)
		hold(part{kind: moduleKind, ref: "go:" + mod.Path + "@" + mod.Version, name: mod.Path, version: mod.Version, purl: url, sum: mod.Sum})
	}
	d.parts[at] = c
}

// canonical is the form that the specification asks for, such as lower case where a type has it.
func canonical(u *purl.PackageURL) string {
	if err := u.Normalize(); err != nil {
		return "" // without a name, as of a module that is a folder
	}
	return u.ToString()
}

// MavenURL is the package URL of a jar (purl-spec, PURL-TYPES, maven).
func MavenURL(a manifest.Artifact) string {
	var q purl.Qualifiers
	if a.Classifier != "" {
		q = purl.Qualifiers{{Key: "classifier", Value: a.Classifier}}
	}
	return canonical(purl.NewPackageURL(purl.TypeMaven, a.Group, a.Name, a.Version, q, ""))
}

// GolangURL is the package URL of a Go module (purl-spec, PURL-TYPES, golang).
func GolangURL(module, version string) string {
	namespace, name := path.Split(module)
	return canonical(purl.NewPackageURL(purl.TypeGolang, strings.TrimSuffix(namespace, "/"), name, version, nil, ""))
}

// ociURL is the package URL of a container image (purl-spec, PURL-TYPES, oci); it is empty for an image that came from
// no registry.
func ociURL(i manifest.Image) string {
	name, digest, ok := strings.Cut(i.From, "@")
	if !ok || digest != i.Digest {
		return ""
	}
	repository, tag := name, ""
	if at := strings.LastIndexByte(name, ':'); at > strings.LastIndexByte(name, '/') {
		repository, tag = name[:at], name[at+1:]
	}
	q := purl.Qualifiers{{Key: "repository_url", Value: repository}}
	if tag != "" {
		q = append(q, purl.Qualifier{Key: "tag", Value: tag})
	}
	return canonical(purl.NewPackageURL(purl.TypeOCI, "", strings.ToLower(path.Base(repository)), digest, q, ""))
}

// share says in words how much of a package the image has; empty where it has all of it, or where that is not known.
func (p part) share() string {
	if p.out == 0 {
		return ""
	}
	return fmt.Sprintf("The image has %d of its %d files and links.", p.in, p.in+p.out)
}

// notInID is what the name of an SPDX element cannot have (idstring).
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// id is the part's name as an SPDX element. Where characters had to go, a hash keeps two of them apart.
func (p part) id() string {
	id := notInID.ReplaceAllString(p.ref, "-")
	if strings.ReplaceAll(p.ref, ":", "-") != id {
		sum := sha256.Sum256([]byte(p.ref))
		id += "-" + hex.EncodeToString(sum[:4])
	}
	return id
}
