// Package power has the verbs that take the whole machine away for a while, or until somebody switches it on: reboot
// and shutdown. systemd stops everything in order. Whoever asked hears so before it begins.
package power

import (
	"context"
	"fmt"

	"spore/agent/activate"
	"spore/agent/verbs"
	"spore/agent/verbs/majority"
)

// Boot is the result of both: the kernel's name for the boot that ends, by which the caller knows the next one.
type Boot struct {
	BootID string `json:"bootID"`
}

// Reboot restarts the machine.
func Reboot(ctx context.Context, r *verbs.Run) (string, error) {
	return leave(ctx, r, majority.Absence{What: "a restart of the machine", Returns: true}, "restarts", ask((*activate.Bus).Reboot))
}

// Shutdown switches the machine off.
func Shutdown(ctx context.Context, r *verbs.Run) (string, error) {
	return leave(ctx, r, majority.Absence{What: "a shutdown"}, "switches itself off", ask((*activate.Bus).PowerOff))
}

// leave has the machine go when the caller has been told so.
func leave(ctx context.Context, r *verbs.Run, a majority.Absence, does string, do func(context.Context) error) (string, error) {
	back, err := majority.Guard(ctx, r, a)
	if err != nil {
		return "", err
	}
	if r.Order.DryRun {
		return fmt.Sprintf("%s would be allowed now; nothing was done", a.What), nil
	}
	if err := r.Result(Boot{BootID: r.Machine.BootID()}); err != nil {
		return "", err
	}
	r.After(func() error {
		// The context of the verb has ended with it.
		err := do(context.WithoutCancel(ctx))
		if err != nil {
			back()
			r.Machine.Say(err.Error())
		}
		return err
	})
	return "it " + does + " now", nil
}

// ask has systemd do something.
func ask(do func(*activate.Bus, context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		bus, err := activate.Connect(ctx)
		if err != nil {
			return err
		}
		defer bus.Close()
		return do(bus, ctx)
	}
}
