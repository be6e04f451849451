// Package revocation tells what a revocation of images would leave the nodes of a cluster to start, by what they say of
// their slots. Nodes look at their own boot media as well, before their firmware gets a list (agent/dbx): what is said
// here is said while the list can still be left unmade.
package revocation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"spore/wire/nodeapi"
)

// System is what an image starts: the root hashes of its root and of its cluster part.
type System struct{ Root, Cluster string }

// Answer is what a node says, or why it says nothing.
type Answer struct {
	Node   string
	Status nodeapi.Status
	Err    error
}

// Finding is what a revocation does to a node.
type Finding struct {
	Node string
	// Text says it, to follow the node's name.
	Text string
	// Bricks says that the node would have nothing left to start.
	Bricks bool
}

// Judge holds what nodes start against what is to be revoked. Nodes that lose nothing are left out.
func Judge(revoked []System, answers []Answer) (out []Finding) {
	for _, a := range answers {
		text, bricks := judge(revoked, a)
		if text != "" {
			out = append(out, Finding{a.Node, text, bricks})
		}
	}
	return out
}

func judge(revoked []System, a Answer) (text string, bricks bool) {
	c := a.Status.Configuration
	switch {
	case a.Err != nil:
		return fmt.Sprintf("does not say what it starts: %v", a.Err), false
	case c == nil:
		return "does not say what it starts", false
	}
	gone := func(root, cluster string) bool {
		return slices.ContainsFunc(revoked, func(s System) bool {
			return s.Root != "" && s.Cluster != "" && strings.EqualFold(s.Root, root) && strings.EqualFold(s.Cluster, cluster)
		})
	}
	runs, other := gone(c.RootHash, c.ClusterHash), c.Other != "" && gone(cmp.Or(c.OtherRoot, c.RootHash), c.Other)
	switch {
	case runs && (other || c.Other == ""):
		return "would have nothing left to start: it runs what is to be revoked, and has no other image", true
	case runs:
		return "runs what is to be revoked: push a newer configuration to it", false
	case other && c.Staged != "":
		return "starts what is to be revoked next: push a newer configuration to it", false
	case other:
		return "would lose its way back: its other image is to be revoked; push once more", false
	}
	return "", false
}
