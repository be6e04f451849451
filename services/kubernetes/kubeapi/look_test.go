package kubeapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/wire/machine"
)

// lists answers a look by what each collection has; what it has not is empty.
func lists(t *testing.T, of map[string]string) *Client {
	return testClient(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Header.Get("Impersonate-User") != "spore:look:m-1" || r.Header.Get("Impersonate-Group") != lookers ||
			r.URL.Query().Get("limit") == "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		path := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		if path == "pods" {
			path = r.URL.Query().Get("labelSelector") + " " + r.URL.Query().Get("fieldSelector")
		}
		body, has := of[path]
		if !has {
			body = `{"items":[]}`
		}
		_, _ = io.WriteString(w, body)
	}).Looker("spore:look:m-1")
}

func TestALookHasWhatIsNotWellAndWhy(t *testing.T) {
	long := strings.Repeat("ä", maxLookText)
	c := lists(t, map[string]string{
		"nodes": `{"items":[
			{"metadata":{"name":"a"},"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"DiskPressure","status":"True"},{"type":"PIDPressure","status":"False"}],"nodeInfo":{"kubeletVersion":"v1.34.2"}}},
			{"metadata":{"name":"b"},"spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown","message":"Kubelet stopped"}]}}]}`,
		"deployments": `{"items":[
			{"metadata":{"namespace":"n","name":"web"},"spec":{"replicas":3,"selector":{"matchLabels":{"b":"2","a":"1"},"matchExpressions":[{"key":"c","operator":"In","values":["x","y"]},{"key":"d","operator":"Exists"},{"key":"e","operator":"DoesNotExist"},{"key":"f","operator":"NotIn","values":["z"]}]}},"status":{"readyReplicas":1}},
			{"metadata":{"namespace":"n","name":"well"},"status":{"readyReplicas":1}},
			{"metadata":{"namespace":"n","name":"off"},"spec":{"replicas":0},"status":{}}]}`,
		"daemonsets": `{"items":[{"metadata":{"namespace":"n","name":"d"},"status":{"desiredNumberScheduled":2,"numberReady":2}}]}`,
		"jobs":       `{"items":[{"metadata":{"namespace":"n","name":"done"},"status":{"succeeded":1}}]}`,
		" status.phase!=Running,status.phase!=Succeeded": `{"items":[
			{"metadata":{"namespace":"n","name":"waits"},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/3 nodes are available"}]}},
			{"metadata":{"namespace":"n","name":"evicted"},"status":{"phase":"Failed","reason":"Evicted","message":"` + long + `"}}]}`,
		"a=1,b=2,c in (x,y),d,!e,f notin (z) status.phase=Running": `{"items":[
			{"metadata":{"namespace":"n","name":"web-1"},"spec":{"nodeName":"a"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"}],"containerStatuses":[{"name":"c","restartCount":7,"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off 5m0s"}},"lastState":{"terminated":{"reason":"OOMKilled","exitCode":137,"finishedAt":"2026-11-26T03:00:00Z"}}}]}},
			{"metadata":{"namespace":"n","name":"web-2"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}},
			{"metadata":{"namespace":"n","name":"web-3"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False","reason":"ContainersNotReady","message":"unready: [c]"}],"containerStatuses":[{"name":"c"}]}}]}`,
		"persistentvolumes":      `{"items":[{"metadata":{"name":"pv"},"status":{"phase":"Available"}},{"metadata":{"name":"lost"},"spec":{"storageClassName":"s","capacity":{"storage":"1Gi"}},"status":{"phase":"Failed","reason":"VolumeFailedDelete","message":"busy"}}]}`,
		"persistentvolumeclaims": `{"items":[{"metadata":{"namespace":"n","name":"c"},"spec":{"resources":{"requests":{"storage":"2Gi"}}},"status":{"phase":"Pending"}}]}`,
	})
	got, err := c.Look(t.Context())
	require.NoError(t, err)
	require.Equal(t, []machine.KubernetesNode{
		{Name: "a", Ready: "True", Pressure: []string{"DiskPressure"}, Version: "v1.34.2"},
		{Name: "b", Ready: "Unknown", Why: "NodeStatusUnknown: Kubelet stopped", Cordoned: true},
	}, got.Nodes)
	require.Equal(t, []machine.KubernetesCount{
		{Kind: "Deployment", All: 3, Well: 2}, {Kind: "StatefulSet"}, {Kind: "DaemonSet", All: 1, Well: 1}, {Kind: "Job", All: 1, Well: 1},
		{Kind: "PersistentVolume", All: 2, Well: 1}, {Kind: "PersistentVolumeClaim", All: 1},
	}, got.Counts)
	require.Equal(t, []machine.KubernetesWorkload{{Kind: "Deployment", Namespace: "n", Name: "web", Wanted: 3, Ready: 1}}, got.Behind)
	require.Len(t, got.Pods, 4)
	require.Equal(t, "Unschedulable: 0/3 nodes are available", got.Pods[0].Why)
	require.LessOrEqual(t, len(got.Pods[1].Why), maxLookText+len(" …"))
	require.Equal(t, machine.KubernetesPod{
		Namespace: "n", Name: "web-1", Node: "a", Phase: "Running", Why: "c waits, CrashLoopBackOff: back-off 5m0s", Restarts: 7,
		Ended: "c: OOMKilled, code 137, 2026-11-26T03:00:00Z",
	}, got.Pods[2])
	require.Equal(t, "ContainersNotReady: unready: [c]", got.Pods[3].Why)
	require.Equal(t, []machine.KubernetesVolume{
		{Kind: "PersistentVolume", Name: "lost", State: "Failed", Class: "s", Size: "1Gi", Why: "VolumeFailedDelete: busy"},
		{Kind: "PersistentVolumeClaim", Namespace: "n", Name: "c", State: "Pending", Size: "2Gi"},
	}, got.Volumes)
	require.Empty(t, got.More)
}

func TestALookAtVeryMuchIsBounded(t *testing.T) {
	var items []string
	for i := range maxListed + 50 {
		items = append(items, fmt.Sprintf(`{"metadata":{"namespace":"n","name":"%d%s"},"spec":{"replicas":1,"selector":{"matchLabels":{"i":"%d"}}},"status":{"phase":"Pending"}}`, i, strings.Repeat("x", 1000), i))
	}
	// A server that has a next page always.
	endless := `{"metadata":{"continue":"again"},"items":[` + strings.Join(items, ",") + `]}`
	c := lists(t, map[string]string{
		"nodes": endless, "deployments": endless, " status.phase!=Running,status.phase!=Succeeded": endless, "persistentvolumeclaims": endless,
	})
	got, err := c.Look(t.Context())
	require.NoError(t, err)
	require.Len(t, got.Nodes, maxLookNodes)
	require.Len(t, got.Behind, maxListed)
	require.Len(t, got.Pods, maxListed)
	require.Len(t, got.Volumes, maxListed)
	require.Contains(t, got.More, "pods that are not well")
	require.Contains(t, got.More, "nodes")
	data, err := json.Marshal(got)
	require.NoError(t, err)
	require.Less(t, len(data), 1<<20)
}

func TestALookIsRefusedWithoutTheRight(t *testing.T) {
	c := lists(t, nil)
	c.as = "somebody"
	_, err := c.Look(t.Context())
	require.ErrorContains(t, err, "the API server answers 403")
}

// TestLookersListAndDoNothingElse holds the role to what Look asks for.
func TestLookersListAndDoNothingElse(t *testing.T) {
	for _, r := range lookObjects()[0].object["rules"].([]any) {
		require.Equal(t, []string{"list"}, r.(map[string]any)["verbs"])
		for _, resource := range r.(map[string]any)["resources"].([]string) {
			require.NotContains(t, resource, "/")
			require.NotContains(t, []string{"secrets", "configmaps", "*"}, resource)
		}
	}
}

func TestTheCommandOfAContainerIsNotTold(t *testing.T) {
	for reason, want := range map[string]string{
		"RunContainerError": "c waits, RunContainerError", "PostStartHookError": "c waits, PostStartHookError", "ErrImagePull": "c waits, ErrImagePull: --password=hunter2",
	} {
		var p lookPod
		require.NoError(t, json.Unmarshal([]byte(`{"status":{"containerStatuses":[{"name":"c","state":{"waiting":{"reason":"`+reason+`","message":"--password=hunter2"}}}]}}`), &p))
		row, ill := illness(p)
		require.True(t, ill)
		require.Equal(t, want, row.Why)
	}
}
