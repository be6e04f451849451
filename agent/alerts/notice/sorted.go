package notice

import (
	"maps"
	"slices"
)

// first are the first names of labels in their order.
func first(labels map[string]string, most int) []string {
	names := slices.Sorted(maps.Keys(labels))
	return names[:min(len(names), most)]
}
