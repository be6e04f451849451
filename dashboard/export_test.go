package dashboard

import (
	"maps"
	"slices"
)

// Remedies are the commands for a condition of a node, for the test that knows all commands.
var Remedies = func(dir, node string) []string {
	var out []string
	for condition := range remedies {
		out = append(out, remedy(dir, condition, node)...)
	}
	return out
}

// Conditions are those with commands of their own.
var Conditions = func() []string { return slices.Collect(maps.Keys(remedies)) }
