package push

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"spore/services"
	"spore/wire/nodeapi"
	"spore/wire/update"
)

// giveUpFlag is what a node names when it refuses an update only because it could not return to its root before.
const giveUpFlag = "--give-up-way-back"

// atOnce is how many nodes get an update at the same time that none of them can have in effect at once.
const atOnce = 4

// askedAtOnce is how many nodes are asked for their status at the same time.
const askedAtOnce = 32

// Target is a node of a roll-out.
type Target struct {
	Name  string
	Roles []string
}

// Wish is what is asked of a node with an update.
type Wish struct {
	// GiveUpWayBack lets it write over the system that it could go back to.
	GiveUpWayBack bool
}

// Rollout brings an update to nodes, or has them go back to the system before.
type Rollout struct {
	// Services is the list of the cluster.
	Services *services.List
	// Nodes are those that get it, All those of the cluster.
	Nodes, All []Target
	// RootHash and ClusterHash are what they are to run; empty where they go back to what each of them had.
	RootHash, ClusterHash string
	// Versions are those of the programs that keep data.
	Versions map[string]string
	// Reboot restarts each node and goes on only when it is up with the update.
	Reboot bool
	// Bound is how long a node may take to come back and to be up, and Settle how much longer with another root.
	Bound, Settle time.Duration
	// Every is how often a node is asked meanwhile.
	Every time.Duration
	// Without names nodes that may be away while others with their roles are restarted.
	Without []string
	// Ask asks a node for its status, Send sends it the update or has it go back. Both are called for several nodes at
	// once.
	Ask  func(ctx context.Context, node string) (nodeapi.Status, error)
	Send func(ctx context.Context, node string, w Wish) (update.Answer, error)
	// GiveUp asks a person whether a node may give up its way back, and says what the node says of that. Nil is no.
	GiveUp func(node, why string) bool
	// Say is told what goes on. It is called by one goroutine at a time.
	Say func(node, text string)
}

// Run does it. It ends with the first node that does not take the update, or goes back: what is wrong with one is
// likely to be wrong with all. Nodes that run another root cannot have it in effect before they start again, and are
// sent it at the same time; others get it one after the other.
func (r Rollout) Run(ctx context.Context) ([]update.Answer, error) {
	var mu sync.Mutex
	say, giveUp := r.Say, r.GiveUp
	r.Say = func(node, text string) { mu.Lock(); defer mu.Unlock(); say(node, text) }
	if giveUp != nil {
		r.GiveUp = func(node, why string) bool { mu.Lock(); defer mu.Unlock(); return giveUp(node, why) }
	}
	answers := make([]*update.Answer, len(r.Nodes))
	err := r.together(ctx, answers)
	for i, n := range r.Nodes {
		if err != nil {
			break
		}
		if answers[i] == nil {
			answers[i], err = r.one(ctx, n)
		}
	}
	var out []update.Answer
	for _, a := range answers {
		if a != nil {
			out = append(out, *a)
		}
	}
	return out, err
}

// together sends the update to the nodes that run another root, without restarts.
func (r Rollout) together(ctx context.Context, answers []*update.Answer) error {
	if r.Reboot || len(r.Nodes) < 2 {
		return nil
	}
	others := r.otherRoots(ctx)
	errs := make([]error, len(r.Nodes))
	var next int
	var mu sync.Mutex
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(others) || errors.Join(errs...) != nil {
			return 0, false
		}
		next++
		return others[next-1], true
	}
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				a, err := r.one(ctx, r.Nodes[i])
				mu.Lock()
				answers[i], errs[i] = a, err
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// otherRoots are the numbers of the nodes that run another root. One that does not answer is not known to be such a
// one, and is told of when its turn comes.
func (r Rollout) otherRoots(ctx context.Context) []int {
	is := make([]bool, len(r.Nodes))
	room := make(chan struct{}, askedAtOnce)
	var wg sync.WaitGroup
	for i, n := range r.Nodes {
		wg.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			s, err := r.Ask(ctx, n.Name)
			is[i] = err == nil && s.Configuration != nil && !strings.EqualFold(s.Configuration.RootHash, r.RootHash)
		})
	}
	wg.Wait()
	var out []int
	for i, other := range is {
		if other {
			out = append(out, i)
		}
	}
	return out
}

// one brings the update to a node. There is an answer where the node took it.
func (r Rollout) one(ctx context.Context, n Target) (*update.Answer, error) {
	if r.Reboot {
		if err := r.othersAreUp(ctx, n); err != nil {
			return nil, fmt.Errorf("%s is not restarted: %w", n.Name, err)
		}
	}
	before, err := r.Ask(ctx, n.Name)
	if err != nil && r.isBack() {
		return nil, fmt.Errorf("%s: %w", n.Name, err)
	}
	for _, text := range r.warnings(before, n.Roles) {
		r.Say(n.Name, text)
	}
	a, err := r.send(ctx, n.Name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.Name, err)
	}
	switch {
	case a.Unchanged && !a.Reboot && !r.onTrial(ctx, n):
		r.Say(n.Name, "has it already"+a.Later())
		return &a, nil
	case !r.Reboot:
		r.Say(n.Name, effect(a)+a.Later())
		return &a, nil
	case r.isBack():
		r.Say(n.Name, "restarts with the system before")
	case !a.Unchanged:
		r.Say(n.Name, "restarts with it"+a.Later())
	}
	if err := r.await(ctx, n, before); err != nil {
		return &a, fmt.Errorf("%s: %w", n.Name, err)
	}
	r.Say(n.Name, "is up with it")
	return &a, nil
}

// warnings are what a person should know before a node gets what it is to run.
func (r Rollout) warnings(before nodeapi.Status, roles []string) []string {
	if r.isBack() || before.Versions == nil {
		return nil
	}
	return warnings(r.Services, update.Change{From: before.Versions, To: r.Versions}, roles)
}

// isBack tells whether nodes are to go back instead of getting something.
func (r Rollout) isBack() bool { return r.ClusterHash == "" }

// onTrial tells whether a node that has the update already is still to show that it comes up with it: it may have taken
// it when the connection broke, or from somebody else.
func (r Rollout) onTrial(ctx context.Context, n Target) bool {
	if !r.Reboot {
		return false
	}
	s, err := r.Ask(ctx, n.Name)
	return err == nil && s.Configuration != nil && s.Configuration.Trial && r.runs(s, "")
}

// send sends a node the update, and asks a person where it would lose its way back.
func (r Rollout) send(ctx context.Context, node string) (update.Answer, error) {
	a, err := r.Send(ctx, node, Wish{})
	if err == nil && strings.Contains(a.Error, giveUpFlag) && r.GiveUp != nil && r.GiveUp(node, a.Error) {
		a, err = r.Send(ctx, node, Wish{GiveUpWayBack: true})
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	return a, err
}

// effect says what became of it on a node that does not restart.
func effect(a update.Answer) string {
	switch {
	case a.Live && len(a.Restarted) > 0:
		return "has it in effect, after a restart of " + strings.Join(a.Restarted, ", ")
	case a.Live:
		return "has it in effect; no program had to be restarted"
	case len(a.Waits) > 0:
		return "has it on its disk, and takes it at its next start (--reboot), because of " + strings.Join(a.Waits, "; ")
	}
	return "has it on its disk, and takes it at its next start"
}

// othersAreUp makes sure that the node can be spared: those that do the same, and may form a quorum with it, are up.
func (r Rollout) othersAreUp(ctx context.Context, n Target) error {
	for _, other := range r.All {
		shares := slices.ContainsFunc(other.Roles, func(role string) bool { return slices.Contains(n.Roles, role) })
		if other.Name == n.Name || slices.Contains(r.Without, other.Name) || !shares {
			continue
		}
		s, err := r.Ask(ctx, other.Name)
		if err != nil {
			return fmt.Errorf("%s, which has a role of it too, does not answer (--without %[1]s continues anyway): %[2]w", other.Name, err)
		}
		if text := s.NotUp(); text != "" {
			return fmt.Errorf("%s, which has a role of it too, is not up (--without %[1]s continues anyway): %[2]s", other.Name, text)
		}
	}
	return nil
}

// system names what a node runs; empty where it does not say.
func system(s nodeapi.Status) string {
	if s.Configuration == nil {
		return ""
	}
	return strings.ToLower(s.Configuration.RootHash + " " + s.Configuration.ClusterHash)
}

// await waits until the node runs what it is to run and is done with its trial. was is its status before it was sent
// that: what it says there of an earlier update it may say again until it has restarted.
func (r Rollout) await(ctx context.Context, n Target, was nodeapi.Status) error {
	bound, before := r.Bound, system(was)
	old := ""
	if was.Configuration != nil {
		old = was.Configuration.Problem
	}
	away := false
	// A node that did not say what it ran may have got another root.
	if !r.isBack() && !strings.HasPrefix(before, strings.ToLower(r.RootHash)+" ") {
		bound += r.Settle
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	tick := time.NewTicker(r.Every)
	defer tick.Stop()
	last := "it has not answered since"
	for {
		s, err := r.Ask(ctx, n.Name)
		c := s.Configuration
		switch {
		case err != nil:
			away = true
			if ctx.Err() == nil {
				last = err.Error()
			}
		case c == nil:
			last = "it does not say which configuration runs"
		case r.runs(s, before) && !c.Trial:
			return nil
		case r.runs(s, before):
			last = "it is on trial: " + s.NotUp()
		case !r.isBack() && c.Problem != "" && c.Staged == "" && (away || c.Problem != old):
			return errors.New(c.Problem)
		default:
			last = "it has not restarted yet"
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited %s for it to be up with it: %s", bound, last)
		}
	}
}

// runs tells whether a node runs what it is to run: the update, or something else than before.
func (r Rollout) runs(s nodeapi.Status, before string) bool {
	if r.isBack() {
		return system(s) != before
	}
	return system(s) == strings.ToLower(r.RootHash+" "+r.ClusterHash)
}
