package manifests

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

// kindsText is what the API server of an image serves, Calico's kinds among them: one kind a line, with its apiVersion,
// where its objects lie (namespaced or cluster), and whether they are kept or only asked, as a review is. A test with a
// real API server compares it (test/services, kinds_test.go), and writes it anew when another release is pinned.
//
//go:embed kinds.txt
var kindsText string

// kind is a kind by its group; versions are those that are served.
type kind struct {
	group, name string
	versions    []string
	// scope is unknown for a kind that nobody told.
	scope scope
	asked bool
}

// scope is where the objects of a kind lie.
type scope int

const (
	unknown scope = iota
	namespaced
	clusterWide
)

type groupKind struct{ group, kind string }

// served are the kinds that every master serves, by group and kind.
var served = sync.OnceValue(func() map[groupKind]*kind {
	out := map[groupKind]*kind{}
	for line := range strings.Lines(kindsText) {
		words := strings.Fields(line)
		group, version := split(words[0])
		key := groupKind{group, words[1]}
		k := out[key]
		if k == nil {
			k = &kind{group: group, name: words[1], scope: clusterWide, asked: words[3] == "asked"}
			if words[2] == "namespaced" {
				k.scope = namespaced
			}
			out[key] = k
		}
		k.versions = append(k.versions, version)
	}
	return out
})

// split takes an apiVersion apart. The core group has no name.
func split(apiVersion string) (group, version string) {
	if group, version, ok := strings.Cut(apiVersion, "/"); ok {
		return group, version
	}
	return "", apiVersion
}

// join is the apiVersion of a group and version.
func join(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}

// groupsServed are the names of the groups that are served, sorted.
var groupsServed = sync.OnceValue(func() []string {
	var out []string
	for key := range served() {
		out = append(out, key.group)
	}
	slices.Sort(out)
	return slices.Compact(out)
})

// kindsOf are the names of the kinds of a group, sorted.
func kindsOf(group string) []string {
	var out []string
	for key := range served() {
		if key.group == group {
			out = append(out, key.kind)
		}
	}
	slices.Sort(out)
	return out
}

// elsewhere are the apiVersions that have a kind of this name, sorted.
func elsewhere(name string) []string {
	var out []string
	for key, k := range served() {
		if key.kind == name {
			out = append(out, join(key.group, k.versions[len(k.versions)-1]))
		}
	}
	slices.Sort(out)
	return out
}
