package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"spore/agent/repart"
	"spore/storage/gpt"
)

// slot is a partition that an update will need.
type slot struct {
	label string
	kind  gpt.GUID
	size  int64
}

// fixedLayout are the slots of the fixed layout, in bytes; image.yaml may raise them, not lower them.
var fixedLayout = []slot{{"root-b", typeRoot, 2048 << 20}, {"verity-b", typeVerity, 32 << 20}, {"cluster-b", typeCluster, 64 << 20}}

// missingSlots lists the partitions of the B side that are not there yet, each as large as its A side. On a medium that an
// ISO was written to, whose A side is only as large as its content, they are those of the fixed layout.
func missingSlots(t gpt.Table) []slot {
	iso := slices.ContainsFunc(t.Partitions, func(p gpt.Partition) bool { return p.Type == typeISO })
	var out []slot
	for _, s := range fixedLayout {
		n := 0
		if !iso {
			s.size = 0
		}
		for _, p := range t.Partitions {
			if p.Type == s.kind {
				n++
				s.size = max(s.size, p.Size)
			}
		}
		if n == 1 {
			out = append(out, s)
		}
	}
	return out
}

// fit drops the slots when they would leave no room for state, and says so: a node that runs is worth more than one that
// could be updated.
func fit(slots *[]slot, free []repart.Gap, stateFound bool) (warning string) {
	if len(*slots) == 0 {
		return ""
	}
	var need int64
	for _, s := range *slots {
		need += s.size
	}
	if !stateFound {
		need += MinSize
	}
	if repart.Largest(free) >= need {
		return ""
	}
	*slots = nil
	return fmt.Sprintf("the boot disk has no room for a second system (%d MiB in one piece are needed): it cannot be updated in place", need>>20)
}

// definitions are the files for systemd-repart (repart.d(5)). repart pairs definitions and existing partitions by type, in
// order; so each existing partition of a type that we use has its own, with its own size, and is left as it is. Only this
// node's state grows.
func definitions(t gpt.Table, want gpt.GUID, slots []slot) map[string]string {
	out := map[string]string{}
	found := false
	for _, p := range t.Partitions {
		name := fmt.Sprintf("10-partition-%03d.conf", p.Number)
		switch {
		case p.GUID == want && p.Type == typeVar:
			found = true
			out[name] = stateDefinition(want, p.Size)
		case p.Type == typeESP, p.Type == typeRoot, p.Type == typeVerity, p.Type == typeCluster, p.Type == typeVar:
			out[name] = repart.Partition("Type="+p.Type.String(), fmt.Sprintf("SizeMinBytes=%d", p.Size), fmt.Sprintf("SizeMaxBytes=%d", p.Size))
		}
	}
	for i, s := range slots {
		out[fmt.Sprintf("50-%d-%s.conf", i, s.label)] = repart.Partition("Type="+s.kind.String(), "Label="+s.label,
			fmt.Sprintf("SizeMinBytes=%d", s.size), fmt.Sprintf("SizeMaxBytes=%d", s.size))
	}
	if !found {
		out[newState] = stateDefinition(want, MinSize)
	}
	return out
}

// stateDefinition is this node's state: formatted before the table names it, so that it is whole once it is there; as
// large as the disk lets it be.
func stateDefinition(want gpt.GUID, minimum int64) string {
	return repart.Partition("Type="+typeVar.String(), "Label="+Label, "UUID="+want.String(), "Format=ext4", fmt.Sprintf("SizeMinBytes=%d", minimum))
}

// newState is the definition of state that is not there yet.
const newState = "90-state.conf"

// encrypted has new state made by Format. It is as large as without, and as whole once the table names it.
func encrypted(definitions map[string]string) map[string]string {
	out := maps.Clone(definitions)
	out[newState] = strings.Replace(out[newState], "Format=ext4\n", "Format="+encryptedType+"\n", 1)
	return out
}
