// Package adopt is the verb adopt: a partition with state of another node or cluster, which was refused, becomes this
// node's with all that is on it. It is what `spore-agent state adopt` does on the machine.
package adopt

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"spore/agent/state"
	"spore/agent/verbs"
	"spore/agent/volume"
)

// Adopt answers with what there is to adopt, as a list of state.Candidate. Without a partition, and in a dry run, that
// is all that it does.
func Adopt(_ context.Context, r *verbs.Run) (string, error) {
	candidates, err := volume.Candidates(r.Machine)
	if err != nil {
		return "", err
	}
	return adopt(r, candidates, func(c state.Candidate) error { return volume.Adopt(r.Machine, c.Disk, c.Partition) })
}

func adopt(r *verbs.Run, candidates []state.Candidate, take func(state.Candidate) error) (string, error) {
	if err := r.Result(candidates); err != nil {
		return "", err
	}
	partition := r.Argument("partition", "")
	if partition == "" {
		if !r.Order.DryRun {
			return "", errors.New("the partition is missing; a dry run lists what there is")
		}
		return fmt.Sprintf("%d partitions have state that is not this node's; nothing was done", len(candidates)), nil
	}
	if !r.Order.DryRun && !strings.EqualFold(r.Order.Confirm, partition) {
		return "", fmt.Errorf("this adopts %s, and the order is about %q; nothing was changed", partition, r.Order.Confirm)
	}
	for _, c := range candidates {
		switch {
		case !strings.EqualFold(c.Partition, partition):
			continue
		case c.Problem != "" && c.Problem != state.Ownerless:
			return "", fmt.Errorf("%s on %s cannot be adopted: %s; nothing was changed", c.Partition, c.Disk, c.Problem)
		case r.Order.DryRun:
			return fmt.Sprintf("would make %s on %s, which is %s, this node's; nothing was done", c.Partition, c.Disk, owner(c)), nil
		}
		if err := take(c); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s on %s is this node's from now on; the next start of the machine uses it (spore reboot %s)",
			c.Partition, c.Disk, r.Node.Name), nil
	}
	return "", fmt.Errorf("no disk has state with the PARTUUID %s that is not this node's; nothing was changed", partition)
}

func owner(c state.Candidate) string {
	if c.Node == "" {
		return "nobody's"
	}
	return fmt.Sprintf("that of node %.64q of cluster %.64q", c.Node, c.Cluster)
}
