// Package mend is what spore-act@.service does after each verb, however that ended: it starts units again that a verb
// had stopped for a while and that was killed before it could start them, and has the other members of this node's
// quorums hear no longer that it leaves them.
package mend

import (
	"context"
	"os"

	"spore/agent/activate"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/pause"
)

// well is how systemd calls the end of a service that was not cut off (systemd.exec(5), $SERVICE_RESULT).
const well = "success"

// After mends what a verb left behind. result is how its service ended, as systemd says it.
func After(ctx context.Context, m *node.Machine, result string) error {
	return after(ctx, m, result, func(ctx context.Context, unit string) error {
		bus, err := activate.Connect(ctx)
		if err != nil {
			return err
		}
		defer bus.Close()
		return bus.Start(ctx, unit)
	})
}

func after(ctx context.Context, m *node.Machine, result string, start func(context.Context, string) error) error {
	// A verb that ended well has the mark stay where the machine is about to go (package power).
	if result != well {
		if _, err := os.Lstat(m.Root.At(paths.Leaving)); err == nil {
			m.Mark(paths.Leaving, false)
		}
	}
	said := func(ctx context.Context, unit string) error {
		err := start(ctx, unit)
		if err == nil {
			m.Say(unit + " is started again: a verb that had stopped it was cut off")
		}
		return err
	}
	return pause.Mend(ctx, m.Root, said)
}
