package renewal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"spore/services"
	"spore/services/service"
	"spore/wire/nodeapi"
)

// Units is systemd, as far as programs have to take what is new.
type Units interface {
	// Started is when a unit was last begun to be started, as Clock; 0 where it is neither running nor being started.
	Started(ctx context.Context, unit string) (at uint64, active bool, err error)
	// Restart restarts a unit and returns when it is active again, or will not be within a bound.
	Restart(ctx context.Context, unit string) error
	// Reload runs the unit's ExecReload=, where it has one, and then sends a signal to its main process.
	Reload(ctx context.Context, unit, signal string) error
}

// Applier has the programs of a node take what is new.
type Applier struct {
	// Services is the list of the cluster.
	Services *services.List
	Node     string
	File     *File
	Units    Units
	// Others are the nodes that a program takes turns with.
	Others func(program string) []string
	// Ask asks another node how far it is.
	Ask func(ctx context.Context, node string) (nodeapi.Renewal, error)
	// Urgent tells whether a program must not wait for its turn any longer, since its certificate is about to end.
	Urgent func(program string) bool
	Say    func(string)
	// Sleep waits for a while, or until the context ends. Between looks it is a random part of Every.
	Sleep func(ctx context.Context, d time.Duration) error
	Every time.Duration
}

// Apply works off what is pending, one program at a time, first those that wait for nobody. It returns when nothing is
// pending, or with what could not be done; that stays pending.
func (a *Applier) Apply(ctx context.Context) error {
	var failed []error
	tried := map[string]bool{}
	for {
		s, err := a.File.Read()
		if err != nil {
			return err
		}
		name := a.next(s.Names(), tried)
		if name == "" {
			return errors.Join(failed...)
		}
		tried[name] = true
		if err := a.one(ctx, name, s.Pending[name]); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
}

// next is the first that was not tried, those that take no turns before those that do.
func (a *Applier) next(names []string, tried map[string]bool) string {
	for _, turns := range []bool{false, true} {
		for _, name := range names {
			if !tried[name] && turns == (rowOf(a.Services, name).Turns != "") {
				return name
			}
		}
	}
	return ""
}

func (a *Applier) one(ctx context.Context, name string, p Pending) error {
	program, ok := a.Services.LookupProgram(name)
	if !ok || strings.Contains(program.Unit, "@.") {
		return a.done(name, p, false)
	}
	at, active, err := a.Units.Started(ctx, program.Unit)
	switch {
	case err != nil:
		return err
	case at == 0 || at > p.Since: // It does not run, or has it already.
		return a.done(name, p, false)
	case p.Way == service.Signals && !active: // It is being started and may have read the former ones.
		p.Way = service.Restarts
	}
	if p.Way == service.Signals {
		if err := a.Units.Reload(ctx, program.Unit, rowOf(a.Services, name).Signal); err != nil {
			return err
		}
		a.Say(name + " was told to read its certificates again")
		return a.done(name, p, true)
	}
	others := a.Others(name)
	if len(others) > 0 && active { // One that is being started serves nobody yet.
		if err := a.awaitTurn(ctx, name, program.Unit, others); err != nil {
			return err
		}
	}
	err = a.Units.Restart(ctx, program.Unit)
	if err != nil {
		err = errors.Join(err, a.turn(name, ""))
		return err
	}
	a.Say(name + " was restarted for its new certificates")
	return a.done(name, p, true)
}

// done takes a program off the list, unless something else has changed meanwhile. did tells that something was done for
// it.
func (a *Applier) done(name string, p Pending, did bool) error {
	return a.File.Change(func(s *State) {
		if s.Pending[name].Since <= p.Since {
			delete(s.Pending, name)
		}
		delete(s.Turn, name)
		if did {
			s.Changed = Clock()
		}
		s.Problem = ""
	})
}

func (a *Applier) turn(name, turn string) error {
	return a.File.Change(func(s *State) {
		if s.Turn == nil {
			s.Turn = map[string]string{}
		}
		if s.Turn[name] = turn; turn == "" {
			delete(s.Turn, name)
		}
	})
}

// awaitTurn returns when no other node restarts the program and it runs on all of them; this node's turn is then
// TurnDoing. Two nodes are never there at once: each first says that it is, and then asks the others, so that of two
// the later one sees the other.
func (a *Applier) awaitTurn(ctx context.Context, name, unit string, others []string) error {
	said := ""
	for {
		if err := a.turn(name, nodeapi.TurnWish); err != nil {
			return err
		}
		why := a.blocked(ctx, name, unit, others, true)
		if why == "" {
			if err := a.turn(name, nodeapi.TurnDoing); err != nil {
				return err
			}
			if why = a.blocked(ctx, name, unit, others, false); why == "" {
				return nil
			}
			// Before it waits, or both would.
			if err := a.turn(name, nodeapi.TurnWish); err != nil {
				return err
			}
		}
		if a.Urgent(name) {
			a.Say(fmt.Sprintf("%s is restarted although %s: its certificate is about to end", name, why))
			return a.turn(name, nodeapi.TurnDoing)
		}
		if why != said {
			said = why
			a.Say(fmt.Sprintf("%s waits for its turn to be restarted: %s", name, why))
			if err := a.File.Change(func(s *State) { s.Problem = name + " waits for its turn to be restarted: " + why }); err != nil {
				return err
			}
		}
		if err := a.Sleep(ctx, a.Every/2+rand.N(a.Every)); err != nil {
			return errors.Join(err, a.turn(name, ""))
		}
	}
}

// blocked says why it is not this node's turn; nothing when it is. Of nodes that wish, the first by name goes before.
func (a *Applier) blocked(ctx context.Context, name, unit string, others []string, wishes bool) string {
	for _, other := range others {
		s, err := a.Ask(ctx, other)
		switch {
		case err != nil:
			return fmt.Sprintf("%s does not say how it is (%v)", other, err)
		case s.Turn[name] == nodeapi.TurnDoing:
			return other + " is being restarted"
		case !slices.Contains(s.Units, unit):
			return name + " does not run on " + other
		case wishes && s.Turn[name] == nodeapi.TurnWish && other < a.Node:
			return other + " goes before"
		}
	}
	return ""
}
