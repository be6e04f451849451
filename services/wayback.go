package services

import (
	"io"

	"spore/services/dataversion"
)

// Data lists every kind of data that services keep on nodes, in the order of the list of services.
func (l *List) Data() []dataversion.Row {
	var out []dataversion.Row
	for _, s := range l.all {
		out = append(out, s.Data...)
	}
	return out
}

// Formats are the formats in which programs of ours write what they keep, by the name of the program.
func (l *List) Formats() map[string]string {
	out := map[string]string{}
	for _, r := range l.Data() {
		if r.Own != "" {
			out[r.Own] = r.Format
		}
	}
	return out
}

// DataVersions reads from the manifest of an image (dataversion.ManifestPath) which version it has of each program that
// keeps data, by the name of the data: etcd → v3.6.16. An update carries them, signed.
func (l *List) DataVersions(manifest io.Reader) (map[string]string, error) {
	return dataversion.ReadVersions(manifest, l.Data())
}

// WayBack judges the way back from a newer system to an older one, by the versions of each, for nodes with the roles;
// for all nodes without any.
func (l *List) WayBack(newer, older map[string]string, roles []string) []dataversion.Way {
	return dataversion.Back(l.Data(), newer, older, roles)
}
