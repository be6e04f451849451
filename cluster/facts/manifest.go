package facts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// Manifest is an object of manifests/ of the configuration.
type Manifest struct {
	// File and Line say where it was written.
	File string `json:"file"`
	Line int    `json:"line"`
	// Object is what is applied, in the form of JSON.
	Object map[string]any `json:"object"`
}

// MaxManifests bounds the file of all manifests in bytes. The form of JSON is mostly no longer than twice what was
// written; a key without a value is four times as long. What is longer is not compiled, and would not be read.
const MaxManifests = 64 << 20

// Name is how an object is called: Deployment.apps web/shop, or Namespace web.
func (m Manifest) Name() string {
	text := func(v any, key string) string {
		o, _ := v.(map[string]any)
		s, _ := o[key].(string)
		return s
	}
	kind, metadata := text(m.Object, "kind"), m.Object["metadata"]
	if group, _, ok := strings.Cut(text(m.Object, "apiVersion"), "/"); ok {
		kind += "." + group
	}
	if namespace := text(metadata, "namespace"); namespace != "" {
		return kind + " " + namespace + "/" + text(metadata, "name")
	}
	return kind + " " + text(metadata, "name")
}

// Sums has, for each object by its name, a short hash that tells it from another state of it.
func Sums(list []Manifest) map[string]string {
	out := make(map[string]string, len(list))
	for _, m := range list {
		text, _ := json.Marshal(m.Object) // It came from JSON or YAML, and has nothing that JSON has not.
		sum := sha256.Sum256(text)
		out[m.Name()] = hex.EncodeToString(sum[:8])
	}
	return out
}
