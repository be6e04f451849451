package disks

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"spore/agent/datadisk"
	"spore/agent/state"
	"spore/storage/disk"
	"spore/storage/flash"
	"spore/storage/gpt"
	"spore/wire/machine"
)

// typeVar is the type of state partitions (Discoverable Partitions Specification).
var typeVar = gpt.MustParseGUID("4d21b016-b534-45c2-a9fb-5c16e091fd2d")

// whose says whose a disk is, and why that is known.
func (l *looker) whose(t flash.Target, table gpt.Table, content io.ReaderAt) (whose, about string) {
	own := state.PartUUID(l.r.Cluster.ID, l.r.Node.Name)
	_, hasState := table.ByGUID(own)
	if t.Name == filepath.Base(l.r.Machine.Boot.BootDisk.Path) {
		switch {
		case hasState && l.state.PartUUID == own.String():
			return machine.Boot, "the machine was booted from it, and its state (/var) is on it"
		case hasState:
			return machine.Boot, "the machine was booted from it; it has state of this node that is not used"
		}
		return machine.Boot, "the machine was booted from it"
	}
	for _, i := range l.taken {
		if i.Disk == t.Name {
			return ofRole(i)
		}
	}
	named := l.selected(t.Disk)
	switch {
	case hasState && l.state.PartUUID == own.String():
		return machine.State, "it has the state of this node (/var)"
	case named == "state" && l.state.Warning != "":
		return machine.Refused, "the node's file selects it for the state: " + l.state.Warning
	case hasState:
		return machine.Cluster, "it has state of this node that is not used: another disk or a tmpfs is /var"
	}
	whose, about = l.found(t, table, content)
	if named != "" {
		about += fmt.Sprintf("; the node's file selects it (use: %s), and nothing has taken it yet", named)
	}
	return whose, about
}

// ofRole is what became of a disk that the node's file gives to a role.
func ofRole(i datadisk.Info) (whose, about string) {
	what := datadisk.Title(i.Use, i.Number)
	switch {
	case i.Problem != "":
		return machine.Refused, fmt.Sprintf("the node's file selects it as %s, and it was not taken: %s", what, i.Problem)
	case i.OSD != nil:
		return machine.Role, fmt.Sprintf("it is %s of this node: osd.%d", what, *i.OSD)
	}
	return machine.Role, "it is " + what + " of this node"
}

// selected is the use for which the node's file selects a disk; empty when it does not.
func (l *looker) selected(d disk.Disk) string {
	for _, w := range l.r.Node.Disks {
		if got, err := disk.Select(l.all, w.Selector); err == nil && got.Name == d.Name {
			return w.Use
		}
	}
	return ""
}

// found goes by what is on a disk.
func (l *looker) found(t flash.Target, table gpt.Table, content io.ReaderAt) (whose, about string) {
	for _, p := range table.Partitions {
		for _, n := range l.nodes {
			if p.GUID == state.PartUUID(l.r.Cluster.ID, n) {
				return machine.Cluster, fmt.Sprintf("it has the state of node %s of this cluster", n)
			}
		}
		for _, use := range l.uses {
			if slices.Contains(datadisk.PartUUIDs(l.r.Cluster.ID, use, t.Disk), p.GUID) {
				return machine.Cluster, fmt.Sprintf("it has data of this cluster (use: %s), and this node's file does not select it", use)
			}
		}
	}
	what := flash.Content(content, t.Size, t.SectorSize)
	for _, p := range table.Partitions {
		switch {
		case p.Type == typeVar:
			return machine.Foreign, "it has the state of a node of another cluster, or of one that this cluster does not have any more: " + what
		case datadisk.IsLabel(p.Name):
			return machine.Foreign, "it has data of another cluster: " + what
		}
	}
	switch {
	case what == "nothing":
		return machine.Empty, "it was proved empty: its first 4 MiB, its last MiB and 64 places between them are zero"
	case strings.HasPrefix(what, "it "), strings.HasPrefix(what, "there "):
		return machine.Unknown, what
	}
	return machine.Unknown, "it has " + what
}
