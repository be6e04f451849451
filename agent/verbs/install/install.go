// Package install is the verb install: the running system is put on a disk of the machine, with the rules of
// `spore-agent install` (package agent/install).
package install

import (
	"context"
	"fmt"

	"spore/agent/delivery"
	"spore/agent/install"
	"spore/agent/verbs"
)

// prepared is what was looked at, and can be done.
type prepared interface {
	Write(ctx context.Context, say func(string)) (string, error)
}

// Install answers with an install.Offer, and installs where it was confirmed by the name of the disk.
func Install(ctx context.Context, r *verbs.Run) (string, error) {
	selector, err := install.ParseSelector(r.Argument("disk", ""))
	if err != nil {
		return "", err
	}
	p, err := install.Prepare(ctx, r.Machine, install.Order{
		Disk: selector, Given: r.Node.Disks,
		EraseState:    r.Argument("erase-state", "no") == "yes",
		WithoutBundle: r.Argument("without-bundle", "no") == "yes",
	})
	if err != nil {
		return "", err
	}
	defer p.Close()
	return carryOut(ctx, r, p.Offer, p)
}

func carryOut(ctx context.Context, r *verbs.Run, o install.Offer, p prepared) (string, error) {
	if err := r.Result(o); err != nil {
		return "", err
	}
	if !r.Order.DryRun && r.Order.Confirm != o.Name {
		return "", fmt.Errorf("this installs on %s, and the order is about %q; nothing was written", o, r.Order.Confirm)
	}
	note := "the disk gets no bundle: its first start needs one from the firmware, or a stick"
	switch o.Bundle {
	case delivery.Medium:
		note = "the disk gets the medium's bundle"
	case delivery.NoCloud:
		note = "the disk gets the bundle of NoCloud's user-data"
	case delivery.State:
		note = "the disk gets the bundle that the node keeps, which is readable there until its first start"
	}
	if err := r.Say("%s", note); err != nil {
		return "", err
	}
	if r.Order.DryRun {
		return fmt.Sprintf("would install on %s; nothing was written", o), nil
	}
	done, err := p.Write(ctx, func(line string) { _ = r.Say("%s", line) })
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s. Take the medium out, and start the machine again: spore reboot --node %s",
		done, r.Node.Name), nil
}
