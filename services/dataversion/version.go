// Package dataversion says which versions of a program read what a newer version of it wrote: the way back from an
// update is safe only where the older program reads the data that the newer one left on the machine.
//
// Each kind of data is a Row, with the rule of its upstream and where that is written. The rows are in the folders of
// the services; package services walks them. This package has no rows, reads no disk and imports nothing of Spore, so
// that the builder, what travels (package wire) and the agent can use it.
package dataversion

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spore/cluster/form"
)

// Bounds on what comes from outside: a version, the name of a kind of data, and how many there are.
const (
	maxVersion = 128
	maxRows    = 64
)

// Version is a version of a program.
type Version struct {
	// Major, Minor and Patch are its first three numbers; what is not there is 0.
	Major, Minor, Patch int
	// Pre says that it is a pre-release, or a commit between two releases: such promise nothing.
	Pre bool

	numbers []int
}

// form is [EPOCH:][v]NUMBER.NUMBER[.NUMBER…][REST], of semver.org, of Go's modules and of deb-version(7).
var forms = form.New(`^(?:[0-9]{1,4}:)?v?([0-9]{1,9}(?:\.[0-9]{1,9}){1,4})([-+~][\x21-\x7e]*)?$`)

// unreleased begins the rest of a pre-release; a Go pseudo-version has the time of a commit.
var unreleased = form.New(`(?i)^(~|-(alpha|beta|rc|pre|dev|snapshot)|-(0\.|[a-z]+\.0\.)?[0-9]{14}-)`)

// Parse reads a version as manifests have it: v3.6.16, 4.3.1, 18.2.7+ds-1+deb13u1, 1:2.0.21-1.
func Parse(text string) (Version, error) {
	found := forms.FindStringSubmatch(text)
	if len(text) > maxVersion || found == nil {
		return Version{}, fmt.Errorf("%.64q is not a version such as v3.6.16 or 18.2.7+ds-1", text)
	}
	v := Version{Pre: unreleased.MatchString(found[2])}
	for number := range strings.SplitSeq(found[1], ".") {
		n, err := strconv.Atoi(number)
		if err != nil {
			return Version{}, fmt.Errorf("%.64q is not a version: %w", text, err)
		}
		v.numbers = append(v.numbers, n)
	}
	for i, into := range []*int{&v.Major, &v.Minor, &v.Patch} {
		if i < len(v.numbers) {
			*into = v.numbers[i]
		}
	}
	return v, nil
}

// Compare orders versions by their numbers; what a distribution adds is not looked at.
func Compare(a, b Version) int {
	for i := range max(len(a.numbers), len(b.numbers)) {
		if c := cmp.Compare(a.number(i), b.number(i)); c != 0 {
			return c
		}
	}
	return 0
}

func (v Version) number(i int) int {
	if i < len(v.numbers) {
		return v.numbers[i]
	}
	return 0
}

// Series is the first two numbers, such as 3.6.
func (v Version) Series() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// SameSeries says whether the first two numbers are the same.
func (v Version) SameSeries(other Version) bool {
	return v.Major == other.Major && v.Minor == other.Minor
}

// name is that of a kind of data.
var name = form.New(`^[a-z][a-z0-9-]{0,62}$`)

// Check finds what is wrong with the versions that an update says it has: a name, a version, or how many there are. A
// version whose form is not known is no error here; the way back from it is not known then.
func Check(versions map[string]string) error {
	if len(versions) > maxRows {
		return fmt.Errorf("there are versions of %d kinds of data, more than %d", len(versions), maxRows)
	}
	var names []string
	for n := range versions {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if !name.MatchString(n) {
			return fmt.Errorf("%.64q is not the name of a kind of data, such as etcd", n)
		}
		if v := versions[n]; v == "" || len(v) > maxVersion {
			return fmt.Errorf("the version of %s has %d bytes; it has 1 to %d", n, len(v), maxVersion)
		}
	}
	return nil
}
