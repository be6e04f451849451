package cluster

import (
	"maps"

	"spore/cluster/spec"
	"spore/services"
)

// Choices returns the closed lists of values, by spec type and key ("Image.kernel"), for the JSON Schemas and the reference
// pages. The entries of a list are meant where the key holds one.
func Choices() map[string][]string {
	return map[string][]string{
		"Cluster.services":    services.Names(),
		"Node.roles":          roleNames(),
		"Bond.mode":           bondModes,
		"Disk.use":            diskUses,
		"State.encrypt":       stateKeys,
		"State.withoutTPM":    withoutTPM,
		"Image.suite":         suites,
		"Image.components":    components,
		"Image.kernel":        kernels,
		"Image.keep":          kept,
		"Image.formats":       spec.Formats,
		"ScriptDecision.skip": spec.SkippableScripts,
	}
}

// Files returns, for each file of a configuration folder, its path with a star for what varies, the name of its schema, and
// an empty value of its Go type.
func Files() []File {
	out := []File{
		{clusterFile, "cluster", &spec.Cluster{}, Choices()},
		{nodesDir + "/*.yaml", "node", &spec.NodeFile{}, Choices()},
		{imageFile, "image", &spec.Image{}, Choices()},
	}
	for _, s := range services.All() {
		closed := Choices()
		maps.Copy(closed, s.Choices)
		out = append(out, File{servicesDir + "/" + s.Name + ".yaml", s.Name, s.Settings(), closed})
	}
	return out
}

// File is a kind of file in a configuration folder.
type File struct {
	// Path is inside the folder; * stands for any name.
	Path string
	// Schema is the name of its JSON Schema, without .json.
	Schema string
	// Type points to a value of its Go type.
	Type any
	// Choices has the closed lists of values, by Go type and key.
	Choices map[string][]string
}
