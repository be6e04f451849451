package sbom

import (
	"io"
	"strconv"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"spore/builder/manifest"
)

// componentTypes are those of CycloneDX.
var componentTypes = map[kind]cdx.ComponentType{
	osKind: cdx.ComponentTypeOS, debKind: cdx.ComponentTypeLibrary, programKind: cdx.ComponentTypeApplication,
	fileKind: cdx.ComponentTypeFile, jarKind: cdx.ComponentTypeLibrary, moduleKind: cdx.ComponentTypeLibrary,
	containerKind: cdx.ComponentTypeContainer,
}

// imageRef names the image in the document.
const imageRef = "spore-image"

// CycloneDX writes the bill of materials of the image that a manifest describes as CycloneDX 1.6 JSON. name is that of the
// cluster.
func CycloneDX(w io.Writer, m manifest.Manifest, name string) error {
	d, err := newDocument(m, name)
	if err != nil {
		return err
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = d.id.URN()
	bom.Metadata = &cdx.Metadata{
		Timestamp: d.time,
		Tools:     &cdx.ToolsChoice{Components: &[]cdx.Component{{Type: cdx.ComponentTypeApplication, Name: "spore", Version: d.version}}},
		// Not "operating-system": scanners take the one component of that type for the release whose packages these are.
		Component: &cdx.Component{BOMRef: imageRef, Type: cdx.ComponentTypePlatform, Name: d.name, Version: d.version},
	}
	components := make([]cdx.Component, 0, len(d.parts))
	dependencies := []cdx.Dependency{{Ref: imageRef, Dependencies: &d.top}}
	var opaque []cdx.BOMReference
	for _, p := range d.parts {
		components = append(components, component(p))
		if len(p.holds) > 0 {
			dependencies = append(dependencies, cdx.Dependency{Ref: p.ref, Dependencies: &p.holds})
		}
		if p.kind == containerKind {
			opaque = append(opaque, cdx.BOMReference(p.ref))
		}
	}
	bom.Components, bom.Dependencies = &components, &dependencies
	if len(opaque) > 0 {
		bom.Compositions = &[]cdx.Composition{{Aggregate: cdx.CompositionAggregateUnknown, Assemblies: &opaque}}
	}
	e := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON)
	e.SetPretty(true)
	return e.EncodeVersion(bom, cdx.SpecVersion1_6)
}

func component(p part) cdx.Component {
	c := cdx.Component{Type: componentTypes[p.kind], BOMRef: p.ref, Group: p.group, Name: p.name, Version: p.version, PackageURL: p.purl}
	if p.sha256 != "" {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: p.sha256}}
	}
	if p.license != "" {
		c.Licenses = &cdx.Licenses{{Expression: p.license}}
	}
	if p.path != "" {
		c.Evidence = &cdx.Evidence{Occurrences: &[]cdx.EvidenceOccurrence{{Location: p.path}}}
	}
	var properties []cdx.Property
	if p.source != "" {
		properties = append(properties, cdx.Property{Name: "spore:source", Value: p.source})
	}
	if p.in+p.out > 0 {
		properties = append(properties, cdx.Property{Name: "spore:filesIn", Value: strconv.Itoa(p.in)}, cdx.Property{Name: "spore:filesOut", Value: strconv.Itoa(p.out)})
	}
	// The algorithms of CycloneDX are of files, and this is a hash over the hashes of a module's files.
	if p.sum != "" {
		properties = append(properties, cdx.Property{Name: "spore:goSum", Value: p.sum})
	}
	if properties != nil {
		c.Properties = &properties
	}
	return c
}
