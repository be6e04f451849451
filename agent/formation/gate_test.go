package formation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// heard answers as a map says.
type heard map[string]Reply

func (h heard) Ask(_ context.Context, _, member string) (Answer, error) {
	return h[member].Answer, h[member].Err
}

// disk is a member's data directory.
type disk struct {
	full  bool
	plans []Plan
	fail  error
}

func (d *disk) options(t *testing.T, dir string, h heard, initial ...string) Options {
	return Options{
		Service: "s", Cluster: "c", Node: "B", Initial: initial, Dir: dir, Asker: h, Every: time.Millisecond,
		Say: func(s string) { t.Log(s) }, Status: func(string) {}, Empty: func() (bool, error) { return !d.full, nil },
		Make: func(_ context.Context, p Plan) error {
			d.plans = append(d.plans, p)
			d.full = true
			return d.fail
		},
	}
}

func enter(t *testing.T, o Options) Kind {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	kind, err := Enter(ctx, o)
	require.NoError(t, err)
	return kind
}

// empty is the answer of an empty member.
func empty(name, nonce, follows string, initial ...string) Reply {
	return Reply{Answer: Answer{Cluster: "c", Node: name, Service: "s", Known: true, Nonce: nonce, Initial: initial, Follows: follows}}
}

func formed(name string) Reply {
	r := empty(name, nonce1, "", "A", "B")
	r.Answer.Made, r.Answer.Formed = true, true
	return r
}

func TestTheOnlyMemberFormsAtOnceAndJoinsNobodyAfterALoss(t *testing.T) {
	dir, d := t.TempDir(), &disk{}
	require.Equal(t, Form, enter(t, d.options(t, dir, nil, "B")))
	require.Equal(t, Run, enter(t, d.options(t, dir, nil, "B")))
	require.Len(t, d.plans, 1)
	first := d.plans[0]
	require.Equal(t, map[string]string{"B": first.Nonce}, first.Members)
	d.full = false
	require.Equal(t, Join, enter(t, d.options(t, dir, nil, "B")), "it was part of the cluster: an operator has to say that all is lost")
	require.NotEqual(t, first.Nonce, d.plans[1].Nonce)
}

func TestDataThatIsThereRunsWithoutAnyQuestion(t *testing.T) {
	dir, d := filepath.Join(t.TempDir(), "new"), &disk{full: true}
	require.Equal(t, Run, enter(t, d.options(t, dir, nil, "A", "B")))
	s, err := Read(dir, "s")
	require.NoError(t, err)
	require.True(t, s.Made && s.Formed, "others are told")
	require.Empty(t, d.plans)
}

func TestWhatItFormsByIsOnTheDiskBeforeAnyDataIs(t *testing.T) {
	dir, d := t.TempDir(), &disk{}
	o := d.options(t, dir, heard{"A": {Err: errors.New("off")}}, "B")
	var during State
	o.Make = func(_ context.Context, p Plan) error {
		file, err := Read(dir, "s")
		require.NoError(t, err)
		during = *file
		return nil
	}
	require.Equal(t, Form, enter(t, o))
	require.True(t, during.Making && !during.Made && !during.Formed)
	require.Equal(t, map[string]string{"B": during.Nonce}, during.Record.Members)
	after, err := Read(dir, "s")
	require.NoError(t, err)
	require.True(t, !after.Making && after.Made && after.Formed)
}

func TestDataOfWhichNothingCouldBeNotedStartsNoService(t *testing.T) {
	dir, d := t.TempDir(), &disk{}
	o := d.options(t, dir, nil, "B")
	o.Make = func(context.Context, Plan) error {
		d.full = true
		return os.Remove(filepath.Join(dir, "s.json"))
	}
	_, err := Enter(context.Background(), o)
	require.Error(t, err, "the service does not start with data that nothing is noted of")
}

func TestMakingThatWasCutOffIsDoneAgainWithTheSamePlan(t *testing.T) {
	for name, tc := range map[string]struct {
		h       heard
		initial []string
		kind    Kind
	}{
		"to form": {nil, []string{"B"}, Form},
		"to join": {heard{"A": formed("A")}, []string{"A", "B"}, Join},
	} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), &disk{fail: errors.New("power cut")}
			_, err := Enter(context.Background(), d.options(t, dir, tc.h, tc.initial...))
			require.ErrorIs(t, err, d.fail)
			require.True(t, d.full, "something lies there")
			d.fail = nil
			require.Equal(t, tc.kind, enter(t, d.options(t, dir, tc.h, tc.initial...)))
			require.Len(t, d.plans, 2)
			require.Equal(t, d.plans[0], d.plans[1])
			require.Equal(t, Run, enter(t, d.options(t, dir, tc.h, tc.initial...)))
		})
	}
}

func TestAMemberThatTheConfigurationDoesNotNameJoins(t *testing.T) {
	require.Equal(t, Join, enter(t, (&disk{}).options(t, t.TempDir(), nil, "A", "C")))
}

func TestAFileOfAnotherMemberIsNotThisOnes(t *testing.T) {
	dir := t.TempDir()
	old := Options{Service: "s", Cluster: "c", Node: "C", Initial: []string{"C"}, Dir: dir, Say: func(string) {}, Status: func(string) {}, Empty: func() (bool, error) { return true, nil }, Make: func(context.Context, Plan) error { return nil }}
	require.Equal(t, Form, enter(t, old))
	d := &disk{full: true}
	_, err := Enter(context.Background(), d.options(t, dir, nil, "A", "B"))
	require.ErrorContains(t, err, "the data is that of member C")
	d.full = false
	require.Equal(t, Join, enter(t, d.options(t, dir, nil, "A", "B")), "the machine was part of this cluster under another name")
}

func TestADamagedFileStopsAndSaysWhich(t *testing.T) {
	dir, d := t.TempDir(), &disk{}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.json"), []byte("{}"), 0o644))
	_, err := Enter(context.Background(), d.options(t, dir, nil, "B"))
	require.ErrorIs(t, err, errDamaged)
	require.ErrorContains(t, err, filepath.Join(dir, "s.json"))
}

func TestAnOperatorEndsAWait(t *testing.T) {
	dir, d := t.TempDir(), &disk{}
	h := heard{"A": {Err: errors.New("off")}, "C": empty("C", nonce2, "", "A", "B", "C")}
	o := d.options(t, dir, h, "A", "B", "C")
	done := make(chan error, 1)
	go func() {
		_, err := Enter(context.Background(), o)
		done <- err
	}()
	var refused *RefusedError
	require.Eventually(t, func() bool {
		_, err := Force(context.Background(), o, nil)
		return errors.As(err, &refused)
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, "A", refused.Names())
	require.ErrorContains(t, refused, "A does not answer (off)")
	require.ErrorContains(t, refused, "s --lose A")
	require.Empty(t, d.plans)
	p, err := Force(context.Background(), o, []string{"A"})
	require.NoError(t, err)
	require.Equal(t, []string{"B", "C"}, p.Names())
	require.NoError(t, <-done, "the wait takes it up by itself")
	require.Equal(t, []Plan{p}, d.plans)
	require.Equal(t, nonce2, p.Members["C"])

	// C takes it over, although it never followed B.
	s := State{Cluster: "c", Node: "C", Nonce: nonce2, Initial: []string{"A", "B", "C"}}
	file, err := Read(dir, "s")
	require.NoError(t, err)
	v := judge(s, map[string]Reply{"B": {Answer: answer("c", "B", "s", file)}})
	require.Equal(t, file.Record, v.state.Record)
}

func TestForceNamesEveryLoss(t *testing.T) {
	names := []string{"A", "B", "C"}
	for name, tc := range map[string]struct {
		h       heard
		full    bool
		lose    []string
		names   []string
		problem string
	}{
		"nothing is lost, and the first is to do it": {h: heard{"A": empty("A", nonce1, "", names...), "C": empty("C", nonce2, "", names...)}, problem: "A is empty too and comes first"},
		"a member has data":                          {h: heard{"A": formed("A"), "C": empty("C", nonce2, "", names...)}, problem: "A has data"},
		"it is given up":                             {h: heard{"A": formed("A"), "C": empty("C", nonce2, "", names...)}, lose: []string{"A"}, names: []string{"B", "C"}},
		"one of two losses is named":                 {h: heard{"A": formed("A"), "C": formed("C")}, lose: []string{"A"}, problem: "--lose A,C"},
		"this member's own data":                     {h: heard{"A": {Err: errors.New("off")}, "C": {Err: errors.New("off")}}, full: true, lose: []string{"A", "C"}, problem: "B has data"},
		"which is given up too":                      {h: heard{"A": {Err: errors.New("off")}, "C": {Err: errors.New("off")}}, full: true, lose: names, names: []string{"B"}},
		"a member that has not looked":               {h: heard{"A": {Answer: Answer{Node: "A"}}, "C": formed("C")}, lose: []string{"C"}, problem: "A has not looked"},
		"a member with another configuration":        {h: heard{"A": empty("A", nonce1, "", "A"), "C": formed("C")}, lose: []string{"C"}, problem: "A has other members"},
		"a name of no member":                        {lose: []string{"X"}, problem: "X is not a member of s"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), &disk{full: tc.full}
			o := d.options(t, dir, tc.h, names...)
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if tc.full {
				ctx = context.Background()
			}
			_, _ = Enter(ctx, withSilence(o)) // Looks at its data, and would wait.
			p, err := Force(context.Background(), o, tc.lose)
			if tc.problem != "" {
				require.ErrorContains(t, err, tc.problem)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.names, p.Names())
			forced, err := MayForce(context.Background(), withSilence(o), tc.lose)
			require.NoError(t, err, "it is the same order")
			require.True(t, forced)
			again, err := Force(context.Background(), withSilence(o), tc.lose)
			require.NoError(t, err)
			require.Equal(t, p, again, "an order that was cut off is given again")
			require.Equal(t, Form, enter(t, o))
			require.Equal(t, []Plan{p}, d.plans, "what lay there is cleared")
			require.Equal(t, Run, enter(t, o))
		})
	}
	_, err := Force(context.Background(), (&disk{}).options(t, t.TempDir(), nil, "B"), nil)
	require.ErrorContains(t, err, "has not looked at its own data yet")
}

func TestAnOrderIsTheSameWhileItsMembersAre(t *testing.T) {
	record := func(writer string, forced bool, members ...string) *Record {
		r := &Record{Writer: writer, Forced: forced, Members: map[string]string{}}
		for _, name := range members {
			r.Members[name] = nonce1
		}
		return r
	}
	for name, tc := range map[string]struct {
		s    State
		lose []string
		want bool
	}{
		"one is lost":                 {State{Node: "B", Making: true, Record: record("B", true, "B", "C")}, []string{"A"}, true},
		"its own data is lost, too":   {State{Node: "B", Making: true, Record: record("B", true, "B", "C")}, []string{"A", "B"}, true},
		"another one is lost":         {State{Node: "B", Making: true, Record: record("B", true, "B", "C")}, []string{"A", "C"}, false},
		"fewer are lost":              {State{Node: "B", Making: true, Record: record("B", true, "B")}, []string{"A"}, false},
		"nobody was forced":           {State{Node: "B", Making: true, Record: record("B", false, "B", "C")}, []string{"A"}, false},
		"it follows somebody's force": {State{Node: "C", Making: true, Record: record("B", true, "B", "C")}, []string{"A"}, false},
		"the data is made":            {State{Node: "B", Made: true, Record: record("B", true, "B", "C")}, []string{"A"}, false},
		"there is no record":          {State{Node: "B"}, []string{"A"}, false},
	} {
		require.Equal(t, tc.want, forces(tc.s, []string{"A", "B", "C"}, tc.lose), name)
	}
}

// withSilence is the same with nobody who answers.
func withSilence(o Options) Options {
	h := heard{}
	for _, name := range o.Initial {
		h[name] = Reply{Err: errors.New("off")}
	}
	o.Asker = h
	return o
}

func TestADecisionOfAnOperatorIsNotOverwrittenByDataThatWasBeingMade(t *testing.T) {
	dir, d := t.TempDir(), &disk{}
	o := d.options(t, dir, heard{"A": formed("A")}, "A", "B")
	mk := o.Make
	o.Make = func(ctx context.Context, p Plan) error {
		_, err := Force(ctx, o, []string{"A"})
		require.NoError(t, err)
		return mk(ctx, p)
	}
	_, err := Enter(context.Background(), o)
	require.ErrorContains(t, err, "an operator decided otherwise")
	o.Make = mk
	require.Equal(t, Form, enter(t, o))
	require.Equal(t, Join, d.plans[0].Kind)
	require.Equal(t, []string{"B"}, d.plans[1].Names())
}

func TestDifferentConfigurationsAreWaitedForAndSaid(t *testing.T) {
	s := State{Cluster: "c", Node: "A", Nonce: nonce1, Initial: []string{"A", "B"}}
	v := judge(s, map[string]Reply{"B": empty("B", nonce2, nonce1, "A", "B", "C")})
	require.Nil(t, v.state.Record)
	require.False(t, v.join)
	require.Equal(t, "B (its configuration has the members A, B, C, and this one's A, B; give both the same)", v.why)
	v = judge(s, map[string]Reply{"B": empty("B", nonce2, nonce1, "A", "B")})
	require.Equal(t, &Record{Writer: "A", Members: map[string]string{"A": nonce1, "B": nonce2}}, v.state.Record)
}
