package kubeapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// drained is an API server with the node n, whose pods go some time after their eviction.
type drained struct {
	mu       sync.Mutex
	cordoned bool
	pods     map[string]map[string]any
	// held is how often the eviction of a pod is refused for its budget, asked how often a pod that ends was looked at.
	held  map[string]int
	asked map[string]int
	// fails is how many calls about a closed node or its pods are still answered with 500.
	fails int
	// late is a pod that comes when the node is closed, and reopened that somebody lets pods on it when one was evicted.
	late     map[string]any
	reopened bool
	// evicted are those whose eviction was taken.
	evicted []string
}

func aPod(name, controller string, change ...func(map[string]any)) map[string]any {
	meta := map[string]any{"name": name, "namespace": "plant", "uid": "uid-" + name}
	if controller != "" {
		meta["ownerReferences"] = []any{map[string]any{"kind": controller, "controller": true}}
	}
	p := map[string]any{"metadata": meta, "spec": map[string]any{}, "status": map[string]any{"phase": "Running"}}
	for _, c := range change {
		c(p)
	}
	return p
}

func (d *drained) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	answer := func(code int, v any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(v)
	}
	status := func(code int) { answer(code, map[string]any{"kind": "Status", "code": code, "message": "no"}) }
	name, eviction := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/plant/pods/"), "/eviction")
	switch {
	case r.URL.Path == "/api/v1/nodes/n" && r.Method == http.MethodPatch:
		var body struct{ Spec struct{ Unschedulable bool } }
		_ = json.NewDecoder(r.Body).Decode(&body)
		d.cordoned = body.Spec.Unschedulable
		if d.late != nil {
			d.pods["late"] = d.late
		}
		answer(200, map[string]any{})
	case d.fails > 0 && d.cordoned && r.URL.Path != "/api/v1/pods":
		d.fails--
		status(500)
	case r.URL.Path == "/api/v1/nodes/n":
		answer(200, map[string]any{"spec": map[string]any{"unschedulable": d.cordoned}})
	case r.URL.Path == "/api/v1/pods":
		var items []any
		if r.URL.Query().Get("fieldSelector") == "spec.nodeName=n" {
			for _, p := range d.pods {
				items = append(items, p)
			}
		}
		answer(200, map[string]any{"items": items})
	case d.pods[name] == nil:
		status(404)
	case eviction && d.held[name] > 0:
		d.held[name]--
		status(429)
	case eviction:
		d.evicted = append(d.evicted, name)
		d.cordoned = !d.reopened
		d.pods[name]["metadata"].(map[string]any)["deletionTimestamp"] = "2026-11-26T00:00:00Z"
		answer(201, map[string]any{})
	default:
		if d.pods[name]["metadata"].(map[string]any)["deletionTimestamp"] != nil {
			if d.asked[name]++; d.asked[name] > 1 {
				delete(d.pods, name)
				status(404)
				return
			}
		}
		answer(200, d.pods[name])
	}
}

func drain(t *testing.T, o DrainOptions, pods ...map[string]any) (*drained, int, []string, error) {
	t.Helper()
	return drainOf(t, &drained{}, o, pods...)
}

func drainOf(t *testing.T, d *drained, o DrainOptions, pods ...map[string]any) (*drained, int, []string, error) {
	t.Helper()
	d.pods, d.held, d.asked = map[string]map[string]any{}, map[string]int{"held": 1}, map[string]int{}
	for _, p := range pods {
		d.pods[p["metadata"].(map[string]any)["name"].(string)] = p
	}
	s := httptest.NewServer(d)
	t.Cleanup(s.Close)
	c := &Client{server: s.URL, http: s.Client(), time: time.Minute}
	o.Every = time.Millisecond
	var said []string
	o.Say = func(text string) { said = append(said, text) }
	n, err := c.Drain(t.Context(), "n", o)
	return d, n, said, err
}

func TestADrainEvictsWhatComesBackElsewhere(t *testing.T) {
	mirror := func(p map[string]any) {
		p["metadata"].(map[string]any)["annotations"] = map[string]any{"kubernetes.io/config.mirror": "x"}
	}
	ended := func(p map[string]any) { p["status"] = map[string]any{"phase": "Succeeded"} }
	d, n, said, err := drain(t, DrainOptions{}, aPod("web", "ReplicaSet"), aPod("held", "StatefulSet"),
		aPod("calico", "DaemonSet"), aPod("etcd", "", mirror), aPod("job", "", ended))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.True(t, d.cordoned)
	require.ElementsMatch(t, []string{"web", "held"}, d.evicted)
	require.Contains(t, strings.Join(said, "\n"), "plant/held (its disruption budget)")
	require.Len(t, d.pods, 3, "what belongs to the node stays")
}

func TestADrainLosesNothingThatWasNotSaid(t *testing.T) {
	scratch := func(p map[string]any) {
		p["spec"] = map[string]any{"volumes": []any{map[string]any{"name": "x", "emptyDir": map[string]any{}}}}
	}
	d, _, _, err := drain(t, DrainOptions{}, aPod("bare", ""), aPod("cache", "ReplicaSet", scratch), aPod("web", "ReplicaSet"))
	require.ErrorContains(t, err, "plant/bare (nothing makes it again)")
	require.ErrorContains(t, err, "plant/cache (it has data in an emptyDir)")
	require.ErrorContains(t, err, "nothing was changed")
	require.NotContains(t, err.Error(), "web")
	require.False(t, d.cordoned)
	d, n, _, err := drain(t, DrainOptions{Lose: true}, aPod("bare", ""), aPod("cache", "ReplicaSet", scratch))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.ElementsMatch(t, []string{"bare", "cache"}, d.evicted)
}

func TestADryDrainChangesNothing(t *testing.T) {
	d, n, said, err := drain(t, DrainOptions{DryRun: true}, aPod("web", "ReplicaSet"))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, []string{"would evict plant/web"}, said)
	require.False(t, d.cordoned)
	require.Empty(t, d.evicted)
}

func TestADrainEndsWhenSomebodyLetsPodsOnTheNode(t *testing.T) {
	_, _, _, err := drainOf(t, &drained{reopened: true}, DrainOptions{}, aPod("held", "StatefulSet"), aPod("web", "ReplicaSet"))
	require.ErrorContains(t, err, "somebody let pods on n again; 2 were left")
}

func TestADrainLosesNothingThatCameMeanwhile(t *testing.T) {
	d, _, _, err := drainOf(t, &drained{late: aPod("late", "")}, DrainOptions{}, aPod("web", "ReplicaSet"))
	require.ErrorContains(t, err, "no pod was evicted, and n gets new ones again")
	require.ErrorContains(t, err, "plant/late (nothing makes it again)")
	require.False(t, d.cordoned)
	require.Empty(t, d.evicted)
	d, n, _, err := drainOf(t, &drained{late: aPod("late", "")}, DrainOptions{Lose: true}, aPod("web", "ReplicaSet"))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.True(t, d.cordoned)
}

func TestWhatWasClosedBeforeStaysClosed(t *testing.T) {
	c := &Client{}
	err := c.reopen(t.Context(), "n", false, errors.New("a reason"))
	require.EqualError(t, err, "no pod was evicted, and n gets no new ones, as before: a reason")
}

func TestADrainBearsFailuresForAWhile(t *testing.T) {
	d, n, said, err := drainOf(t, &drained{fails: 4}, DrainOptions{}, aPod("web", "ReplicaSet"))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, []string{"web"}, d.evicted)
	require.Contains(t, strings.Join(said, "\n"), "asking again: GET /api/v1/nodes/n: ")
	_, _, _, err = drainOf(t, &drained{fails: 1 << 30}, DrainOptions{Patience: 50 * time.Millisecond}, aPod("web", "ReplicaSet"))
	require.ErrorContains(t, err, "1 pods are still on n, which gets no new ones")
	require.ErrorContains(t, err, "the API server answers 500")
}
