package dataversion

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// ManifestPath is where an image carries its own manifest, without the list of its files.
const ManifestPath = "/usr/lib/spore/manifest.json"

// maxManifest bounds a manifest in bytes; that of the shipped image has one megabyte without its list of files, and
// with it 20.
const maxManifest = 256 << 20

// image is what of a manifest is looked at.
type image struct {
	Packages []struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		Absent  bool   `json:"absent"`
	} `json:"packages"`
	Payloads []struct {
		Name     string    `json:"name"`
		Version  string    `json:"version"`
		Format   string    `json:"format"`
		Artifact *struct{} `json:"artifact"`
	} `json:"payloads"`
}

// ReadVersions reads from the manifest of an image which version it has of the program of each row that keeps data, by
// the name of the row. What the image does not have is not in it.
func ReadVersions(manifest io.Reader, rows []Row) (map[string]string, error) {
	var m image
	// A manifest that is cut off by the bound is no JSON.
	if err := json.NewDecoder(io.LimitReader(manifest, maxManifest)).Decode(&m); err != nil {
		return nil, fmt.Errorf("read the manifest of an image: %w", err)
	}
	out := map[string]string{}
	for _, r := range rows {
		if r.Judge == nil {
			continue
		}
		version, err := m.version(r)
		if err != nil {
			return nil, fmt.Errorf("find the version of %s in the manifest of an image: %w", r.Name, err)
		}
		if version != "" {
			out[r.Name] = version
		}
	}
	if err := Check(out); err != nil {
		return nil, fmt.Errorf("read the manifest of an image: %w", err)
	}
	return out, nil
}

// version is that of a row's program; empty where the image has none.
func (m *image) version(r Row) (string, error) {
	found := ""
	add := func(version string) error {
		if found != "" && found != version {
			return fmt.Errorf("it has two, %.64q and %.64q", found, version)
		}
		found = version
		return nil
	}
	for _, p := range m.Packages {
		if r.Package != "" && p.Name == r.Package && !p.Absent {
			if err := add(p.Version); err != nil {
				return "", err
			}
		}
	}
	for _, p := range m.Payloads {
		if r.Own != "" && p.Name == r.Own && p.Format != "" {
			if err := add(p.Format); err != nil {
				return "", err
			}
		}
		// The jars of a payload have versions of their own; its other files have the payload's.
		if r.Payload != "" && p.Artifact == nil && (p.Name == r.Payload || strings.HasPrefix(p.Name, r.Payload+"/")) {
			if err := add(p.Version); err != nil {
				return "", err
			}
		}
	}
	return found, nil
}
