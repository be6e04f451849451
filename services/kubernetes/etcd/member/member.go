// Package member decides who the members of etcd are to be: how a master gets in that has no data, which members have to go
// first, and when a member is removed that is no master any more. It asks etcd nothing and changes nothing by itself: a caller
// shows it what there is, does the one step that it says, and shows it again.
//
// # Rules
//
// A node is one member. When a master without data finds a member of its name or of its address, that is its own former self,
// whose data is gone: it can never take part again under that id, since it has forgotten what it promised (Raft), and would
// count as one who does not answer for as long as it is on the list. So it is removed first, and only while the others have a
// majority without it, of those that there are and of those that are left.
//
// Who is let in is a learner: it gets the data and decides nothing, so that one that never comes up stops nobody. It is
// promoted when it has caught up. There is one learner at a time (etcd, --max-learners).
package member

import (
	"fmt"
	"slices"
	"strings"
)

// Member is a member of etcd as the others know it.
type Member struct {
	ID uint64
	// Name is the node's; empty for one that was added and has never run.
	Name string
	// Peers is where the others find it: URLs.
	Peers []string
	// Learner is one that does not vote.
	Learner bool
	// Problem says why it does not do its part now; empty when it does.
	Problem string
}

// Label is how people call the member.
func (m Member) Label() string {
	if m.Name != "" {
		return m.Name
	}
	return fmt.Sprintf("the member %016x, which has never run", m.ID)
}

// Step is what is to be done next; one of its fields is set.
type Step struct {
	// Done says that there is nothing to do.
	Done bool
	// Remove is the member to remove.
	Remove *Member
	// Add says that this node is to be added as a learner.
	Add bool
	// Wait says for whom to wait.
	Wait string
}

// Self is the node that wants in.
type Self struct {
	Name string
	// Peer is where the others are to find it.
	Peer string
	// ID is what it was let in as, when it was; 0 otherwise.
	ID uint64
}

// Enter says how a master without data gets in.
func Enter(members []Member, self Self) Step {
	var former []Member
	for _, m := range members {
		if self.ID != 0 && m.ID == self.ID {
			return Step{Done: true}
		}
		if m.Name == self.Name || slices.Contains(m.Peers, self.Peer) {
			former = append(former, m)
		}
	}
	if len(former) > 0 {
		m := former[0]
		rest := slices.DeleteFunc(slices.Clone(members), func(o Member) bool { return o.ID == m.ID })
		if voters, well, bad := count(rest); !m.Learner && well < (voters+1)/2+1 {
			if len(bad) == 0 {
				return Step{Wait: fmt.Sprintf("an operator: of %d members %d are left, which is no majority, so they cannot take this one in (docs/formation.md, By force)", voters+1, well)}
			}
			return Step{Wait: strings.Join(bad, "; ") + ", without whom the others have no majority to take this master in anew"}
		}
		return Step{Remove: &m}
	}
	for _, m := range members {
		if m.Learner {
			return Step{Wait: m.Label() + " (it is being let in, and that is done one by one" + problem(m) + ")"}
		}
	}
	if wait := majority(members); wait != "" {
		return Step{Wait: wait + ", without whom the others have no majority"}
	}
	return Step{Add: true}
}

// Leave says which member has to go. lists holds, by their names, what the masters say that the masters are; those of which
// nothing is known are not in it. peers is where they find each other.
func Leave(members []Member, masters []string, lists map[string][]string, peers map[string]string) Step {
	for _, m := range members {
		if slices.Contains(masters, m.Name) || m.Name == "" && ours(m, peers) {
			continue
		}
		for _, name := range masters {
			if list, ok := lists[name]; !ok || !slices.Equal(list, masters) {
				return Step{Wait: fmt.Sprintf("%s to run with this configuration: %s is to be removed, which is not a master in it", name, m.Label())}
			}
		}
		wait := majority(members)
		if wait == "" {
			wait = majority(slices.DeleteFunc(slices.Clone(members), func(o Member) bool { return o.ID == m.ID }))
		}
		if wait != "" {
			return Step{Wait: wait + fmt.Sprintf(": %s is to be removed, which is not a master any more, and the others have no majority without it", m.Label())}
		}
		return Step{Remove: &m}
	}
	return Step{Done: true}
}

// Moved tells whether the others look for a member at another place than its own. It is the one that has to say so: which configuration
// is the newer one, others cannot tell.
func Moved(members []Member, self Self) bool {
	return slices.ContainsFunc(members, func(m Member) bool { return m.ID == self.ID && !slices.Equal(m.Peers, []string{self.Peer}) })
}

// Led tells whether the member with this id is one of the masters: then it is the one that removes others. One that is to go
// itself, with a former configuration, would not.
func Led(members []Member, leader uint64, masters []string) bool {
	return slices.ContainsFunc(members, func(m Member) bool { return m.ID == leader && slices.Contains(masters, m.Name) })
}

// ours tells whether a member that has never run is one of the masters.
func ours(m Member, peers map[string]string) bool {
	for _, peer := range peers {
		if slices.Contains(m.Peers, peer) {
			return true
		}
	}
	return false
}

// majority says whom the members lack to decide anything; "" when they can.
func majority(members []Member) string {
	voters, well, bad := count(members)
	if well >= voters/2+1 {
		return ""
	}
	return strings.Join(bad, "; ")
}

func count(members []Member) (voters, well int, bad []string) {
	for _, m := range members {
		switch {
		case m.Learner:
		case m.Problem != "":
			voters++
			bad = append(bad, fmt.Sprintf("%s (%s)", m.Label(), m.Problem))
		default:
			voters++
			well++
		}
	}
	return voters, well, bad
}

func problem(m Member) string {
	if m.Problem == "" {
		return ""
	}
	return ": " + m.Problem
}
