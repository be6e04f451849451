package pipeline

import "spore/cluster/spec"

// decisions are those of image.yaml about maintainer scripts, each with its lists in order. encoding/json, which hashes
// and writes them, sorts the packages.
func (b *build) decisions() map[string]spec.ScriptDecision {
	out := map[string]spec.ScriptDecision{}
	for name, d := range b.Config.Image.Scripts {
		out[name] = d.Sorted()
	}
	return out
}
