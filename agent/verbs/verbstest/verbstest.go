// Package verbstest carries out verbs in tests, as a person calls them or with programs that only answer.
package verbstest

import (
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/verbs"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

// Programs answers for the programs of a machine, and notes how they were called.
type Programs struct {
	// Answer is the script of a shell that stands for a program, by how it is called: the program and its arguments, or
	// what it reads, begin with the key.
	Answer map[string]string
	// Called are the calls, with what the program was given to read behind them.
	Called []string
}

// Run is verbs.Programs.
func (p *Programs) Run(ctx context.Context, name string, args ...string) *exec.Cmd {
	line := strings.Join(append([]string{name}, args...), " ")
	p.Called = append(p.Called, line)
	for key, script := range p.Answer {
		if strings.Contains(line, key) {
			return exec.CommandContext(ctx, "/bin/sh", "-c", script)
		}
	}
	return exec.CommandContext(ctx, "/bin/sh", "-c", "echo nobody expected: $0 >&2; exit 9", line)
}

// Do carries out a verb, and returns its events and what came of it.
func Do(t *testing.T, m *node.Machine, c *facts.Cluster, n *facts.Node, handle verbs.Handler, o nodeapi.Order) (events []nodeapi.Event, done string, err error) {
	t.Helper()
	var out strings.Builder
	r := verbs.For(m, c, n, o, &out)
	done, err = handle(t.Context(), r)
	_, lost := nodeapi.ReadEvents(io.MultiReader(strings.NewReader(out.String()), strings.NewReader("{\"done\":\"-\"}\n")), func(e nodeapi.Event) error {
		events = append(events, e)
		return nil
	})
	require.NoError(t, lost)
	return events, done, err
}

// Said is what a person was told.
func Said(events []nodeapi.Event) string {
	var lines []string
	for _, e := range events {
		if e.Say != "" {
			lines = append(lines, e.Say)
		}
	}
	return strings.Join(lines, "\n")
}

// Answer is what came of a call.
type Answer struct {
	// Said are the lines for a person, and Results the parts of the result.
	Said    []string
	Results []json.RawMessage
	Done    string
	Err     error
}

// Call has a machine carry out a verb of the table, with a handler of the test's own, for anna, who may everything.
func Call(t *testing.T, m *node.Machine, name string, o nodeapi.Order, handle verbs.Handler) (a Answer) {
	t.Helper()
	verb, found := nodeapi.FindVerb(name)
	require.True(t, found, name)
	call, err := json.Marshal(verbs.Call{Verb: name, Order: o, Caller: "anna", Roles: nodeapi.Owners()})
	require.NoError(t, err)
	// Nothing follows the call, and nobody closes the connection before the test ends.
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	var out strings.Builder
	in := io.MultiReader(strings.NewReader(string(call)+"\n"), r)
	require.NoError(t, verbs.Serve(t.Context(), m, verb.Kind, map[string]verbs.Handler{name: handle}, in, &out))
	a.Done, a.Err = nodeapi.ReadEvents(strings.NewReader(out.String()), func(e nodeapi.Event) error {
		if e.Say != "" {
			a.Said = append(a.Said, e.Say)
		} else {
			a.Results = append(a.Results, e.Result)
		}
		return nil
	})
	return a
}
