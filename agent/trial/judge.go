package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"spore/agent/activate"
	"spore/agent/efi"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/slot"
	"spore/agent/status"
	"spore/agent/wait"
	"spore/cluster/facts"
	"spore/services"
)

// completeUnit is what others may order before themselves when they have a say in whether a start is good (bootup(7)).
const completeUnit = "boot-complete.target"

// loaderUnit renews the boot loader.
const loaderUnit = "spore-loader.service"

// giveBackBound is the longest that giving a try back may take while the machine ends.
const giveBackBound = 20 * time.Second

// Judge judges a start that the boot loader counts: it makes the configuration the one to stay with, or has the machine
// go back. Where the machine is restarted on purpose meanwhile, the try is given back.
func Judge(ctx context.Context, m *node.Machine) error {
	if !efi.Counted(os.DirFS(m.Root.At(paths.EFIVars))) {
		m.Say("the loader counted an entry that it could not start; what runs is not on trial")
		return nil
	}
	m.ReadBoot()
	if m.Boot.ESP == "" {
		return errors.New("it is not known which ESP the machine was started from")
	}
	err := awaitUp(ctx, m)
	switch {
	case err == nil:
		return keep(ctx, m)
	case ctx.Err() != nil:
		return giveBack(m)
	}
	return goBack(ctx, m, err)
}

// awaitUp waits until the node is up, within the bound of the configuration. Where the judge itself ended, systemd
// starts it again: it begins anew, and has no more time, since the bound counts from the start of the kernel.
func awaitUp(ctx context.Context, m *node.Machine) error {
	c, err := m.Part.Cluster()
	if err != nil {
		return err
	}
	bound := services.TrialBound(c)
	// The connection ends with its context, and one that systemd does not take as well.
	connected, cancel := context.WithTimeout(ctx, bound+services.TrialSettle(c)+lookBound)
	defer cancel()
	bus, err := activate.Connect(connected)
	if err != nil {
		return err
	}
	defer bus.Close()
	o := Options{
		Bound: bound, Settle: func() time.Duration { return settle(m, c) }, Clock: sinceBoot(),
		Line: func() (status.Line, error) { return status.Last(m.Root) }, Systemd: bus.Conn(), Say: m.Say,
	}
	noted := false
	o.Each = func() {
		// The state partition comes while this waits.
		if noted {
			return
		}
		noted = noteStart(m)
	}
	// Who this is shows when detection is done.
	left := max(0, o.Bound-o.Clock.Now())
	err = wait.Until(ctx, wait.Condition{For: "the machine to know which node it is", Bound: left, Met: func() bool {
		id, err := m.Identity()
		return err == nil && id.Known()
	}})
	if err != nil {
		return err
	}
	_, _, n, err := m.Node()
	if err != nil {
		return err
	}
	o.Node, o.Roles = n.Name, n.Roles
	o.Down = func() []string {
		r, err := trialRecord(m)
		if err != nil {
			return nil
		}
		return r.Down
	}
	return Await(ctx, o)
}

// sinceBoot is the clock of trials.
func sinceBoot() Clock {
	return Clock{
		Now:   func() time.Duration { return time.Duration(status.SinceBoot() * float64(time.Second)) },
		Sleep: wait.Sleep,
	}
}

// settle is how long everything has to be up without a break: where the root or the kernel is another one, programs are
// new and have to last. The node's record says so, which lies on a partition that comes while the judge waits.
func settle(m *node.Machine, c *facts.Cluster) time.Duration {
	if r, err := trialRecord(m); err == nil && r.NewSystem() {
		return services.TrialSettle(c)
	}
	return Settle
}

// trialRecord is the node's record, where it is of the configuration that runs.
func trialRecord(m *node.Machine) (slot.Record, error) {
	r, err := slot.ReadRecord(m.Root.At(paths.Update))
	if err == nil && !r.Is(m.Boot.RootHash, m.Boot.ClusterHash) {
		err = errors.New("the node's record is of another system")
	}
	return r, err
}

// noteStart counts this start in the node's record, once.
func noteStart(m *node.Machine) bool {
	r, err := trialRecord(m)
	if err != nil {
		return false
	}
	if r.State == slot.Kept || r.BootID == m.BootID() {
		return true
	}
	r.State, r.Starts, r.BootID = slot.OnTrial, r.Starts+1, m.BootID()
	if err := r.Write(m.Root.At(paths.Update)); err != nil {
		m.Say(err.Error())
		return false
	}
	return true
}

// keep takes the counter off the entry that runs.
func keep(ctx context.Context, m *node.Machine) error {
	if err := startAndAwait(ctx, completeUnit); err != nil {
		return goBack(ctx, m, err)
	}
	e, err := rename(ctx, m, slot.Entry.Good)
	if err != nil {
		return err
	}
	m.Say("the configuration is good: " + e.File() + " stays")
	if err := recordKept(m); err != nil {
		return err
	}
	// What could not be tried beside a new system is tried next. It says itself what became of it.
	if err := startAndAwait(ctx, loaderUnit); err != nil {
		m.Say("the boot loader: " + err.Error())
	}
	return nil
}

// recordKept writes that what runs is kept. A damaged record is no reason to judge again: the entry has no counter any
// more, and the operator's next push begins a new record.
func recordKept(m *node.Machine) error {
	err := setRecord(m, func(r *slot.Record) { r.State, r.Problem = slot.Kept, "" })
	var damaged slot.DamagedRecord
	if errors.As(err, &damaged) {
		m.Say(err.Error())
		return nil
	}
	return err
}

// goBack marks the entry that runs as bad and restarts the machine: the loader then takes the one before.
func goBack(ctx context.Context, m *node.Machine, why error) error {
	m.Say("the configuration is bad, going back to the one before: " + why.Error())
	// The record may be out of reach, which may be why.
	if err := setRecord(m, func(r *slot.Record) { r.State, r.Problem = slot.Failed, why.Error() }); err != nil {
		m.Say(err.Error())
	}
	if _, err := rename(ctx, m, slot.Entry.Bad); err != nil {
		// The loader has counted this start; after the last it goes back all the same.
		m.Say(err.Error())
	}
	return m.Restart(ctx)
}

// giveBack gives the try back that this start took.
func giveBack(m *node.Machine) error {
	ctx, cancel := context.WithTimeout(context.Background(), giveBackBound)
	defer cancel()
	e, err := rename(ctx, m, slot.Entry.Returned)
	if err != nil {
		return fmt.Errorf("give the try back: %w", err)
	}
	m.Say("ended on purpose while on trial: the try is given back, " + e.File())
	return nil
}

// rename gives the entry that runs another counter.
func rename(ctx context.Context, m *node.Machine, to func(slot.Entry) slot.Entry) (slot.Entry, error) {
	sm := slot.Machine{Boot: m.Boot, Open: func(path string, whole bool) (slot.Device, error) {
		return slot.OpenDevice(ctx, m.Root, path, whole, m.Say)
	}}
	e, err := sm.Running()
	if err != nil {
		return e, err
	}
	return to(e), sm.Rename(e, to(e))
}

func setRecord(m *node.Machine, change func(*slot.Record)) error {
	r, err := trialRecord(m)
	if err != nil {
		return err
	}
	change(&r)
	r.BootID = m.BootID()
	return r.Write(m.Root.At(paths.Update))
}

// startAndAwait starts a unit and all that it requires.
func startAndAwait(ctx context.Context, unit string) error {
	bus, err := activate.Connect(ctx)
	if err != nil {
		return err
	}
	defer bus.Close()
	done := make(chan string, 1)
	if _, err := bus.Conn().StartUnitContext(ctx, unit, "fail", done); err != nil {
		return fmt.Errorf("start %s: %w", unit, err)
	}
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("%s is not reached (%s): a unit that it requires failed", unit, result)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
