package formation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Times of the gate, on a machine of usual speed.
const (
	// askEvery is the time between two rounds of questions.
	askEvery = 2 * time.Second
	// sayEvery is how often a wait says again why it goes on, and sayAtMost how soon it says something else.
	sayEvery  = 30 * time.Second
	sayAtMost = 5 * time.Second
)

// Asker asks a member what it knows of itself.
type Asker interface {
	Ask(ctx context.Context, service, member string) (Answer, error)
}

// Options are what the gate of a member works with.
type Options struct {
	// Service is the name of the quorum service.
	Service string
	// Cluster is the id of the cluster, Node this member's name.
	Cluster, Node string
	// Initial lists the members by the configuration.
	Initial []string
	// Dir holds the files of the members of this machine.
	Dir string
	// Empty tells whether this member's data is not there.
	Empty func() (bool, error)
	// Make makes the data. What lies there is unfinished then, and has to be cleared first; it is called again after a
	// power cut that came before it returned.
	Make func(context.Context, Plan) error
	// Asker asks the other members.
	Asker Asker
	// Say is told what was decided and, now and then, for whom the member waits; Status is told what it does or for whom
	// it waits when that changes, and "" at the end.
	Say, Status func(string)
	// Every is the time between two rounds of questions, two seconds when 0.
	Every time.Duration
}

// Enter returns when this member's data is such that its service may start: as it was, or as Make made it. It waits, as
// long as that takes, until it is known whether to form or to join. It can be run again at any point.
func Enter(ctx context.Context, o Options) (Kind, error) {
	g := &gate{Options: o}
	g.Initial = clone(o.Initial)
	if g.Every == 0 {
		g.Every = askEvery
	}
	defer g.Status("")
	s, err := g.wake()
	if err != nil {
		return "", fmt.Errorf("start of %s: %w", o.Service, err)
	}
	p, err := g.decide(ctx, s)
	if err != nil {
		return "", fmt.Errorf("start of %s: %w", o.Service, err)
	}
	if p.Kind == Run {
		return Run, nil
	}
	g.Status("making the data to " + string(p.Kind))
	if err := o.Make(ctx, p); err != nil {
		return "", fmt.Errorf("make the data of %s to %s: %w", o.Service, p.Kind, err)
	}
	return p.Kind, g.made(p)
}

type gate struct {
	Options
	// said is for whom it waited when that was said last, at saidAt.
	said   string
	saidAt time.Time
}

// wake looks at file and data.
func (g *gate) wake() (State, error) {
	return change(g.Dir, g.Service, func(file *State) (State, error) {
		empty, err := g.Empty()
		if err != nil {
			return State{}, fmt.Errorf("look for data: %w", err)
		}
		s, err := wake(file, g.Cluster, g.Node, g.Initial, empty, newNonce)
		if err == nil && file != nil && file.Made && !s.Made {
			g.Say(fmt.Sprintf("this member of %s had data, and it is gone; it joins the others and never forms. If all have lost theirs: spore quorum form %s %s", g.Service, g.Node, g.Service))
		}
		return s, err
	})
}

// decide asks until it is known what to do, and notes that before it returns.
func (g *gate) decide(ctx context.Context, s State) (Plan, error) {
	for {
		if p, ok := plan(s); ok {
			return g.begin(s, p)
		}
		v := judge(s, g.ask(ctx))
		if v.join {
			g.Say(fmt.Sprintf("%s: joins: %s", g.Service, v.why))
			return g.begin(s, Plan{Kind: Join, Nonce: s.Nonce})
		}
		next, err := g.keep(s, v.state)
		if err != nil {
			return Plan{}, err
		}
		s = next
		if s.Record != nil {
			g.Say(fmt.Sprintf("%s: forms: %s", g.Service, v.why))
			continue
		}
		g.wait(v.why)
		select {
		case <-ctx.Done():
			return Plan{}, fmt.Errorf("waiting for %s: %w", v.why, ctx.Err())
		case <-time.After(g.Every):
		}
	}
}

// ask asks all other members at once.
func (g *gate) ask(ctx context.Context) map[string]Reply {
	return askAll(ctx, g.Asker, g.Service, g.Node, g.Initial)
}

func askAll(ctx context.Context, asker Asker, service, self string, members []string) map[string]Reply {
	var mu sync.Mutex
	var all sync.WaitGroup
	replies := map[string]Reply{}
	for _, name := range members {
		if name == self {
			continue
		}
		all.Go(func() {
			a, err := asker.Ask(ctx, service, name)
			mu.Lock()
			defer mu.Unlock()
			replies[name] = Reply{a, err}
		})
	}
	all.Wait()
	return replies
}

// keep notes what was judged, unless an operator changed the file meanwhile: then that counts.
func (g *gate) keep(before, after State) (State, error) {
	return change(g.Dir, g.Service, func(file *State) (State, error) {
		if file == nil {
			return State{}, errors.New("the file of this member is gone; it is read again at the next start")
		}
		if !bytes.Equal(encode(*file), encode(before)) {
			return *file, nil
		}
		return after, nil
	})
}

// begin notes that what lies in the data directory from now on is unfinished, until made.
func (g *gate) begin(s State, p Plan) (Plan, error) {
	if p.Kind == Run {
		return p, nil
	}
	kept, err := g.keep(s, begun(s, p))
	if err != nil {
		return Plan{}, err
	}
	if now, ok := plan(kept); ok {
		return now, nil
	}
	return p, nil
}

// made notes that the data of a plan is there.
func (g *gate) made(p Plan) error {
	_, err := change(g.Dir, g.Service, func(file *State) (State, error) {
		if file == nil || file.Nonce != p.Nonce || !file.Making {
			return State{}, errors.New("an operator decided otherwise while the data was made; it is made again at the next start")
		}
		return finished(*file), nil
	})
	return err
}

// begun is the state of a member whose data is being made. One that joins follows nobody: no writer is to count on it.
func begun(s State, p Plan) State {
	s.Making = true
	if p.Kind == Join {
		s.Follows = ""
	}
	return s
}

// finished is the state of a member whose data has been made.
func finished(s State) State {
	s.Making, s.Made, s.Formed = false, true, true
	return s
}

// wait says for whom the member waits, with bounds: reasons may change with every round.
func (g *gate) wait(why string) {
	since := time.Since(g.saidAt)
	if g.said != "" && since < sayAtMost || why == g.said && since < sayEvery {
		return
	}
	if why != g.said {
		g.Status("waiting for " + why)
	}
	g.said, g.saidAt = why, time.Now()
	g.Say(fmt.Sprintf("%s: waiting for %s", g.Service, why))
}
