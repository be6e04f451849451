package staged

import (
	"context"
	"errors"
	"fmt"
	"io"

	"spore/agent/detect"
	"spore/agent/node"
	"spore/agent/slot"
	"spore/wire/update"
)

// Back goes back to the system before, and restarts the machine.
func Back(ctx context.Context, m *node.Machine, o slot.Wish, out io.Writer) error {
	m.ReadBoot()
	a := back(ctx, m, o)
	if a.Error != "" {
		return errors.New(a.Error)
	}
	fmt.Fprintln(out, a.Text())
	if a.Reboot {
		return m.Restart(ctx)
	}
	return nil
}

// back has the loader start the system before, or says why it cannot.
func back(ctx context.Context, m *node.Machine, o slot.Wish) update.Answer {
	a, err := backFrom(ctx, m, o)
	if err != nil {
		return update.Answer{Error: err.Error()}
	}
	return a
}

func backFrom(ctx context.Context, m *node.Machine, o slot.Wish) (update.Answer, error) {
	_, c, n, err := m.Node()
	if err != nil {
		return update.Answer{}, err
	}
	if n == nil {
		return update.Answer{}, fmt.Errorf("%w, and keeps no record of what ran before", detect.ErrUnmatched)
	}
	sm, err := machine(ctx, m, c, n)
	if err != nil {
		return update.Answer{}, err
	}
	r, err := slot.Back(sm, o)
	var refused slot.Refusal
	if errors.As(err, &refused) {
		err = fmt.Errorf("the node cannot go back: %w; nothing was changed", err)
	}
	if err != nil {
		return update.Answer{}, err
	}
	return update.Answer{
		Node: n.Name, Serial: r.Serial, ClusterHash: r.ClusterHash, Entry: r.Entry, Change: r.Change,
		Back: true, DryRun: o.DryRun, Reboot: !o.DryRun,
	}, nil
}
