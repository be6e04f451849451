// Package majority keeps people from taking a quorum below its majority: before this node leaves its quorums for a
// while, it asks the other members whether they serve now. OSDs are no quorum; whether data stays available without
// those of this node, or is there elsewhere before they are destroyed, Ceph is asked.
//
// Of two members that would leave at the same time each sees the other about to leave, so that one of them, or both,
// are refused: a node first makes known that it leaves (Leaves, which GET /v1/quorum/SERVICE tells), and asks then.
package majority

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"spore/agent/formation"
	"spore/agent/formation/quorum"
	"spore/agent/health"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/status"
	"spore/agent/verbs"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

const (
	// askBound is how long a member may take to answer.
	askBound = 5 * time.Second
	// cephPatience is how long Ceph is asked again, every cephEvery, whether it bears an absence that ends by itself:
	// after a restart of another node its OSDs and their placement groups come back within that, as a rule.
	cephPatience = 75 * time.Second
	cephEvery    = 10 * time.Second
	// leavingBound is how long the mark counts, should whoever made it be stopped before it was taken away.
	leavingBound = 20 * time.Minute
)

// Absence is how this node leaves its quorums.
type Absence struct {
	// What takes it away, for the message: a restart of etcd.service.
	What string
	// Returns is true where the member comes back by itself, with its data.
	Returns bool
	// Concerns tells which quorums it leaves; all where it is nil.
	Concerns func(formation.Service) bool
	// OSDs tells by their units which of this node's OSDs it takes away. Where it is nil, it takes all of them or, with
	// Concerns, none.
	OSDs func(unit string) bool
	// Destroys is true where what those OSDs have is lost.
	Destroys bool
}

// guard is one look at the quorums and OSDs of this node. ask asks another member, and safe a node with a monitor;
// tests bring their own. patience is how long Ceph is asked again, every so often.
type guard struct {
	run  *verbs.Run
	ask  func(ctx context.Context, node, service string) (nodeapi.Member, error)
	safe func(ctx context.Context, node string, o nodeapi.Order) (nodeapi.OSDsAnswer, error)

	patience, every time.Duration
}

// Guard returns nil where this node may leave its quorums in this way; the error of one that may not names the quorum
// and who serves. Order.Force names the quorums that may lose their majority nevertheless, with commas between them.
// The others hear that this node leaves until back is called: by whoever does not restart the machine, when it serves
// again, or was refused.
func Guard(ctx context.Context, r *verbs.Run, a Absence) (back func(), err error) {
	client := r.Machine.Client()
	g := guard{run: r, safe: safeBy(client), patience: cephPatience, every: cephEvery}
	g.ask = func(ctx context.Context, node, service string) (nodeapi.Member, error) {
		ctx, cancel := context.WithTimeout(ctx, askBound)
		defer cancel()
		data, err := client.Read(ctx, node, nodeapi.Request{Path: nodeapi.QuorumPath + service}, nodeapi.MaxHealth)
		if err != nil {
			return nodeapi.Member{}, err
		}
		return nodeapi.ParseMember(data, service)
	}
	return g.leave(ctx, a)
}

// Leaves tells whether this node has made known that it leaves its quorums.
func Leaves(m *node.Machine) bool {
	info, err := os.Stat(m.Root.At(paths.Leaving))
	return err == nil && m.Now().Sub(info.ModTime()).Abs() < leavingBound
}

func (g guard) leave(ctx context.Context, a Absence) (back func(), err error) {
	m := g.run.Machine
	var of []formation.Service
	for _, s := range quorum.Of(g.run.Cluster, g.run.Node) {
		if a.Concerns == nil || a.Concerns(s) {
			of = append(of, s)
		}
	}
	taken, unread := g.taken(a)
	can := names(of, len(taken) > 0 || unread != nil)
	for _, force := range g.forces() {
		if !slices.Contains(can, force) {
			return func() {}, fmt.Errorf("--force %s: %s is not a quorum that this takes a member of; it takes one of %s",
				force, force, orNone(can))
		}
	}
	var all refusals
	if unread != nil && !g.forced(osds) {
		all.add(osds, fmt.Errorf("%s takes away an OSD, and whether Ceph bears that is not known: %w; --force %s does it "+
			"nevertheless", a.What, unread, osds))
	}
	if len(taken) > 0 {
		all.add(osds, g.bears(ctx, a, taken))
	}
	if len(of) == 0 {
		return func() {}, all.err()
	}
	back = func() {}
	if !g.run.Order.DryRun {
		back = func() { m.Mark(paths.Leaving, false) }
		// A file whose content is the same would keep its time.
		back()
		m.Mark(paths.Leaving, true)
	}
	var line status.Line
	unknown := atomicfile.ReadJSON(m.Root.At(paths.Status), &line)
	if unknown != nil {
		m.Say(status.Missing(unknown).Error() + "; this node is taken for one that serves")
	}
	for _, s := range of {
		own := health.Member(line, health.Quorum{Service: s.Name, Unit: s.Unit, Members: s.Initial(g.run.Cluster)})
		all.add(s.Name, g.judge(ctx, a, s, own.Serves || unknown != nil))
	}
	if err := all.err(); err != nil {
		back()
		return func() {}, err
	}
	return back, nil
}

// forces are the names in Order.Force.
func (g guard) forces() []string {
	if g.run.Order.Force == "" {
		return nil
	}
	return strings.Split(g.run.Order.Force, ",")
}

func (g guard) forced(name string) bool { return slices.Contains(g.forces(), name) }

// refusals are why a node may not leave, by quorum.
type refusals struct {
	names []string
	errs  []error
}

// add notes why; nil is no reason.
func (r *refusals) add(name string, err error) {
	if err != nil {
		r.names, r.errs = append(r.names, name), append(r.errs, err)
	}
}

// err says all of it, and what to type where it is more than one quorum.
func (r *refusals) err() error {
	if slices.Sort(r.names); len(slices.Compact(slices.Clone(r.names))) > 1 {
		return errors.Join(append(r.errs, fmt.Errorf("--force %s does all of that nevertheless",
			strings.Join(slices.Compact(r.names), ",")))...)
	}
	return errors.Join(r.errs...)
}

// judge says why a quorum needs this node's member.
func (g guard) judge(ctx context.Context, a Absence, s formation.Service, own bool) error {
	members := s.Initial(g.run.Cluster)
	needed := len(members)/2 + 1
	if len(members) == 1 {
		switch {
		case a.Returns:
			return g.run.Say("this node is the only member of %s, which stands still meanwhile", s.Name)
		case g.forced(s.Name):
			return nil
		}
		return fmt.Errorf("%s takes away the only member of %s; --force %[2]s does it nevertheless", a.What, s.Name)
	}
	serving, away, leaving := g.others(ctx, s.Name, members)
	if len(serving) >= needed {
		return nil
	}
	// Those that are about to leave make up the majority that there is now.
	if a.Returns && (!own || len(serving)+leaving+1 < needed) {
		// There is no majority that this would take away, or it does not hang on this member: a restart may be the cure.
		return g.run.Say("%s has no majority that needs this node: %s", s.Name, count(serving, away, members))
	}
	if g.forced(s.Name) {
		return g.run.Say("%s is below its majority from now on: %s", s.Name, count(serving, away, members))
	}
	return fmt.Errorf("%s takes %s below its majority: without %s %s, and %d are needed; --force %s does it nevertheless",
		a.What, s.Name, g.run.Node.Name, count(serving, away, members), needed, s.Name)
}

// others asks all other members at once, and returns who serves, who does not with the reason, and how many of those
// are about to leave.
func (g guard) others(ctx context.Context, service string, members []string) (serving, away []string, leaving int) {
	var all sync.WaitGroup
	reasons, leaves := make([]string, len(members)), make([]bool, len(members))
	for i, name := range members {
		if name == g.run.Node.Name {
			continue
		}
		all.Go(func() {
			switch is, err := g.ask(ctx, name, service); {
			case err != nil:
				reasons[i] = err.Error()
			case !is.Serves:
				reasons[i], leaves[i] = is.Reason, is.Leaving
			}
		})
	}
	all.Wait()
	for i, name := range members {
		switch {
		case name == g.run.Node.Name:
		case reasons[i] == "":
			serving = append(serving, name)
		default:
			away = append(away, fmt.Sprintf("%s (%s)", name, reasons[i]))
		}
		if leaves[i] {
			leaving++
		}
	}
	return serving, away, leaving
}

// count says who serves.
func count(serving, away, members []string) string {
	text := fmt.Sprintf("%d of %d members serve", len(serving), len(members))
	if len(serving) > 0 {
		text += " (" + strings.Join(serving, ", ") + ")"
	}
	if len(away) > 0 {
		text += ", not " + strings.Join(away, ", ")
	}
	return text
}

// names are what --force can be.
func names(of []formation.Service, takesOSDs bool) (out []string) {
	for _, s := range of {
		out = append(out, s.Name)
	}
	if takesOSDs {
		out = append(out, osds)
	}
	return out
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
