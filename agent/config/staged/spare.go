package staged

import (
	"context"
	"errors"
	"fmt"
	"os"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/slot"
	"spore/agent/spare"
	"spore/agent/state"
	"spore/storage/atomicfile"
)

// NoteWayBack notes for stage1 which system may be started when the one that runs cannot be any more: the one that
// `spore push --back` returns to, where it is known to read this node's data. A machine without such a system, or whose
// system has yet to show that it stays, notes none.
func NoteWayBack(ctx context.Context, m *node.Machine) error {
	vars := m.Root.At(paths.EFIVars)
	b := m.Boot
	if _, err := os.Stat(vars); err != nil || !b.EFI || b.NetworkURL != "" {
		return nil
	}
	// Whatever else cannot be done: only failures that follow each other count.
	if err := spare.Started(vars, b.RootHash, b.ClusterHash); err != nil {
		m.Say("that this system was started was not noted: " + err.Error())
	}
	if !stays(m) {
		return nil
	}
	var info state.Info
	if err := atomicfile.ReadJSON(m.Root.At(paths.State), &info); err != nil || info.Kind != state.Partition {
		return nil // A machine that matches no node, or forgets what was before.
	}
	if n, err := spare.Read(vars); err == nil && n.Failed == spare.Tries && !n.Is(b.RootHash, b.ClusterHash) {
		m.Say(fmt.Sprintf("the system with the root %.16s… and the configuration %.16s… could not be started %d times, and this "+
			"one before it was: its partitions are damaged; push again", n.Root, n.Cluster, n.Failed))
	}
	file, err := wayBack(ctx, m)
	if err == nil && file != "" {
		var fresh bool
		if fresh, err = spare.Keep(vars, b.RootHash, b.ClusterHash, file); err == nil && fresh {
			m.Say("when this system cannot be started any more, " + file + " is started instead")
		}
	} else if err == nil {
		err = spare.Drop(vars, b.RootHash, b.ClusterHash)
	}
	if err != nil { // A machine that runs is whole without it.
		m.Say("which system is started when this one cannot be any more was not noted: " + err.Error())
	}
	return nil
}

// stays tells whether the system that runs was not on trial, or has shown meanwhile that it stays: what the boot loader
// says of the start is there until the machine is reset.
func stays(m *node.Machine) bool {
	if !counted(m) {
		return true
	}
	r, err := slot.ReadRecord(m.Root.At(paths.Update))
	return err == nil && r.State == slot.Kept && r.Is(m.Boot.RootHash, m.Boot.ClusterHash)
}

// wayBack is the entry that the node may go back to by itself; empty where there is none.
func wayBack(ctx context.Context, m *node.Machine) (string, error) {
	_, c, n, err := m.Node()
	if err != nil || n == nil {
		return "", err
	}
	sm, err := machine(ctx, m, c, n)
	if err != nil {
		return "", err
	}
	before, err := slot.Back(sm, slot.Wish{DryRun: true})
	var refused slot.Refusal
	if errors.As(err, &refused) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	// A person may go back to programs of which it is not known what they read; a machine does not by itself.
	if before.Change.Root && before.Change.To == nil {
		return "", nil
	}
	if e, ok := slot.ParseEntry(before.Entry); !ok || e.Counted {
		return "", nil
	}
	return before.Entry, nil
}
