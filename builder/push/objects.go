package push

import (
	"fmt"
	"maps"
	"slices"
)

// maxObjects is how many objects of manifests/ are named for each node.
const maxObjects = 20

// ObjectChanges says which objects of manifests/ a master would apply or remove, by those that it has (facts.Sums) and
// those of the update: sentences that begin behind the node's name.
func ObjectChanges(before, after map[string]string) []string {
	var out []string
	for _, name := range union(before, after) {
		was, is := before[name], after[name]
		switch {
		case is == "":
			out = append(out, "would remove "+name)
		case was == "":
			out = append(out, "would apply "+name+", which is new")
		case was != is:
			out = append(out, "would apply "+name+", which is another")
		}
	}
	if more := len(out) - maxObjects; more > 0 {
		out = append(out[:maxObjects], fmt.Sprintf("would apply or remove %d objects more", more))
	}
	return out
}

func union(a, b map[string]string) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	return slices.Compact(names)
}
