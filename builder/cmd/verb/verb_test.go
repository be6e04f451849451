package verb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

// command is one whose output is kept.
func command(t *testing.T) (cmd *cobra.Command, out, errs *bytes.Buffer) {
	t.Helper()
	cmd, out, errs = &cobra.Command{}, new(bytes.Buffer), new(bytes.Buffer)
	cmd.SetOut(out)
	cmd.SetErr(errs)
	cmd.SetContext(t.Context())
	return cmd, out, errs
}

func answer(node string, r Reply, err error) reach.Answer[Reply] {
	return reach.Answer[Reply]{Node: facts.Node{Name: node}, Value: r, Err: err}
}

func TestEachNodeIsAskedAndANodeThatCannotBeAskedIsToldFromOthers(t *testing.T) {
	cmd, _, _ := command(t)
	c := &reach.Cluster{Timeout: time.Second, Nodes: []facts.Node{{Name: "a"}, {Name: "b"}}}
	c.Client = nodeapi.Client{Identity: func() (nodeapi.Identity, error) { return nodeapi.Identity{}, errors.New("no certificate") }}
	var mu sync.Mutex
	asked := map[string]bool{}
	answers := Ask(cmd, c, Row("dmesg"), func(n facts.Node) nodeapi.Order {
		mu.Lock()
		defer mu.Unlock()
		asked[n.Name] = true
		return nodeapi.Order{}
	}, nil)
	require.Equal(t, map[string]bool{"a": true, "b": true}, asked)
	require.Len(t, answers, 2)
	for i, name := range []string{"a", "b"} {
		require.Equal(t, name, answers[i].Node.Name)
		require.ErrorContains(t, answers[i].Err, "no certificate")
	}
}

func TestWhatBecameOfOrdersIsToldNodeByNode(t *testing.T) {
	answers := []reach.Answer[Reply]{
		answer("a", Reply{Results: []json.RawMessage{[]byte("1")}, Done: "one\ntwo\x1b\n"}, nil),
		answer("b", Reply{Results: []json.RawMessage{[]byte("2")}}, nodeapi.Failed{Why: "no disk\nof two"}),
		answer("c", Reply{}, errors.New("no answer in time")),
	}
	show := func(w io.Writer, node string, results []json.RawMessage) error {
		_, err := fmt.Fprintf(w, "%s gave %s\n", node, results)
		return err
	}
	cmd, out, errs := command(t)
	require.ErrorIs(t, Tell(cmd, answers, false, show), ErrSome)
	require.Equal(t, "a gave [1]\nb gave [2]\n", out.String(), "a node that failed shows what it gave before")
	require.Equal(t, "a: one\n  two\\x1b\nb: no disk\n  of two\nc: no answer in time\n", errs.String())

	cmd, out, errs = command(t)
	require.ErrorIs(t, Tell(cmd, answers[1:], true, show), ErrSome)
	require.JSONEq(t, `[{"node":"b","results":[2],"error":"no disk\nof two"},{"node":"c","error":"no answer in time"}]`, out.String())
	require.Empty(t, errs.String())

	bad := func(io.Writer, string, []json.RawMessage) error { return errors.New("its answer is malformed") }
	cmd, _, errs = command(t)
	require.EqualError(t, Tell(cmd, answers[:1], false, bad), "its answer is malformed")
	require.ErrorIs(t, Tell(cmd, answers[1:2], false, bad), ErrSome)
	require.Equal(t, "b: no disk\n  of two\n", errs.String(), "why it failed is told in any case")

	// What a node gave is printed as it means, and no terminal obeys it.
	given := []reach.Answer[Reply]{{Node: facts.Node{Name: "a"}, Value: Reply{Results: []json.RawMessage{json.RawMessage("\"\u009b2J\u202e\"")}}}}
	cmd, out, _ = command(t)
	require.NoError(t, Tell(cmd, given, true, show))
	require.Contains(t, out.String(), `"\u009b2J\u202e"`)

	cmd, out, _ = command(t)
	require.NoError(t, Tell(cmd, nil, true, nil))
	require.JSONEq(t, "[]", out.String())
}

func TestARoleThatNoNodeHasIsToldFromNodesThatAreNotAsked(t *testing.T) {
	cmd, _, _ := command(t)
	c := &reach.Cluster{Timeout: time.Second, Nodes: []facts.Node{{Name: "a", Roles: []string{"mqtt-broker"}}}}
	err := Answering(cmd, c, "alerts")
	require.EqualError(t, err, "no node that is asked has the role alerts, and no other has it; give it to one in cluster.yaml (roles)")
	require.Equal(t, exit.Misuse, exit.Code(err))

	c.Nodes = []facts.Node{{Name: "a", Roles: []string{"mqtt-broker"}}}
	c.Facts.Members = map[string][]string{"alerts": {"b"}}
	err = Answering(cmd, c, "alerts")
	require.EqualError(t, err, "no node that is asked has the role alerts")
	require.Equal(t, exit.Misuse, exit.Code(err))
}

func TestAnOrderThatDestroysRepeatsTheWord(t *testing.T) {
	cmd, _, errs := command(t)
	word, err := Confirm(cmd, "S1", "S1", "all is lost")
	require.NoError(t, err)
	require.Equal(t, "S1", word)
	for given, want := range map[string]string{
		"S2": `--confirm is "S2", and this is about S1`,
		"":   "all is lost; confirm it with --confirm S1",
	} {
		_, err := Confirm(cmd, given, "S1", "all is lost")
		require.EqualError(t, err, want)
		require.Equal(t, exit.Misuse, exit.Code(err))
	}
	require.Empty(t, errs.String())
}
