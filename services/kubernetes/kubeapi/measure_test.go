package kubeapi

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/manifests"
)

func TestAWorkerMayMeasureItsOwnKubeletAlone(t *testing.T) {
	there := map[string]string{}
	asked := 0
	client := testClient(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.Method == http.MethodPatch {
			data, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			there[r.URL.Path] = string(data)
			_, _ = w.Write(data)
			return
		}
		if there[r.URL.Path] == "" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":404,"reason":"NotFound"}`)
			return
		}
		_, _ = io.WriteString(w, there[r.URL.Path])
	})
	b := &bootstrap{Options: Options{Client: client, Nodes: []facts.Node{
		{Name: "w1", Roles: []string{"worker"}}, {Name: "m1", Roles: []string{"control-plane", "worker"}},
		{Name: "d1", Roles: []string{"dns-server"}},
	}, Say: func(string) {}}, measures: map[string]string{}}
	keep := func(name, uid string) {
		n := &node{}
		n.Metadata.Name, n.Metadata.UID = name, uid
		require.NoError(t, b.letMeasure(t.Context(), n))
	}
	for _, name := range []string{"m1", "d1", "stranger"} {
		keep(name, "1")
	}
	require.Zero(t, asked, "a master has another right, and others have no kubelet")
	keep("w1", "1")
	const at = "/apis/rbac.authorization.k8s.io/v1/"
	require.Len(t, there, 2)
	require.JSONEq(t, `[{"apiGroups":[""],"resources":["nodes/metrics"],"resourceNames":["w1"],"verbs":["get"]}]`,
		field(t, there[at+"clusterroles/spore:kubelet-metrics:w1"], "rules"))
	bound := there[at+"clusterrolebindings/spore:kubelet-metrics:w1"]
	require.JSONEq(t, `[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"system:node:w1"}]`,
		field(t, bound, "subjects"))
	require.Contains(t, bound, `"uid":"1"`, "it goes with the node")
	require.NotEmpty(t, manifests.Reserved(rbac, "ClusterRole", "", "spore:kubelet-metrics:w1"), "nobody's folder has it")

	before := asked
	keep("w1", "1")
	require.Equal(t, before, asked, "once for a node")
	keep("w1", "2")
	require.Contains(t, there[at+"clusterrolebindings/spore:kubelet-metrics:w1"], `"uid":"2"`, "the node was made anew")
}

// field is a field of an object as JSON.
func field(t *testing.T, object, name string) string {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(object), &fields))
	return string(fields[name])
}
