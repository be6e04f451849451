package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"spore/agent/activate"
	"spore/agent/paths"
	"spore/agent/slot"
	"spore/agent/trial"
	"spore/agent/wait"
)

// completeUnit is what others may order before themselves when they have a say in whether a start is good (bootup(7)).
const completeUnit = "boot-complete.target"

// giveBackBound is the longest that giving a try back may take while the machine ends.
const giveBackBound = 20 * time.Second

// trialCommand judges a start that the boot loader counts: it makes the configuration the one to stay with, or has the machine
// go back. Where the machine is restarted on purpose meanwhile, the try is given back.
func trialCommand(ctx context.Context, m *machine, args []string) error {
	if len(args) > 0 {
		return usageError{"usage: spore-agent trial"}
	}
	m.readBoot()
	if m.boot.ESP == "" {
		return errors.New("it is not known which ESP the machine was started from")
	}
	err := m.await(ctx)
	switch {
	case err == nil:
		return m.keep(ctx)
	case ctx.Err() != nil:
		return m.giveBack()
	}
	return m.goBack(ctx, err)
}

// await waits until the node is up, within the bound of the configuration.
func (m *machine) await(ctx context.Context) error {
	c, err := m.part.Cluster()
	if err != nil {
		return err
	}
	bus, err := activate.Connect(ctx)
	if err != nil {
		return err
	}
	defer bus.Close()
	o := trial.Options{Bound: c.TrialBound(), Line: m.statusLine, Systemd: bus.Conn(), Say: m.say}
	noted := false
	o.Each = func() {
		// The state partition comes while this waits.
		if noted {
			return
		}
		noted = m.noteStart()
	}
	began := time.Now()
	// Who this is shows when detection is done.
	err = wait.Until(ctx, wait.Condition{For: "the machine to know which node it is", Bound: o.Bound, Met: func() bool {
		id, err := m.identity()
		return err == nil && id.Known()
	}})
	if err != nil {
		return err
	}
	_, _, n, err := m.node()
	if err != nil {
		return err
	}
	o.Node, o.Roles, o.Bound = n.Name, n.Roles, o.Bound-time.Since(began)
	o.Down = func() []string {
		r, err := m.trialRecord()
		if err != nil {
			return nil
		}
		return r.Down
	}
	return trial.Await(ctx, o)
}

// trialRecord is the node's record, where it is of the configuration that runs.
func (m *machine) trialRecord() (slot.Record, error) {
	r, err := slot.ReadRecord(m.root.At(paths.Update))
	if err == nil && r.ClusterHash != m.boot.ClusterHash {
		err = errors.New("the node's record is of another configuration")
	}
	return r, err
}

// noteStart counts this start in the node's record, once.
func (m *machine) noteStart() bool {
	r, err := m.trialRecord()
	if err != nil {
		return false
	}
	if r.State == slot.Kept || r.BootID == m.bootID() {
		return true
	}
	r.State, r.Starts, r.BootID = slot.OnTrial, r.Starts+1, m.bootID()
	if err := r.Write(m.root.At(paths.Update)); err != nil {
		m.say(err.Error())
		return false
	}
	return true
}

// keep takes the counter off the entry that runs.
func (m *machine) keep(ctx context.Context) error {
	if err := startAndAwait(ctx, completeUnit); err != nil {
		return m.goBack(ctx, err)
	}
	e, err := m.rename(ctx, slot.Entry.Good)
	if err != nil {
		return err
	}
	m.say("the configuration is good: " + e.File() + " stays")
	return m.setRecord(func(r *slot.Record) { r.State, r.Problem = slot.Kept, "" })
}

// goBack marks the entry that runs as bad and restarts the machine: the loader then takes the one before.
func (m *machine) goBack(ctx context.Context, why error) error {
	m.say("the configuration is bad, going back to the one before: " + why.Error())
	// The record may be out of reach, which may be why.
	if err := m.setRecord(func(r *slot.Record) { r.State, r.Problem = slot.Failed, why.Error() }); err != nil {
		m.say(err.Error())
	}
	if _, err := m.rename(ctx, slot.Entry.Bad); err != nil {
		// The loader has counted this start; after the last it goes back all the same.
		m.say(err.Error())
	}
	return m.restart(ctx)
}

// giveBack gives the try back that this start took.
func (m *machine) giveBack() error {
	ctx, cancel := context.WithTimeout(context.Background(), giveBackBound)
	defer cancel()
	e, err := m.rename(ctx, slot.Entry.Returned)
	if err != nil {
		return fmt.Errorf("give the try back: %w", err)
	}
	m.say("ended on purpose while on trial: the try is given back, " + e.File())
	return nil
}

// rename gives the entry that runs another counter.
func (m *machine) rename(ctx context.Context, to func(slot.Entry) slot.Entry) (slot.Entry, error) {
	sm := slot.Machine{Boot: m.boot, Open: func(path string, whole bool) (slot.Device, error) { return m.openDevice(ctx, path, whole) }}
	e, err := sm.Running()
	if err != nil {
		return e, err
	}
	return to(e), sm.Rename(e, to(e))
}

func (m *machine) setRecord(change func(*slot.Record)) error {
	r, err := m.trialRecord()
	if err != nil {
		return err
	}
	change(&r)
	r.BootID = m.bootID()
	return r.Write(m.root.At(paths.Update))
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
