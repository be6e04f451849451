package formation

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var modelSeed = flag.Uint64("formation.seed", 0, "run the one schedule of this seed")

// schedules is how many random schedules a test runs.
const schedules = 500

// steps is how many things happen in a schedule before it calms down.
const steps = 200

// content is what lies in a member's data directory.
type content struct {
	// record is what it was formed by; nil for the data of one that joined.
	record *Record
	// whole is false for what a power cut left of it.
	whole bool
	// since is when the service began to run with it, 0 before.
	since int
}

// modelMember is a machine.
type modelMember struct {
	name string
	// file and data are on its disk.
	file *State
	data *content
	// initial is what its image says.
	initial []string
	// on is power; awake is true when the gate has looked at its data since; settled when the service runs.
	on, awake, settled bool
	// asking holds whom the round of questions still waits for, replies what came.
	asking  []string
	replies map[string]Reply
	plan    *Plan
	// began is when the round of questions did.
	began int
}

// model is a cluster whose every step is one that the gate makes without a pause; between two, anything may happen.
type model struct {
	random  *rand.Rand
	members []*modelMember
	nonces  int
	now     int
	wipes   bool
	lists   [][]string
	// judge is the code under test; tests of this test weaken it.
	judge func(State, map[string]Reply) verdict
	trace []string
}

func newModel(seed uint64, size int, wipes bool) *model {
	m := &model{random: rand.New(rand.NewPCG(seed, 1)), wipes: wipes, judge: judge}
	var names []string
	for i := range size {
		names = append(names, string(rune('A'+i)))
	}
	m.lists = [][]string{names}
	for _, name := range names {
		m.members = append(m.members, &modelMember{name: name, initial: names})
	}
	return m
}

func (m *model) nonce() string { m.nonces++; return fmt.Sprintf("%032x", m.nonces) }

func (m *model) member(name string) *modelMember {
	return m.members[slices.IndexFunc(m.members, func(x *modelMember) bool { return x.name == name })]
}

func (m *model) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

// happen is one step of chaos.
func (m *model) happen() error {
	x := m.members[m.random.IntN(len(m.members))]
	switch n := m.random.IntN(100); {
	case !x.on:
		if n < 30 {
			x.on = true
			m.note("%s on", x.name)
		}
		return nil
	case n < 3:
		m.off(x, "off")
		return nil
	case n < 6 && m.wipes:
		m.off(x, "wiped")
		x.data = nil
		if n < 5 {
			x.file = nil
		}
		return nil
	}
	return m.step(x, m.random.IntN(10) > 0)
}

func (m *model) off(x *modelMember, how string) {
	x.on, x.awake, x.settled, x.asking, x.replies, x.plan = false, false, false, nil, nil, nil
	x.initial = m.lists[m.random.IntN(len(m.lists))]
	m.note("%s %s, then with %v", x.name, how, x.initial)
}

// step is the next thing that a member's gate does. heard is false when a question gets no answer.
func (m *model) step(x *modelMember, heard bool) error {
	m.now++
	switch {
	case x.settled:
		return nil
	case !x.awake:
		s, err := wake(x.file, "c", x.name, x.initial, x.data == nil, m.nonce)
		if err != nil {
			return err
		}
		x.file, x.awake = &s, true
		m.note("%s wakes: %s", x.name, encode(s))
		return nil
	case x.plan != nil:
		return m.make(x)
	case len(x.asking) > 0:
		m.ask(x, heard)
		return nil
	case x.replies != nil:
		return m.decide(x)
	}
	if p, ok := plan(*x.file); ok {
		m.begin(x, p)
		return nil
	}
	x.replies, x.began = map[string]Reply{}, m.now
	x.asking = slices.DeleteFunc(slices.Clone(x.file.Initial), func(n string) bool { return n == x.name })
	m.random.Shuffle(len(x.asking), func(i, j int) { x.asking[i], x.asking[j] = x.asking[j], x.asking[i] })
	return nil
}

func (m *model) begin(x *modelMember, p Plan) {
	m.note("%s: %s", x.name, p.Kind)
	if x.plan = &p; p.Kind == Run {
		x.settled = true
		return
	}
	s := begun(*x.file, p)
	x.file = &s
}

func (m *model) ask(x *modelMember, heard bool) {
	y := m.member(x.asking[0])
	x.asking = x.asking[1:]
	if !heard || !y.on || !slices.Contains(y.initial, x.name) {
		x.replies[y.name] = Reply{Err: errors.New("no answer")}
		return
	}
	x.replies[y.name] = Reply{Answer: answer("c", y.name, "s", y.file)}
}

func (m *model) decide(x *modelMember) error {
	v := m.judge(*x.file, x.replies)
	x.replies = nil
	if v.join {
		m.begin(x, Plan{Kind: Join, Nonce: x.file.Nonce})
		return nil
	}
	if r := v.state.Record; r != nil && r.Writer == x.name && len(m.lists) == 1 {
		for _, y := range m.members {
			// One that joined what was wiped since has nothing that could be lost.
			if y != x && (holds(y) != nil || y.data != nil && y.data.since > 0 && y.data.since < x.began) {
				return fmt.Errorf("%s writes a record, and %s has %s", x.name, y.name, encode(*y.file))
			}
		}
	}
	if v.state.Record != nil {
		m.note("%s has record %s", x.name, encode(v.state))
	}
	x.file = &v.state
	return nil
}

// make makes the data, in two steps, and then notes that it is there.
func (m *model) make(x *modelMember) error {
	switch {
	case x.data == nil || !x.data.whole && m.random.IntN(2) == 0:
		x.data = &content{}
	case !x.data.whole:
		x.data = &content{whole: true}
		if x.plan.Kind == Form {
			x.data.record = x.file.Record
			for _, y := range m.members {
				if y != x && len(m.lists) == 1 && y.data != nil && y.data.record != nil && !y.data.record.same(x.file.Record) {
					return fmt.Errorf("%s forms by %v, and %s did by %v", x.name, x.file.Record, y.name, y.data.record)
				}
			}
		}
	default:
		s := finished(*x.file)
		x.file, x.settled, x.plan, x.data.since = &s, true, nil, m.now
		m.note("%s made", x.name)
	}
	return nil
}

// holds is the record by which a member has formed or will; nil for one that has lost what it formed.
func holds(x *modelMember) *Record {
	if x.file == nil || x.file.Record == nil || x.file.Made && x.data == nil {
		return nil
	}
	return x.file.Record
}

// check wants at most one formation in effect: with one configuration, one record among all members; with several, one
// record that a majority of its members holds.
func (m *model) check() error {
	var found []*Record
	for i, x := range m.members {
		r := holds(x)
		if r == nil || slices.ContainsFunc(found, r.same) {
			continue
		}
		n := 0
		for _, y := range m.members[i:] {
			if o := holds(y); o != nil && o.same(r) && r.Members[y.name] == y.file.Nonce {
				n++
			}
		}
		if len(m.lists) == 1 || n > len(r.Members)/2 {
			found = append(found, r)
		}
	}
	if len(found) > 1 {
		return fmt.Errorf("two formations are in effect: %v, %v", found[0], found[1])
	}
	return nil
}

// run runs a schedule, and then lets all go on undisturbed until all services run.
func (m *model) run() error {
	for range steps {
		if err := m.happen(); err != nil {
			return err
		}
		if err := m.check(); err != nil {
			return err
		}
	}
	m.note("calm")
	for _, x := range m.members {
		x.on, x.initial = true, m.lists[0]
		if len(m.lists) > 1 && !x.settled {
			m.off(x, "restarted")
			x.on, x.initial = true, m.lists[0]
		}
	}
	waits := func(x *modelMember) bool { return !x.settled }
	for i := 0; i < 200 && slices.ContainsFunc(m.members, waits); i++ {
		for _, x := range m.members {
			if err := m.step(x, true); err != nil {
				return err
			}
			if err := m.check(); err != nil {
				return err
			}
		}
	}
	for _, x := range m.members {
		if !x.settled && slices.Contains(m.lists[0], x.name) {
			return fmt.Errorf("%s waits for ever", x.name)
		}
		if !m.wipes && x.data.record == nil {
			return fmt.Errorf("%s joined, and nothing was ever lost", x.name)
		}
	}
	return nil
}

func runSchedules(t *testing.T, schedules uint64, build func(seed uint64) *model) error {
	t.Helper()
	first, last := uint64(1), schedules
	if *modelSeed != 0 {
		first, last = *modelSeed, *modelSeed
	}
	for seed := first; seed <= last; seed++ {
		m := build(seed)
		if err := m.run(); err != nil {
			if *modelSeed != 0 {
				for _, line := range m.trace {
					t.Log(line)
				}
			}
			return fmt.Errorf("-formation.seed=%d: %w", seed, err)
		}
	}
	return nil
}

func TestAtMostOneQuorumIsFormedWhateverHappens(t *testing.T) {
	for size := 1; size <= 5; size++ {
		t.Run(fmt.Sprint(size, " members, wiped and cut off"), func(t *testing.T) {
			require.NoError(t, runSchedules(t, schedules, func(seed uint64) *model { return newModel(seed, size, true) }))
		})
		t.Run(fmt.Sprint(size, " members, cut off alone, all form"), func(t *testing.T) {
			require.NoError(t, runSchedules(t, schedules, func(seed uint64) *model { return newModel(seed, size, false) }))
		})
	}
}

func TestConfigurationsThatDifferByAMemberFormNoTwoQuorums(t *testing.T) {
	require.NoError(t, runSchedules(t, schedules, func(seed uint64) *model {
		m := newModel(seed, 4, true)
		m.lists = [][]string{{"A", "B", "C", "D"}, {"A", "B", "C"}, {"B", "C", "D"}}
		for _, x := range m.members {
			x.initial = m.lists[m.random.IntN(3)]
		}
		return m
	}))
}

// Each rule of the protocol is there for a reason that the model finds when the rule is not kept.
func TestTheModelFindsWhatARuleIsFor(t *testing.T) {
	for name, weak := range map[string]func(State, map[string]Reply) verdict{
		"write without being followed": func(s State, r map[string]Reply) verdict {
			r = maps.Clone(r)
			for name, reply := range r {
				reply.Answer.Follows = s.Nonce
				r[name] = reply
			}
			return judge(s, r)
		},
		"write without having heard all": func(s State, r map[string]Reply) verdict {
			r = maps.Clone(r)
			for name, reply := range r {
				if reply.Err != nil {
					r[name] = Reply{Answer: Answer{Known: true, Nonce: s.Nonce, Initial: s.Initial, Follows: s.Nonce}}
				}
			}
			return judge(s, r)
		},
		"take what was lost for what never was": func(s State, r map[string]Reply) verdict {
			r = maps.Clone(r)
			for name, reply := range r {
				reply.Answer.Formed = false
				r[name] = reply
			}
			return judge(s, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := runSchedules(t, 100*schedules, func(seed uint64) *model {
				m := newModel(seed, 3, true)
				m.judge = weak
				return m
			})
			require.Error(t, err)
			t.Log(err)
		})
	}
}

// What the model meets too rarely: B reads A's record from C and is slow; A is wiped, and comes to ask before B goes on.
func TestAStaleRecordIsNotTakenOver(t *testing.T) {
	a1, a2, b1, c1 := fmt.Sprintf("%032x", 1), fmt.Sprintf("%032x", 2), fmt.Sprintf("%032x", 3), fmt.Sprintf("%032x", 4)
	names := []string{"A", "B", "C"}
	stale := &Record{Writer: "A", Members: map[string]string{"A": a1, "B": b1, "C": c1}}
	b := State{Cluster: "c", Node: "B", Nonce: b1, Initial: names, Follows: a1}
	fromC := map[string]Reply{
		"A": {Answer: Answer{Known: true, Nonce: a2, Initial: names}},
		"C": {Answer: Answer{Known: true, Nonce: c1, Initial: names, Follows: a1, Record: stale, Made: true, Formed: true}},
	}
	v := judge(b, fromC)
	require.Equal(t, stale, v.state.Record, "as long as B has not followed the second A, that one cannot have written anything")

	b.Follows = a2
	v = judge(b, fromC)
	require.Nil(t, v.state.Record, "the second A may have written a record that counts on B")
	require.True(t, v.join)
}
