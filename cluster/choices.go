package cluster

import (
	"reflect"

	"spore/cluster/spec"
)

// Choices returns the closed lists of values, by spec type and key ("Image.kernel"), for the JSON Schemas and the reference
// pages. The entries of a list are meant where the key holds one.
func Choices() map[string][]string {
	return map[string][]string{
		"Cluster.services":       serviceNames(),
		"Node.roles":             roleNames(),
		"Bond.mode":              bondModes,
		"Disk.use":               diskUses,
		"State.encrypt":          stateKeys,
		"State.withoutTPM":       withoutTPM,
		"MQTTACL.access":         mqttAccess,
		"KafkaACL.operations":    allKafkaOperations(),
		"CephPool.application":   poolApplications,
		"Ceph.failureDomain":     failureDomains,
		"Kubernetes.podSecurity": podSecurityLevels,
		"Kubernetes.audit":       auditLevels,
		"Image.suite":            suites,
		"Image.components":       components,
		"Image.kernel":           kernels,
		"Image.keep":             kept,
		"Image.formats":          spec.Formats,
	}
}

// Files returns, for each file of a configuration folder, its path with a star for what varies, the name of its schema, and
// an empty value of its Go type.
func Files() []File {
	out := []File{
		{clusterFile, "cluster", &spec.Cluster{}},
		{nodesDir + "/*.yaml", "node", &spec.NodeFile{}},
		{imageFile, "image", &spec.Image{}},
	}
	table := reflect.TypeFor[spec.Services]()
	for _, f := range fields(table) {
		out = append(out, File{servicesDir + "/" + f.name + ".yaml", f.name, reflect.New(table.Field(f.index).Type.Elem()).Interface()})
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
}
