package member

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// members makes a list of "NAME", "NAME learner" or "NAME: problem", with ids from 1 and peers https://NAME:2380.
func members(list ...Member) []Member {
	for i := range list {
		list[i].ID = uint64(i + 1)
		if len(list[i].Peers) == 0 {
			list[i].Peers = []string{"https://" + list[i].Name + ":2380"}
		}
	}
	return list
}

var (
	a, b, c, d = Member{Name: "a"}, Member{Name: "b"}, Member{Name: "c"}, Member{Name: "d"}
	e          = Member{Name: "e"}
)

func off(m Member) Member     { m.Problem = "no answer"; return m }
func learner(m Member) Member { m.Learner = true; return m }

// unnamed is one that was added and has never run.
func unnamed(m Member) Member {
	m.Peers, m.Name = []string{"https://" + m.Name + ":2380"}, ""
	return learner(m)
}

func TestEnter(t *testing.T) {
	for _, tt := range []struct {
		name    string
		members []Member
		self    Self
		want    Step
		remove  uint64
		wait    string
	}{
		{name: "a new master is added", members: members(b, c), want: Step{Add: true}},
		{name: "a second master is added", members: members(b), want: Step{Add: true}},
		{name: "one that was let in has nothing to do", members: members(a, b, c), self: Self{ID: 1}, want: Step{Done: true}},
		{name: "one that was let in before and is not that one goes first", members: members(a, b, c), self: Self{ID: 9}, remove: 1},
		{name: "the former self goes first", members: members(off(a), b, c), remove: 1},
		{name: "the former self under another name goes first", members: members(b, Member{Name: "old", Peers: []string{"https://a:2380"}}, c), remove: 2},
		{name: "a former self that never ran goes first", members: members(b, unnamed(a), c), remove: 2},
		{name: "a former learner goes while the others have a majority", members: members(b, off(c), d, learner(a)), remove: 4},
		{name: "of three, both others are needed", members: members(a, b, off(c)), wait: "c (no answer), without whom the others have no majority to take this master in anew"},
		{name: "of five, three others are needed", members: members(a, off(b), c, d, e), remove: 1},
		{name: "of five, two others are too few", members: members(a, off(b), off(c), d, e), wait: "b (no answer); c (no answer), without whom the others have no majority to take this master in anew"},
		{name: "of four, all three others are needed", members: members(a, b, c, off(d)), wait: "d (no answer), without whom the others have no majority to take this master in anew"},
		{name: "of two, the other decides nothing alone", members: members(a, b), wait: "an operator: of 2 members 1 are left, which is no majority, so they cannot take this one in (docs/formation.md, By force)"},
		{name: "one is let in at a time", members: members(b, c, learner(off(d))), wait: "d (it is being let in, and that is done one by one: no answer)"},
		{name: "nobody is added without a majority", members: members(b, off(c)), wait: "c (no answer), without whom the others have no majority"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.self.Name, tt.self.Peer = "a", "https://a:2380"
			got := Enter(tt.members, tt.self)
			check(t, got, tt.want, tt.remove, tt.wait)
		})
	}
}

func check(t *testing.T, got, want Step, remove uint64, wait string) {
	t.Helper()
	if remove != 0 {
		require.NotNil(t, got.Remove, got.Wait)
		require.Equal(t, remove, got.Remove.ID)
		got.Remove = nil
	}
	want.Wait = wait
	require.Equal(t, want, got)
}

func TestLeave(t *testing.T) {
	peers := map[string]string{"a": "https://a:2380", "b": "https://b:2380", "c": "https://c:2380", "d": "https://d:2380"}
	agreed := func(masters ...string) map[string][]string {
		out := map[string][]string{}
		for _, m := range masters {
			out[m] = masters
		}
		return out
	}
	for _, tt := range []struct {
		name    string
		members []Member
		masters []string
		lists   map[string][]string
		want    Step
		remove  uint64
		wait    string
	}{
		{name: "all are masters", members: members(a, b, c), masters: []string{"a", "b", "c"}, want: Step{Done: true}},
		{name: "a master that has never run stays", members: members(a, b, unnamed(c)), masters: []string{"a", "b", "c"}, want: Step{Done: true}},
		{name: "who is no master goes when all agree", members: members(a, b, c), masters: []string{"a", "b"}, lists: agreed("a", "b"), remove: 3},
		{name: "also when it is off", members: members(a, b, off(c)), masters: []string{"a", "b"}, lists: agreed("a", "b"), remove: 3},
		{name: "the second of two goes while it still helps to decide it", members: members(a, b), masters: []string{"a"}, lists: agreed("a"), remove: 2},
		{name: "the second of two that is off cannot be removed", members: members(a, off(b)), masters: []string{"a"}, lists: agreed("a"), wait: "b (no answer): b is to be removed, which is not a master any more, and the others have no majority without it"},
		{name: "one that has another list is waited for", members: members(a, b, c), masters: []string{"a", "b"}, lists: map[string][]string{"a": {"a", "b"}, "b": {"a", "b", "c"}},
			wait: "b to run with this configuration: c is to be removed, which is not a master in it"},
		{name: "one that has said nothing is waited for", members: members(a, b, c), masters: []string{"a", "b"}, lists: map[string][]string{"a": {"a", "b"}},
			wait: "b to run with this configuration: c is to be removed, which is not a master in it"},
		{name: "a new master that has said nothing is waited for", members: members(a, b, c), masters: []string{"a", "b", "d"}, lists: map[string][]string{"a": {"a", "b", "d"}, "b": {"a", "b", "d"}},
			wait: "d to run with this configuration: c is to be removed, which is not a master in it"},
		{name: "those who are left must be a majority", members: members(a, off(b), c), masters: []string{"a", "b"}, lists: agreed("a", "b"), wait: "b (no answer): c is to be removed, which is not a master any more, and the others have no majority without it"},
		{name: "a learner that is no master goes", members: members(a, b, unnamed(e)), masters: []string{"a", "b"}, lists: agreed("a", "b"), remove: 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check(t, Leave(tt.members, tt.masters, tt.lists, peers), tt.want, tt.remove, tt.wait)
		})
	}
}

func TestALeaderThatIsToGoDoesNotDecideThat(t *testing.T) {
	all := members(a, b, c)
	require.True(t, Led(all, 2, []string{"a", "b"}))
	require.False(t, Led(all, 3, []string{"a", "b"}), "it is none of the masters")
	require.False(t, Led(all, 0, []string{"a", "b"}), "nobody leads")
}

func TestAMemberWithAnotherAddressSaysSoItself(t *testing.T) {
	all := members(a, off(b), Member{Name: "c", Peers: []string{"https://c:2380", "https://former:2380"}})
	for _, tt := range []struct {
		self Self
		want bool
	}{
		{Self{Name: "a", Peer: "https://a:2380", ID: 1}, false},
		{Self{Name: "a", Peer: "https://moved:2380", ID: 1}, true},
		{Self{Name: "c", Peer: "https://c:2380", ID: 3}, true},
		{Self{Name: "d", Peer: "https://d:2380", ID: 4}, false},
	} {
		require.Equal(t, tt.want, Moved(all, tt.self), tt.self)
	}
}
