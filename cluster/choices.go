package cluster

import (
	"maps"

	"spore/cluster/answers"
	"spore/cluster/overlay"
	"spore/cluster/programs"
	"spore/cluster/role"
	"spore/cluster/spec"
	"spore/services"
)

// Choices returns the closed lists of values, by spec type and key ("Image.kernel"), for the JSON Schemas and the
// reference pages. The entries of a list are meant where the key holds one.
func Choices() map[string][]string {
	return map[string][]string{
		"Cluster.services":    services.Ours().Names(),
		"Node.roles":          roleNames(services.Ours()),
		"Bond.mode":           bondModes,
		"Disk.use":            ourUses,
		"State.encrypt":       spec.Encrypts,
		"State.withoutTPM":    withoutTPM,
		"Image.suite":         suites,
		"Image.components":    components,
		"Image.kernel":        kernels,
		"Image.keep":          kept,
		"Image.shell":         shells,
		"Image.formats":       spec.Formats,
		"ScriptDecision.skip": spec.SkippableScripts,
	}
}

// ownName is the form of the name of a role of the user's own (roles/NAME.yaml), and of its service.
const ownName = "^[a-z][a-z0-9-]{0,30}[a-z0-9]$"

// open are the keys of Choices whose lists a folder adds names of this form to: those of its own roles.
func open() map[string]string {
	return map[string]string{"Cluster.services": ownName, "Node.roles": ownName}
}

// Files returns, for each file of a configuration folder, and for an answer file, its path with a star for what varies,
// the name of its schema, and an empty value of its Go type.
func Files() []File {
	out := []File{
		{clusterFile, "cluster", &spec.Cluster{}, Choices(), open()},
		{nodesDir + "/*.yaml", "node", &spec.NodeFile{}, Choices(), open()},
		{imageFile, "image", &spec.Image{}, Choices(), nil},
		{role.Dir + "/*.yaml", "role", &role.Definition{}, role.Choices(), nil},
		{overlay.SettingsFile, "overlay", &overlay.Settings{}, Choices(), nil},
		{programsDir + "/*.yaml", "program", &programs.Program{}, Choices(), nil},
		{answers.Name, "answers", &spec.Answers{}, answers.Choices(), nil},
	}
	for _, s := range services.Ours().All() {
		closed := Choices()
		maps.Copy(closed, s.Choices)
		out = append(out, File{servicesDir + "/" + s.Name + ".yaml", s.Name, s.Settings(), closed, nil})
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
	// Open has, for those keys of Choices whose list the folder adds to, the regular expression of what it adds.
	Open map[string]string
}
