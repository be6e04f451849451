package cluster

import (
	"maps"
	"slices"

	"spore/cluster/check"
	"spore/cluster/spec"
	"spore/services"
	"spore/services/logs"
	"spore/services/metrics"
)

// ourUses are those of every configuration.
var ourUses = []string{"state", "osd", "kafka", metrics.Use, logs.Use}

// singleUses are those of which a node has one disk.
var singleUses = []string{"state", metrics.Use, logs.Use}

// diskUses are what disks can be for: ours, and those of the services that a configuration has of its own.
func diskUses(l *services.List) []string {
	out := slices.Clone(ourUses)
	for _, s := range l.All() {
		for _, use := range slices.Sorted(maps.Keys(s.Disks)) {
			if !slices.Contains(out, use) {
				out = append(out, use)
			}
		}
	}
	return out
}

// roleOfUse is the role whose nodes have disks of a use; empty for a use that every node may have.
func roleOfUse(l *services.List, use string) string {
	for _, s := range l.All() {
		if role := s.Disks[use]; role != "" {
			return role
		}
	}
	return ""
}

// checkDisks checks the disks of one node. Whoever wipes a disk later relies on this: a selector names one disk, and no
// disk is named twice.
func (k *checker) checkDisks(src *source, node int, list []spec.Disk) {
	counts := map[string]int{}
	var seen []check.NamedDisk
	for i, d := range list {
		p := check.In(src, "disks", i)
		if src.Has("disks", i, "use") && k.OneOf(p.Then("use"), "the use of a disk", d.Use, k.uses) {
			if role := roleOfUse(k.list, d.Use); role != "" && !k.HasRole(node, role) {
				k.Errorf(p.Then("use"), "the disk is for %s, but node %s has no role %s; add the role in cluster.yaml or remove the disk", d.Use, k.NodeName(node), role)
			}
			if counts[d.Use]++; counts[d.Use] == 2 && slices.Contains(singleUses, d.Use) {
				k.Errorf(p.Then("use"), "this is the second %s disk; a node has one", d.Use)
			}
		}
		if d.Encrypt && d.Use != "osd" {
			k.Errorf(p.Then("encrypt"), "only disks for osd are encrypted; remove encrypt")
		}
		if !src.Has("disks", i, "selector") {
			continue
		}
		n, ok := k.Selector(p.Then("selector"), d.Selector)
		if !ok {
			continue
		}
		for _, other := range seen {
			if n.MaySelect(other) {
				k.Errorf(p.Then("selector"), "this selector and the selector of %s can match the same disk; write one entry for each disk", other.Place.Where())
				break
			}
		}
		seen = append(seen, n)
	}
}
