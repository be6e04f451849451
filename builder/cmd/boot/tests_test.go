package boot

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/rehearsal"
	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/services"
	"spore/wire/nodeapi"
)

func TestArgumentsOfTest(t *testing.T) {
	t.Chdir(t.TempDir())
	f := flags{all: true, test: true}
	_, err := f.take(nil)
	require.NoError(t, err)
	require.Equal(t, "ready", f.until)
	for _, f := range []flags{{kill: true, test: true}, {console: "a", test: true}} {
		_, err := f.take(nil)
		require.ErrorContains(t, err, "--test goes with the nodes to start")
	}
	s := &session{flags: flags{test: true}}
	require.ErrorContains(t, s.withoutKeys(), "name their folder with --pki")
}

// testedCluster has a role with two tests and one without any.
func testedCluster(t *testing.T) *facts.Cluster {
	l, err := services.With([]services.Definition{
		&role.Definition{Name: "tested", Units: []string{"a.service"}, Tests: []role.Test{{Command: []string{"true"}}, {Command: []string{"valkey-cli", "ping"}}}},
		&role.Definition{Name: "untested", Units: []string{"b.service"}},
	})
	require.NoError(t, err)
	return &facts.Cluster{Roles: l.Facts()}
}

func TestATestOfNothingIsRefusedBeforeAMachineStarts(t *testing.T) {
	c := testedCluster(t)
	plan := func(name string, roles ...string) rehearsal.Machine {
		return rehearsal.Machine{Node: &facts.Node{Name: name, Roles: roles}}
	}
	require.NoError(t, checkTests(c, []rehearsal.Machine{plan("a", "untested"), plan("b", "mqtt-broker", "tested")}))
	require.EqualError(t, checkTests(c, []rehearsal.Machine{plan("a", "untested"), plan("b", "mqtt-broker")}),
		"--test: no role of a, b has tests; write tests into roles/NAME.yaml, or leave --test out")
}

func TestTheCertificateOutlivesTheTestsOfAllRoles(t *testing.T) {
	c := testedCluster(t)
	s := &session{cluster: c}
	require.Zero(t, s.testsLimit())
	for _, roles := range [][]string{{"tested"}, {"untested", "mqtt-broker"}, {"untested", "tested"}} {
		s.machines = append(s.machines, &machine{plan: rehearsal.Machine{Node: &facts.Node{Roles: roles}}})
	}
	require.Equal(t, 2*(role.TestsBound+answerSpare), s.testsLimit())
}

func TestEachTestIsTold(t *testing.T) {
	c := testedCluster(t)
	d := tested(c, &facts.Node{Roles: []string{"untested", "tested"}})[0]
	const passed = `{"command":["true"],"seconds":0.04}` + "\n"
	for name, tc := range map[string]struct {
		answer, said, err string
		sum               tally
	}{
		"both pass": {passed + passed, "a: tested: true: passed (0.0 s)\na: tested: valkey-cli ping: passed (0.0 s)\n", "", tally{2, 0}},
		"one fails": {
			passed + `{"command":["\u001b[2J"],"problem":"exit status 1","output":"NOAUTH\nx","seconds":1.26}`,
			"a: tested: true: passed (0.0 s)\na: tested: valkey-cli ping: failed: exit status 1 (1.3 s)\na:   | NOAUTH\na:   | x\n", "", tally{2, 1},
		},
		"it breaks off": {passed, "a: tested: true: passed (0.0 s)\n", "the node has run 1 of 2, and says nothing more; the journal of spore-test-tested@ there says why", tally{1, 0}},
		"nonsense":      {"x", "", "its answer is malformed: ", tally{}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			var sum tally
			s := &session{reporter: &reporter{w: &out}}
			err := s.tell(strings.NewReader(tc.answer), "a", d, &sum)
			require.Equal(t, tc.said, out.String())
			require.Equal(t, tc.sum, sum)
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.err)
			}
		})
	}
}

func TestATestIsALineOfJSONForPrograms(t *testing.T) {
	var out bytes.Buffer
	r := &reporter{w: &out, json: true}
	r.test("a", "tested", nodeapi.RoleTest{Command: []string{"true"}})
	r.test("a", "tested", nodeapi.RoleTest{Command: []string{"false"}, Problem: "exit status 1", Seconds: 1})
	require.Equal(t, `{"event":"test","node":"a","role":"tested","test":{"command":["true"],"seconds":0},"passed":true}
{"event":"test","node":"a","role":"tested","test":{"command":["false"],"problem":"exit status 1","seconds":1},"passed":false}
`, out.String())
}
