// Package rotate brings one phase of the rotation of an authority to the nodes of a running cluster: a bundle to each,
// one node after the other. A node that has its bundle tells programs what is new, restarts those that do not read it
// by themselves, and says when that is done; the next node follows then. The phase is over when every node is done and
// has been for long enough that programs which look again every few minutes have looked.
//
// What a phase is, is package pki's. It sends nothing to anybody while a node is away or still has something to do:
// whoever missed a phase would be cut off by the next.
package rotate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spore/wire/nodeapi"
)

// Fleet is the nodes of the cluster.
type Fleet interface {
	// Ask returns how far a node is.
	Ask(ctx context.Context, node string) (nodeapi.Renewal, error)
	// Send gives a node a bundle.
	Send(ctx context.Context, node string, bundle []byte) error
}

// Bundle is what a node is to have.
type Bundle struct {
	Node   string
	Serial uint64
	// Data is nil where the node has been given it before.
	Data []byte
}

// Phase is one phase of a rotation.
type Phase struct {
	Fleet Fleet
	// Bundles are those of all nodes, in the order in which they get them.
	Bundles []Bundle
	// Revision is that of the authorities in the bundles.
	Revision uint64
	// Settle is how long every node must have been done.
	Settle time.Duration
	// Bound is the longest that one node may take, Every how often it is asked.
	Bound, Every time.Duration
	Say          func(string)
	// Sleep waits, or returns when the context ends.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Ready tells whether a phase may begin: every node answers, and none has anything left to do. The error names those
// that keep it from beginning, and why.
func Ready(ctx context.Context, f Fleet, nodes []string) error {
	var away []string
	for _, n := range nodes {
		r, err := f.Ask(ctx, n)
		switch {
		case err != nil:
			away = append(away, fmt.Sprintf("%s does not answer (%v)", n, err))
		case len(r.Pending) > 0:
			away = append(away, n+" has yet to restart "+strings.Join(r.Pending, ", ")+problem(r))
		}
	}
	if len(away) > 0 {
		return fmt.Errorf("every node must take part, but %s; nothing was sent", strings.Join(away, "; "))
	}
	return nil
}

func problem(r nodeapi.Renewal) string {
	if r.Problem == "" {
		return ""
	}
	return " (" + r.Problem + ")"
}

// Run carries the phase through. It can be run again after it was cut off.
func (p Phase) Run(ctx context.Context) error {
	var names []string
	for _, b := range p.Bundles {
		names = append(names, b.Node)
	}
	if err := Ready(ctx, p.Fleet, names); err != nil {
		return err
	}
	for _, b := range p.Bundles {
		if b.Data != nil {
			if err := p.Fleet.Send(ctx, b.Node, b.Data); err != nil {
				return fmt.Errorf("send %s its bundle: %w", b.Node, err)
			}
		}
		if err := p.await(ctx, b); err != nil {
			return err
		}
		p.Say(fmt.Sprintf("%s: done, with bundle %d", b.Node, b.Serial))
	}
	return p.settle(ctx)
}

// await waits until a node is done with its bundle.
func (p Phase) await(ctx context.Context, b Bundle) error {
	said := ""
	for waited := time.Duration(0); ; waited += p.Every {
		why := p.missing(ctx, b)
		if why == "" {
			return nil
		}
		if waited >= p.Bound {
			return fmt.Errorf("%s: %s, for %s; it is not over: mend it, and run the command again", b.Node, why, p.Bound)
		}
		if why != said {
			said = why
			p.Say(b.Node + ": " + why)
		}
		if err := p.Sleep(ctx, p.Every); err != nil {
			return err
		}
	}
}

// missing says what a node has yet to do; nothing when it is done.
func (p Phase) missing(ctx context.Context, b Bundle) string {
	r, err := p.Fleet.Ask(ctx, b.Node)
	switch {
	case err != nil:
		return fmt.Sprintf("waiting for its answer (%v)", err)
	case r.Serial < b.Serial || r.Revision < p.Revision:
		return fmt.Sprintf("waiting until it has taken bundle %d", b.Serial) + problem(r)
	case len(r.Pending) > 0:
		return "waiting until it has restarted " + strings.Join(r.Pending, ", ") + problem(r)
	}
	return ""
}

// settle waits until all nodes have been done for long enough.
func (p Phase) settle(ctx context.Context) error {
	bound := p.Settle + p.Bound
	said := false
	for waited := time.Duration(0); ; waited += p.Every {
		left := time.Duration(0)
		var why []string
		for _, b := range p.Bundles {
			r, err := p.Fleet.Ask(ctx, b.Node)
			switch {
			case err != nil:
				why = append(why, fmt.Sprintf("%s does not answer (%v)", b.Node, err))
			case r.Serial < b.Serial || r.Revision < p.Revision || len(r.Pending) > 0:
				why = append(why, b.Node+" has something to do again"+problem(r))
			default:
				left = max(left, p.Settle-time.Duration(r.Settled*float64(time.Second)))
			}
		}
		if len(why) == 0 && left <= 0 {
			return nil
		}
		if waited >= bound {
			return errors.New(strings.Join(append(why, "it is not over: mend it, and run the command again"), "; "))
		}
		if !said && left > 0 {
			said = true
			p.Say(fmt.Sprintf("waiting %s, until programs that look again every few minutes have looked", left.Round(time.Second)))
		}
		if err := p.Sleep(ctx, p.Every); err != nil {
			return err
		}
	}
}

// Order sorts nodes: those first that have first. Otherwise the order stays.
func Order(nodes []string, first func(node string) bool) []string {
	out := slices.Clone(nodes)
	slices.SortStableFunc(out, func(a, b string) int {
		switch fa, fb := first(a), first(b); {
		case fa == fb:
			return 0
		case fa:
			return -1
		}
		return 1
	})
	return out
}
