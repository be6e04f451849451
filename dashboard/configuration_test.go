package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

func TestTheFolderIsComparedWithWhatNodesRunByFileAndLine(t *testing.T) {
	s := newServing(t)
	folder := map[string][]byte{"cluster.yaml": []byte("a: 1\nb: 2\nc: 3\n"), "nodes/new.yaml": []byte("x"), "services/same.yaml": []byte("y")}
	s.watcher.asker.Files = func() (map[string][]byte, error) { return folder, s.err }
	node := `[{"path":"cluster.yaml","sha256":"0"},{"path":"services/same.yaml","sha256":"` + hash([]byte("y")) + `"},{"path":` + asJSON(t, hostile) + `}]`
	text := asJSON(t, "a: 1\nb: "+hostile+"\nc: 3\n")
	s.watcher.asker.On = func(_ context.Context, name, verb string, o nodeapi.Order) (Reply, error) {
		v, found := nodeapi.FindVerb(verb)
		if !found || v.Check(o) != nil || name != "edge-01" {
			return Reply{}, errors.New("internal error: no such look")
		}
		if o.Arguments["file"] == "cluster.yaml" {
			return Reply{Results: []json.RawMessage{json.RawMessage(`[{"path":"cluster.yaml","text":` + text + `}]`)}}, nil
		}
		return Reply{Results: []json.RawMessage{json.RawMessage(node)}}, nil
	}
	require.Contains(t, s.show(t, configurationPath), "no node has said what it runs")
	s.says("edge-01", func(a *answer) {
		a.status.Configuration = &nodeapi.Configuration{ClusterHash: strings.Repeat("ab", 32)}
	})
	s.round()
	got := s.show(t, configurationPath)
	for _, want := range []string{
		"! warning: 1 node runs something else than the folder edge-01; configuration abababababab", "− cluster.yaml:2 b: <script>", "+ cluster.yaml:2 b: 2", "the folder has it, and the nodes have not",
		"the nodes have it, and the folder has not",
	} {
		require.Contains(t, strings.ReplaceAll(got, "abababababab:", "abababababab :"), want)
	}
	require.NotContains(t, got, "services/same.yaml")
	require.NotContains(t, got, "\x1b")
	node = `{}`
	require.Contains(t, s.show(t, configurationPath), "It is not known what differs on 1 node edge-01; configuration abababababab edge-01: the answer is malformed")
	s.err = errors.New("cluster.yaml:3: what")
	require.Contains(t, s.show(t, configurationPath), "read the operator's folder: cluster.yaml:3: what")
}

// restore puts a text together again from the other one and the lines that differ.
func restore(is string, changes []changed) string {
	lines := strings.Split(is, "\n")
	gone := map[int]bool{}
	var out []string
	for _, c := range changes {
		if c.Added {
			gone[c.Line] = true
		}
	}
	for i, line := range lines {
		if !gone[i+1] {
			out = append(out, line)
		}
	}
	for _, c := range changes {
		if !c.Added {
			out = append(out[:c.Line-1], append([]string{c.Text}, out[c.Line-1:]...)...)
		}
	}
	return strings.Join(out, "\n")
}

func FuzzCompareLines(f *testing.F) {
	f.Add("a\nb\nc", "a\nc\nd")
	f.Add("", "x")
	f.Add(strings.Repeat("a\n", 2*maxLines), strings.Repeat("b\n", 2*maxLines))
	f.Fuzz(func(t *testing.T, was, is string) {
		changes := compareLines(was, is)
		require.Equal(t, was, restore(is, changes))
		require.Equal(t, was == is, len(changes) == 0)
	})
}
