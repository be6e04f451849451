package sbom

import (
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"

	"spore/builder/dep5"
	"spore/builder/manifest"
)

const noAssertion = "NOASSERTION"

// purposes are the primary package purposes of SPDX (7.24), as its JSON schema spells them.
var purposes = map[kind]string{
	osKind: "OPERATING_SYSTEM", debKind: "LIBRARY", programKind: "APPLICATION", fileKind: "FILE", jarKind: "LIBRARY",
	moduleKind: "LIBRARY", containerKind: "CONTAINER",
}

// holding is how a part has what is inside it (11.1); a program has its modules linked in.
var holding = map[kind]string{programKind: common.TypeRelationshipStaticLink}

// SPDX writes the bill of materials of the image that a manifest describes as SPDX 2.3 JSON. name is that of the
// cluster.
func SPDX(w io.Writer, m manifest.Manifest, name string) error {
	d, err := newDocument(m, name)
	if err != nil {
		return err
	}
	image := &spdx.Package{
		PackageName: d.name, PackageSPDXIdentifier: "image", PackageVersion: d.version, PackageDownloadLocation: noAssertion,
		PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: noAssertion, PackageCopyrightText: noAssertion,
		PrimaryPackagePurpose: "OPERATING_SYSTEM",
	}
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: d.name,
		DocumentNamespace: d.id.URN(),
		CreationInfo:      &spdx.CreationInfo{Created: d.time, Creators: []common.Creator{{CreatorType: "Tool", Creator: strings.TrimSuffix("spore-"+d.version, "-")}}},
		Packages:          []*spdx.Package{image},
		Relationships:     []*spdx.Relationship{relation("DOCUMENT", common.TypeRelationshipDescribe, "image")},
		OtherLicenses:     references(d.parts),
	}
	ids := map[string]string{}
	for _, p := range d.parts {
		ids[p.ref] = p.id()
		doc.Packages = append(doc.Packages, spdxPackage(p))
	}
	for _, ref := range d.top {
		doc.Relationships = append(doc.Relationships, relation("image", common.TypeRelationshipContains, ids[ref]))
	}
	for _, p := range d.parts {
		how := holding[p.kind]
		if how == "" {
			how = common.TypeRelationshipContains
		}
		for _, ref := range p.holds {
			doc.Relationships = append(doc.Relationships, relation(ids[p.ref], how, ids[ref]))
		}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}

func relation(a, how, b string) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.MakeDocElementID("", a), RefB: common.MakeDocElementID("", b), Relationship: how}
}

func spdxPackage(p part) *spdx.Package {
	out := &spdx.Package{
		PackageName: p.name, PackageSPDXIdentifier: common.ElementID(p.id()), PackageVersion: p.version,
		// Mirrors are many, and the hash is what counts.
		PackageDownloadLocation: noAssertion,
		PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: noAssertion, PackageCopyrightText: noAssertion,
		PrimaryPackagePurpose: purposes[p.kind], PackageComment: p.share(),
	}
	if p.group != "" {
		out.PackageName = p.group + ":" + p.name
	}
	if p.kind == debKind || p.kind == osKind {
		out.PackageSupplier = &common.Supplier{SupplierType: "Organization", Supplier: "Debian"}
	}
	if p.license != "" {
		out.PackageLicenseDeclared = p.license
	}
	if p.sha256 != "" {
		out.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: p.sha256}}
	}
	switch {
	case p.source != "":
		out.PackageSourceInfo = "built from the Debian source package " + p.source
	case p.sum != "":
		out.PackageSourceInfo = "verified by the Go module sum " + p.sum + ", which is not a hash of a file"
	case p.path != "":
		out.PackageFileName = p.path
	}
	if p.purl != "" {
		out.PackageExternalReferences = []*spdx.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: p.purl}}
	}
	return out
}

// refPrefix begins every licence that the list of SPDX does not have (annex D).
const refPrefix = "LicenseRef-"

var reference = regexp.MustCompile(refPrefix + `[A-Za-z0-9.-]+`)

// references lists the licences of parts that the list of SPDX does not have, as each document has to.
func references(parts []part) []*spdx.OtherLicense {
	var names []string
	for _, p := range parts {
		names = append(names, reference.FindAllString(p.license, -1)...)
	}
	slices.Sort(names)
	var out []*spdx.OtherLicense
	for _, n := range slices.Compact(names) {
		name, debian := strings.CutPrefix(n, dep5.RefPrefix)
		if !debian {
			out = append(out, &spdx.OtherLicense{
				LicenseIdentifier: n, LicenseName: strings.TrimPrefix(n, refPrefix),
				ExtractedText: "Named in programs/ of the configuration; whoever brings the program has its text.",
			})
			continue
		}
		out = append(out, &spdx.OtherLicense{
			LicenseIdentifier: n, LicenseName: name,
			ExtractedText: "The image has the text in /usr/share/doc/PACKAGE/copyright of each package that names this licence; it can differ between packages.",
		})
	}
	return out
}
