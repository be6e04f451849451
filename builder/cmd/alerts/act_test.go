package alerts

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/dashboard"
)

func TestThePageSilencesAsTheCommandDoes(t *testing.T) {
	wish := dashboard.Wish{Name: "NodeSilent", Node: "a", For: "2h", Comment: "new power supply"}
	for name, c := range map[string]struct {
		answers map[string]string // of the nodes with the role
		change  func(*dashboard.Wish)
		fail    string
	}{
		"the first does it":            {map[string]string{"a": sees, "b": broken}, nil, ""},
		"the first is broken":          {map[string]string{"a": broken, "b": sees}, nil, ""},
		"a node that is none":          {map[string]string{"a": sees}, func(w *dashboard.Wish) { w.Node = "host:9100" }, ""},
		"both are broken":              {map[string]string{"a": broken, "b": broken}, nil, "b: ask Alertmanager: connection refused"},
		"all are off":                  {map[string]string{"a": "", "b": ""}, nil, "no node with the role alerts answers: "},
		"nobody has the role":          {nil, nil, "no node that is asked has the role alerts"},
		"for a time that is none":      {map[string]string{"a": sees}, func(w *dashboard.Wish) { w.For = "soon" }, "--for"},
		"for longer than is allowed":   {map[string]string{"a": sees}, func(w *dashboard.Wish) { w.For = "40d" }, "is not within 5m and 30d"},
		"a label that is none":         {map[string]string{"a": sees}, func(w *dashboard.Wish) { w.Labels = []string{"job"} }, "write NAME=VALUE"},
		"all, of no node and no label": {map[string]string{"a": sees}, func(w *dashboard.Wish) { w.Name, w.Node = "all", "" }, "all silences every alert"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, _, _ := roled(t, c.answers)
			w := wish
			if c.change != nil {
				c.change(&w)
			}
			done, err := Silence(t.Context(), cluster, w)
			if c.fail != "" {
				require.ErrorContains(t, err, c.fail)
				return
			}
			require.NoError(t, err)
			require.NotEmpty(t, done)
			require.Len(t, cluster.Nodes, 3, "the cluster stays as it is")
		})
	}
	cluster, _, _ := roled(t, map[string]string{"a": sees})
	_, err := Unsilence(t.Context(), cluster, "3d1219c7-c4c5-404a-aa1f-6d2a48adfda4")
	require.NoError(t, err)
	_, err = Unsilence(t.Context(), cluster, "x")
	require.ErrorContains(t, err, "alerts-unsilence: id")
}
