package formation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Member is what is known of a member.
type Member struct {
	Name string `json:"name"`
	// State says how it is; Problem is why that is not known.
	State   string  `json:"state"`
	Problem string  `json:"problem,omitempty"`
	Answer  *Answer `json:"answer,omitempty"`
}

// String says how the member is.
func (m Member) String() string {
	if m.Problem == "" {
		return m.State
	}
	return m.State + " (" + m.Problem + ")"
}

// States of members.
const (
	Running   = "has data"
	Lost      = "lost its data"
	Forming   = "is forming"
	Empty     = "is empty"
	Unready   = "has not looked at its data yet"
	Elsewhere = "has other members in its configuration"
	Silent    = "does not answer"
)

// View asks all members about a service; the member itself is first looked up in its own file.
func View(ctx context.Context, o Options) ([]Member, error) {
	file, err := Read(o.Dir, o.Service)
	if err != nil {
		return nil, err
	}
	initial := clone(o.Initial)
	replies := askAll(ctx, o.Asker, o.Service, o.Node, initial)
	replies[o.Node] = Reply{Answer: answer(o.Cluster, o.Node, o.Service, file)}
	var out []Member
	for _, name := range initial {
		r := replies[name]
		if r.Err != nil {
			out = append(out, Member{Name: name, State: Silent, Problem: r.Err.Error()})
			continue
		}
		out = append(out, Member{Name: name, State: stateOf(r.Answer, initial), Answer: &r.Answer})
	}
	return out, nil
}

func stateOf(a Answer, initial []string) string {
	switch {
	case !a.Known:
		return Unready
	case a.Made:
		return Running
	case a.Record != nil:
		return Forming
	case a.Formed:
		return Lost
	case !slices.Equal(a.Initial, initial):
		return Elsewhere
	}
	return Empty
}

// RefusedError is what an operator has to accept by name before a quorum is formed by force.
type RefusedError struct {
	// Node is the member that would form it.
	Node, Service string
	// Lose are the members whose data is given up, with how they are.
	Lose []Member
}

// Names lists them.
func (e *RefusedError) Names() string {
	var names []string
	for _, m := range e.Lose {
		names = append(names, m.Name)
	}
	return strings.Join(names, ",")
}

func (e *RefusedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "this would give up what these members of %s have or may have:\n", e.Service)
	for _, m := range e.Lose {
		fmt.Fprintf(&b, "  %s %s\n", m.Name, m)
	}
	b.WriteString("None of them may ever come back with its data: there would be two clusters with one name.\n")
	fmt.Fprintf(&b, "If that data is lost for good, say so: spore quorum form %s %s --lose %s", e.Node, e.Service, e.Names())
	return b.String()
}

// Force has this member form a new quorum with those others that are empty, at the next start of its service. lose
// names the members whose data is given up, which may be the member itself; what else would be given up is a
// RefusedError. The same again, before the data was made, changes nothing.
func Force(ctx context.Context, o Options, lose []string) (Plan, error) {
	before, record, err := force(ctx, o, lose)
	if err != nil {
		return Plan{}, err
	}
	if record == nil {
		p, _ := plan(*before)
		return p, nil
	}
	s, err := change(o.Dir, o.Service, func(file *State) (State, error) {
		if file == nil || !bytes.Equal(encode(*file), encode(*before)) {
			return State{}, errors.New("this member went on meanwhile; look again with `spore quorum show`")
		}
		// With a nonce of its own, so that data that is being made right now does not count.
		s := empties(o.Cluster, o.Node, clone(o.Initial), record.Members[o.Node])
		s.Record, s.Making, s.Formed = record, true, file.Formed
		return s, nil
	})
	if err != nil {
		return Plan{}, err
	}
	p, _ := plan(s)
	return p, nil
}

// MayForce says why Force would refuse. forced is true where the same was said before, and the data is not made yet.
func MayForce(ctx context.Context, o Options, lose []string) (forced bool, err error) {
	_, record, err := force(ctx, o, lose)
	return err == nil && record == nil, err
}

// force is by what this member would form, and what its file says; no record where that is in the file already.
func force(ctx context.Context, o Options, lose []string) (before *State, record *Record, err error) {
	initial := clone(o.Initial)
	for _, name := range append(slices.Clone(lose), o.Node) {
		if !slices.Contains(initial, name) {
			return nil, nil, fmt.Errorf("%s is not a member of %s by the configuration; those are %s", name, o.Service,
				strings.Join(initial, ", "))
		}
	}
	before, err = Read(o.Dir, o.Service)
	switch {
	case err != nil:
		return nil, nil, err
	case before == nil:
		return nil, nil, errors.New("this member has not looked at its own data yet; start its service first")
	case before.Cluster != o.Cluster || before.Node != o.Node:
		return nil, nil, fmt.Errorf("the file of this member is that of %s of cluster %s; start its service first",
			before.Node, before.Cluster)
	case forces(*before, initial, lose):
		return before, nil, nil
	}
	members, err := View(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	refused := &RefusedError{Node: o.Node, Service: o.Service}
	record = &Record{Writer: o.Node, Forced: true, Members: map[string]string{o.Node: newNonce()}}
	for _, m := range members {
		switch named := slices.Contains(lose, m.Name); {
		case named:
		case m.Name == o.Node && m.State == Forming:
			return nil, nil, errors.New("this member forms already; it needs no force")
		case m.Name == o.Node && (m.State == Empty || m.State == Elsewhere):
		case m.State != Empty:
			refused.Lose = append(refused.Lose, m)
		case m.Name < o.Node:
			// So that two operators do not force two quorums.
			return nil, nil, fmt.Errorf("%s is empty too and comes first; run the command there", m.Name)
		default:
			record.Members[m.Name] = m.Answer.Nonce
		}
	}
	if len(refused.Lose) > 0 {
		for _, name := range lose {
			i := slices.IndexFunc(members, func(m Member) bool { return m.Name == name })
			refused.Lose = append(refused.Lose, members[i])
		}
		slices.SortFunc(refused.Lose, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
		return nil, nil, refused
	}
	return before, record, nil
}

// forces tells whether a member is about to form by force with those who are not lost: an order that was cut off is
// given again. Its others may have taken the record over meanwhile, and are not empty any more.
func forces(s State, initial, lose []string) bool {
	if s.Record == nil || !s.Record.Forced || s.Record.Writer != s.Node || !s.Making || s.Made {
		return false
	}
	for _, name := range initial {
		_, forms := s.Record.Members[name]
		if forms != (name == s.Node || !slices.Contains(lose, name)) {
			return false
		}
	}
	return true
}
