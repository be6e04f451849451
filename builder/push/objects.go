package push

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"spore/wire/update"
)

// maxObjects is how many objects of manifests/ are named for each node.
const maxObjects = 20

// ObjectChanges says which objects of manifests/ a master would apply or remove, by those that it has (facts.Sums) and
// those of the update: sentences that begin behind the node's name. kept says of objects of the cluster that they stay,
// or what they define; more says that others stay, too, which it does not name.
func ObjectChanges(before, after map[string]string, kept map[string]update.Kept, more bool) []string {
	var out []string
	for _, name := range union(before, after) {
		was, is := before[name], after[name]
		switch {
		case is == "":
			out = append(out, removal(name, after, kept, more))
		case was == "":
			out = append(out, "would apply "+name+", which is new")
		case was != is:
			out = append(out, "would apply "+name+", which is another")
		}
	}
	if rest := len(out) - maxObjects; rest > 0 {
		out = append(out[:maxObjects], fmt.Sprintf("would apply, remove or leave %d objects more", rest))
	}
	return out
}

// removal says what becomes of an object that the update does not have. It stays by itself, or by what lies in it or is
// of it, as the masters hold it (package applyset).
func removal(name string, after map[string]string, kept map[string]update.Kept, more bool) string {
	remove, leave := "would remove "+name, "would leave "+name+" as it is, "
	if more {
		remove = "would remove " + name + ", or leave it: which is not known, since more objects stay than masters tell of"
	}
	if why := kept[name].Why; why != "" {
		return leave + "which " + why
	}
	within, lies := "", ""
	if namespace, is := strings.CutPrefix(name, "Namespace "); is {
		within, lies = namespace, "lies in it"
	} else if kept[name].Defines != "" {
		within, lies = kept[name].Defines, "is of it"
	} else {
		return remove
	}
	in := func(other string) bool {
		kind, place, _ := strings.Cut(other, " ")
		namespace, _, namespaced := strings.Cut(place, "/")
		return kind == within && lies == "is of it" || namespaced && namespace == within && lies == "lies in it"
	}
	for _, other := range slices.Sorted(maps.Keys(after)) {
		if in(other) {
			return leave + "since " + other + " " + lies + ", which manifests/ has"
		}
	}
	for _, other := range slices.Sorted(maps.Keys(kept)) {
		if kept[other].Why != "" && in(other) {
			return leave + "since " + other + " " + lies + ", which " + kept[other].Why
		}
	}
	return remove
}

func union(a, b map[string]string) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	return slices.Compact(names)
}
