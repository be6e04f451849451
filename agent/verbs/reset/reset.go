// Package reset is the verb reset: the node's state, or everything on a disk that the node's file names, is given up.
// It is what `spore-agent reset` does on the machine; package state and package datadisk see to it that it can be cut
// off at any point.
package reset

import (
	"context"
	"errors"
	"fmt"

	"spore/agent/activate"
	"spore/agent/disks"
	"spore/agent/formation"
	"spore/agent/install"
	"spore/agent/pause"
	"spore/agent/verbs"
	"spore/agent/verbs/majority"
	"spore/cluster/spec"
)

// Reset deletes. State is always in use, so that the machine restarts then, at once and without a shutdown.
func Reset(ctx context.Context, r *verbs.Run) (string, error) {
	var selector spec.DiskSelector
	if name := r.Argument("disk", ""); name != "" {
		var err error
		if selector, err = install.ParseSelector(name); err != nil {
			return "", err
		}
	}
	loss, err := disks.LossOf(r.Machine, selector)
	if err != nil {
		return "", err
	}
	return reset(ctx, r, loss, func() error { return disks.Give(r.Machine, selector, loss.State) }, stop, disks.RestartAtOnce)
}

func reset(ctx context.Context, r *verbs.Run, loss disks.Loss, give func() error, stop func(context.Context, string) error, restart func() error) (string, error) {
	if err := r.Result(loss); err != nil {
		return "", err
	}
	if !r.Order.DryRun && r.Order.Confirm != loss.Name {
		return "", fmt.Errorf("this deletes %s, and the order is about %q; nothing was changed", loss, r.Order.Confirm)
	}
	back := func() {}
	var err error
	switch {
	case loss.State:
		back, err = majority.Guard(ctx, r, majority.Absence{What: "a reset of the state"})
	case loss.Unit != "":
		_, err = majority.Guard(ctx, r, majority.Absence{
			What: "a reset of the disk", Destroys: true,
			Concerns: func(formation.Service) bool { return false },
			OSDs:     func(unit string) bool { return unit == loss.Unit },
		})
	}
	if err != nil {
		return "", err
	}
	switch {
	case r.Order.DryRun && loss.State:
		return fmt.Sprintf("would delete %s, the node's bundle with it, and restart the machine at once; nothing was done", loss), nil
	case r.Order.DryRun && loss.InUse && loss.Unit == "":
		return fmt.Sprintf("would refuse to delete %s, which is in use", loss), nil
	case r.Order.DryRun:
		return fmt.Sprintf("would delete %s; nothing was done", loss), nil
	}
	ended := func() {}
	if loss.InUse && loss.Unit != "" {
		if err := r.Say("stops %s, which works on it", loss.Unit); err != nil {
			return "", err
		}
		// Where the disk stays as it is, whatever for, the OSD serves again (package mend).
		if ended, err = pause.Units(r.Machine.Root, loss.Unit); err != nil {
			return "", err
		}
		if err := stop(ctx, loss.Unit); err != nil {
			return "", err
		}
	}
	if err := r.Say("deletes %s", loss); err != nil {
		return "", err
	}
	if err := give(); err != nil {
		back()
		return "", err
	}
	ended()
	if !loss.State {
		return fmt.Sprintf("deleted %s; the next start of the machine makes it anew (spore reboot %s)", loss, r.Node.Name), nil
	}
	r.After(func() error {
		err := restart()
		if err != nil {
			r.Machine.Say(errors.Join(errors.New("restart at once"), err).Error())
		}
		return err
	})
	return fmt.Sprintf("deleted %s, the node's bundle with it; the machine restarts now, and needs its bundle again "+
		"where it does not have it from its medium or its firmware", loss), nil
}

// stop stops a unit.
func stop(ctx context.Context, unit string) error {
	bus, err := activate.Connect(ctx)
	if err != nil {
		return err
	}
	defer bus.Close()
	return bus.StopAndWait(ctx, unit)
}
