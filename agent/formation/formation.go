// Package formation is how the members of a quorum service (etcd, Kafka's controllers, Ceph's monitors) agree that all
// of them are empty before one quorum is formed, and how a member that lost its data joins the quorum that is there and
// never forms a second.
//
// # What can go wrong without it
//
// A member with an empty disk cannot tell by itself a first boot from a lost disk, and the services cannot either: an
// empty Kafka controller that is formatted as one of the first voters can win an election and make an empty cluster of
// a full one; a monitor that forms alone gives out a map that nobody else has. So every member asks, by mTLS, before it
// makes any data.
//
// # Protocol
//
// Each member keeps one small file (State) on its state partition, which only its own gate writes, and which the node's
// API (package nodeapi) serves to the other members to read. The gate runs before the service starts (Enter):
//
//   - A member with data runs. Nobody is asked, so a cluster that comes back from a power cut needs no quorum for this.
//   - A member that had data and has none has lost it: it takes a new nonce and joins.
//   - An empty member draws a nonce, its incarnation. It forms only by a record: a list of members and their nonces, in
//     which its own nonce stands. The record is on its disk before the data is made.
//   - The first member of the sorted initial list, the writer, writes the record when all the others answer that they are
//     empty, never were part of this cluster, have the same initial list, and follow the writer's present nonce. Those
//     others follow a writer's nonce when everybody has answered and nobody has a record or data.
//   - The others take over a record when any member holds one with their own nonce, whose writer's nonce is the one that
//     they follow.
//   - A member that hears of data, or of any other record, joins.
//   - Everybody else waits, and says for whom.
//
// # Why it is safe
//
// Claim: when a writer A with nonce a writes a record, no other member of its list holds another record or data. Each
// of them, X, answered during the life of a that it had neither and followed a. To have one by now, X must have taken
// over a record of another nonce a' of A since then, hence have followed a' since then. X follows what A says in a
// round of questions, its rounds come one after the other, and A said nothing but a between X's answer and now. So it
// has not.
//
// It follows that there is one record at a time: a member that lost its data comes back with another nonce, so no
// earlier record lets it form, and it finds either all others empty or a reason to join. It does not matter when a
// machine stops, is wiped, or which machines reach each other: what a member has not heard, it waits for. Nothing
// depends on clocks.
//
// A nonce is good for one initial list: with another list the member draws another. So no two writers, of two
// configurations, get the same nonce of a member. While configurations differ, a writer may still write a record whose
// other members have moved on; it then holds a record that nobody else can take over, which is no quorum but where the
// list has one member.
//
// # What it does not do
//
// It does not heal a quorum that lost its majority, or one in whose first minutes most members were wiped: all that are
// left wait or join, and an operator decides (Force). It does not move data and starts no service.
package formation

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"spore/services"
	"spore/services/service"
)

// Service is a quorum service.
type Service = service.Quorum

// Services are the quorum services, which the rows of a list of services name.
func Services(l *services.List) []Service {
	var out []Service
	for _, s := range l.All() {
		out = append(out, s.Quorums...)
	}
	return out
}

// Lookup finds a quorum service by its name.
func Lookup(l *services.List, name string) (Service, bool) {
	for _, s := range Services(l) {
		if s.Name == name {
			return s, true
		}
	}
	return Service{}, false
}

// Kind is what a member is to do.
type Kind string

// Kinds.
const (
	// Form is to make the data of a first member, with exactly the members of the plan.
	Form Kind = "form"
	// Join is to make the data of a member that gets everything from the quorum.
	Join Kind = "join"
	// Run is to leave the data as it is.
	Run Kind = "run"
)

// Plan is what a member is to make.
type Plan struct {
	Kind Kind
	// Nonce is the member's incarnation, 32 hexadecimal digits: another one whenever its data was lost.
	Nonce string
	// Members holds, for Form, the nonces of those that form, by name. They may be fewer than the configuration has.
	Members map[string]string
}

// Names lists the members that form, sorted.
func (p Plan) Names() []string { return slices.Sorted(maps.Keys(p.Members)) }

// Record says who forms a quorum. It never changes.
type Record struct {
	// Writer is the member that wrote it, Forced that an operator told it to.
	Writer string `json:"writer"`
	Forced bool   `json:"forced,omitempty"`
	// Members holds nonces by name.
	Members map[string]string `json:"members"`
}

// same tells whether two records are the same.
func (r *Record) same(o *Record) bool {
	return r.Writer == o.Writer && r.Forced == o.Forced && maps.Equal(r.Members, o.Members)
}

// State is what a member knows of itself, its file.
type State struct {
	// Cluster is the id of the cluster, Node the member's name.
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// Nonce is the member's incarnation, good for this initial list.
	Nonce   string   `json:"nonce"`
	Initial []string `json:"initial"`
	// Follows is the nonce of the writer whose record the member would take over.
	Follows string `json:"follows,omitempty"`
	// Record is what it forms by; nil for a member that joins.
	Record *Record `json:"record,omitempty"`
	// Making is true while the data is being made: what lies there is unfinished, and the service has never run with it.
	Making bool `json:"making,omitempty"`
	// Made is true when the data of this nonce was made, and Formed when that of any was.
	Made   bool `json:"made,omitempty"`
	Formed bool `json:"formed,omitempty"`
}

// newNonce draws 128 bits.
func newNonce() string {
	var b [nonceSize]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

const nonceSize = 16

// validNonce tells whether a text has the form of a nonce.
func validNonce(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == nonceSize
}

// empties is the state of a member that knows nothing of itself.
func empties(cluster, node string, initial []string, nonce string) State {
	return State{Cluster: cluster, Node: node, Nonce: nonce, Initial: initial}
}

// wake is what a member makes of its file, nil when it has none, and its data when it starts.
func wake(file *State, cluster, node string, initial []string, empty bool, nonce func() string) (State, error) {
	if file != nil && (file.Cluster != cluster || file.Node != node) {
		if !empty && !file.Making {
			return State{}, fmt.Errorf("the data is that of member %s of cluster %s, and this is %s of %s; if that is meant to be, remove its file in /var/lib/spore/formation", file.Node, file.Cluster, node, cluster)
		}
		s := empties(cluster, node, initial, nonce())
		s.Formed, s.Making = file.Formed && file.Cluster == cluster, file.Making
		return s, nil
	}
	switch {
	case file == nil && empty:
		return empties(cluster, node, initial, nonce()), nil
	case file == nil:
		s := empties(cluster, node, initial, nonce())
		s.Made, s.Formed = true, true
		return s, nil
	}
	s := *file
	switch {
	case s.Made && empty: // lost
		s = empties(cluster, node, initial, nonce())
		s.Formed = true
	case s.Made:
	case !empty && !s.Making: // brought back from somewhere
		s.Made, s.Formed, s.Record = true, true, nil
	case s.Record == nil && !slices.Equal(s.Initial, initial):
		s.Initial, s.Nonce, s.Follows = initial, nonce(), ""
	}
	return s, nil
}

// plan is what a member does with nobody asked; ok is false when it has to ask.
func plan(s State) (p Plan, ok bool) {
	switch {
	case s.Made:
		return Plan{Kind: Run, Nonce: s.Nonce}, true
	case s.Record != nil:
		return Plan{Kind: Form, Nonce: s.Nonce, Members: s.Record.Members}, true
	case s.Formed, !slices.Contains(s.Initial, s.Node):
		return Plan{Kind: Join, Nonce: s.Nonce}, true
	}
	return Plan{}, false
}
