// Package bootorder says in which order a boot reads the files of a root, so that an image can have them in that order: media
// on which a jump costs time, such as a disc or a BMC's virtual medium, are then read forward.
//
// The order was recorded (test/bootorder) and is only a hint: a file that is not in it lies behind, and a name of it
// that a root does not have does nothing.
package bootorder

import (
	_ "embed"
	"path"
	"regexp"
	"slices"
	"strings"
)

// recorded has a name in the form of Name on each line, in the order of the first read.
//
//go:embed order.txt
var recorded string

// version is what changes in a file's name with its version.
var version = regexp.MustCompile(`(\.so\.|-)[0-9]+(\.[0-9]+)*`)

// Name is a path without what changes with versions: the kernel's release, and numbers in the name of the file.
func Name(p string) string {
	if rest, ok := strings.CutPrefix(p, "/usr/lib/modules/"); ok {
		if _, below, ok := strings.Cut(rest, "/"); ok {
			p = "/usr/lib/modules/*/" + below
		}
	}
	dir, base := path.Split(p)
	return dir + version.ReplaceAllString(base, "$1*")
}

// Sort returns those of the paths that a boot reads, in the order in which it does.
func Sort(paths []string) []string {
	place := map[string]int{}
	for i, name := range strings.Fields(recorded) {
		place[name] = i
	}
	type placed struct {
		path  string
		place int
	}
	var found []placed
	for _, p := range paths {
		if i, ok := place[Name(p)]; ok {
			found = append(found, placed{p, i})
		}
	}
	slices.SortStableFunc(found, func(a, b placed) int { return a.place - b.place })
	out := make([]string, len(found))
	for i, f := range found {
		out[i] = f.path
	}
	return out
}
