//go:build e2e

package services

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/manifests"
	"spore/services/kubernetes/applyset"
)

// folder is a master that keeps the objects of a folder, as its bootstrap does.
type folder struct {
	stop func()
	mu   sync.Mutex
	told []applyset.State
	said []string
}

// last is what it told last.
func (f *folder) last() applyset.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.told) == 0 {
		return applyset.State{}
	}
	return f.told[len(f.told)-1]
}

func (f *folder) lines() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.said, "\n")
}

// keep starts a master with the objects of a file. serial is that of the push that brought them.
func (p *controlPlane) keep(node string, serial uint64, text string) *folder {
	p.t.Helper()
	docs, faults := manifests.Parse("manifests/test.yaml", []byte(text))
	require.Empty(p.t, faults)
	var objects []facts.Manifest
	for _, d := range docs {
		objects = append(objects, facts.Manifest{File: d.Path(), Line: d.Line, Object: d.Content})
	}
	data, err := json.Marshal(objects)
	require.NoError(p.t, err)
	sum := sha256.Sum256(data)
	api, err := p.Client("master-01", "kubernetes-bootstrap", "kubernetes-agent")
	require.NoError(p.t, err)
	f := &folder{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	k := &applyset.Keeper{
		API: api, Node: node, Objects: objects, Configuration: applyset.Configuration{Hash: hex.EncodeToString(sum[:]), Serial: serial},
		Say:  func(s string) { f.mu.Lock(); defer f.mu.Unlock(); f.said = append(f.said, s) },
		Tell: func(s applyset.State) { f.mu.Lock(); defer f.mu.Unlock(); f.told = append(f.told, s) },
	}
	go func() { defer close(done); k.Run(ctx) }()
	f.stop = sync.OnceFunc(func() { cancel(); <-done })
	p.t.Cleanup(f.stop)
	return f
}

// settled waits until a master tells that all is as the folder has it.
func (f *folder) settled(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { s := f.last(); return s.Here && s.Count == 0 }, time.Minute, 50*time.Millisecond, "%+v", f)
}

const plantFolder = `
apiVersion: plant.example/v1
kind: Pump
metadata: {name: north, namespace: web}
spec: {litres: 7}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: web, labels: {app: shop}}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - name: shop
        image: spore.local/hello:1
        resources: {requests: {cpu: 1000m, memory: 1024Mi}}
---
apiVersion: v1
kind: Service
metadata: {name: shop, namespace: web, labels: {app: shop}}
spec: {selector: {app: shop}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: web}
data: {colour: green, size: "7"}
---
apiVersion: v1
kind: Secret
metadata: {name: password, namespace: web}
type: Opaque
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pumps.plant.example, creationTimestamp: null}
spec:
  group: plant.example
  scope: Namespaced
  names: {kind: Pump, plural: pumps, singular: pump}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {litres: {type: integer}}}}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: web}
`

func TestManifestsAreAppliedAndKept(t *testing.T) {
	p := newControlPlane(t)
	p.daemon(p.cluster.Nodes)
	admin := p.admin()
	const (
		settings = "/api/v1/namespaces/web/configmaps/settings"
		secret   = "/api/v1/namespaces/web/secrets/password"
		shop     = "/apis/apps/v1/namespaces/web/deployments/shop"
		pump     = "/apis/plant.example/v1/namespaces/web/pumps/north"
		pumps    = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pumps.plant.example"
		parent   = "/api/v1/namespaces/kube-system/configmaps/spore-manifests"
	)
	version := func(path string) string {
		return fmt.Sprint(at(admin.must(http.StatusOK, "GET", path, nil), "metadata", "resourceVersion"))
	}
	patch := func(path string, change object) { admin.must(http.StatusOK, "PATCH", path, change) }

	f := p.keep("master-01", 1, plantFolder)
	f.settled(t)
	t.Run("a definition and an object of its kind, in one folder", func(t *testing.T) {
		require.EqualValues(t, 7, at(admin.must(http.StatusOK, "GET", pump, nil), "spec", "litres"))
		require.Equal(t, "manifests/test.yaml", at(admin.must(http.StatusOK, "GET", settings, nil), "metadata", "annotations", "spore/file"))
		require.Equal(t, "ConfigMap,CustomResourceDefinition.apiextensions.k8s.io,Deployment.apps,Namespace,Pump.plant.example,Secret,Service",
			at(admin.must(http.StatusOK, "GET", parent, nil), "metadata", "annotations", "applyset.kubernetes.io/contains-group-kinds"))
	})
	t.Run("applying it again changes nothing", func(t *testing.T) {
		before := []string{version(settings), version(secret), version(pump), version(pumps)}
		f.stop()
		f = p.keep("master-01", 1, plantFolder)
		f.settled(t)
		require.Equal(t, before, []string{version(settings), version(secret), version(pump), version(pumps)})
	})
	t.Run("the content of a Secret is the operator's", func(t *testing.T) {
		patch(secret, object{"stringData": object{"password": "hunter2"}})
	})
	t.Run("what drifts is put right", func(t *testing.T) {
		patch(settings, object{"data": object{"colour": "red", "more": "yes"}})
		patch(shop, object{"spec": object{"replicas": 5}})
		admin.must(http.StatusOK, "DELETE", pump, nil)
		f.stop()
		f = p.keep("master-01", 1, plantFolder)
		f.settled(t)
		data := at(admin.must(http.StatusOK, "GET", settings, nil), "data")
		require.Equal(t, object{"colour": "green", "size": "7", "more": "yes"}, data, "a field that the folder says nothing of stays")
		require.EqualValues(t, 2, at(admin.must(http.StatusOK, "GET", shop, nil), "spec", "replicas"))
		admin.must(http.StatusOK, "GET", pump, nil)
		require.NotNil(t, at(admin.must(http.StatusOK, "GET", secret, nil), "data", "password"))
	})
	t.Run("an object that the server refuses keeps no other from being applied", func(t *testing.T) {
		f.stop()
		broken := strings.Replace(plantFolder, "replicas: 2", "replicas: many", 1)
		broken = strings.Replace(broken, "litres: 7", "litres: 8, gallons: 2", 1)
		broken = strings.Replace(broken, "colour: green", "colour: blue", 1)
		f = p.keep("master-01", 2, broken+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: nowhere}\n---\napiVersion: other.example/v1\nkind: Valve\nmetadata: {name: a}\n")
		require.Eventually(t, func() bool { return f.last().Count == 4 }, time.Minute, 50*time.Millisecond)
		var all []string
		for _, problem := range f.last().Problems {
			all = append(all, problem.String())
		}
		text := strings.Join(all, "\n")
		t.Log(text)
		require.Contains(t, text, "manifests/test.yaml:7: Deployment.apps web/shop: the API server answers ")
		require.Contains(t, text, "manifests/test.yaml:2: Pump.plant.example web/north: the API server answers ")
		require.Contains(t, text, "gallons")
		require.Contains(t, text, `ConfigMap nowhere/a: the API server answers 404: namespaces "nowhere" not found`)
		require.Contains(t, text, "Valve.other.example a: the API server does not serve the kind Valve of other.example/v1")
		require.Equal(t, "blue", at(admin.must(http.StatusOK, "GET", settings, nil), "data", "colour"))
	})
	t.Run("a master with an older configuration takes nothing back", func(t *testing.T) {
		old := p.keep("master-02", 1, plantFolder)
		require.Eventually(t, func() bool { return old.last().Holder == "master-01" }, time.Minute, 50*time.Millisecond)
		require.True(t, old.last().Newer)
		old.stop()
		require.Equal(t, "blue", at(admin.must(http.StatusOK, "GET", settings, nil), "data", "colour"))
	})
	t.Run("what is taken out of the folder is removed, and nothing else", func(t *testing.T) {
		f.stop()
		admin.must(http.StatusCreated, "POST", "/api/v1/namespaces/default/configmaps", object{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "not-ours", "labels": object{"applyset.kubernetes.io/part-of": applyset.ID()}},
		})
		f = p.keep("master-01", 3, "apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: web}\ndata: {size: '8'}\n")
		f.settled(t)
		require.Eventually(t, func() bool {
			code, _ := admin.do("GET", pumps, nil)
			return code == http.StatusNotFound
		}, time.Minute, 100*time.Millisecond)
		for _, path := range []string{shop, pump, secret, "/api/v1/namespaces/web/services/shop"} {
			admin.must(http.StatusNotFound, "GET", path, nil)
		}
		require.Equal(t, object{"size": "8", "more": "yes"}, at(admin.must(http.StatusOK, "GET", settings, nil), "data"), "a field that is taken out goes, another's stays")
		admin.must(http.StatusOK, "GET", "/api/v1/namespaces/default/configmaps/not-ours", nil)
	})
	t.Run("an empty folder", func(t *testing.T) {
		f.stop()
		f = p.keep("master-01", 4, "")
		require.Eventually(t, func() bool {
			code, _ := admin.do("GET", "/api/v1/namespaces/web", nil)
			return code == http.StatusNotFound
		}, 2*time.Minute, 100*time.Millisecond)
		require.Contains(t, f.lines(), "removed Namespace web, which the folder does not have any more")
		require.Eventually(t, func() bool {
			kinds := at(admin.must(http.StatusOK, "GET", parent, nil), "metadata", "annotations", "applyset.kubernetes.io/contains-group-kinds")
			return kinds == "" || kinds == nil
		}, time.Minute, 100*time.Millisecond)
	})
}

func TestThreeHundredManifests(t *testing.T) {
	p := newControlPlane(t)
	p.daemon(p.cluster.Nodes)
	var text strings.Builder
	for i := range 300 {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d, namespace: default}\ndata: {n: '%d', text: \"%s\"}\n", i, i, strings.Repeat("x", 1000))
	}
	before, begin := p.CPU(), time.Now()
	f := p.keep("master-01", 1, text.String())
	f.settled(t)
	t.Logf("300 objects: %s, %s of CPU", time.Since(begin).Round(time.Millisecond), p.CPU()-before)
	admin := p.admin()
	items, _ := admin.must(http.StatusOK, "GET", "/api/v1/namespaces/default/configmaps?labelSelector=applyset.kubernetes.io/part-of="+applyset.ID(), nil)["items"].([]any)
	require.Len(t, items, 300)
	f.stop()

	f = p.keep("master-01", 2, "")
	require.Eventually(t, func() bool { return strings.Contains(f.lines(), "removed ConfigMap default/c299") }, time.Minute, 100*time.Millisecond)
	items, _ = admin.must(http.StatusOK, "GET", "/api/v1/namespaces/default/configmaps?labelSelector=applyset.kubernetes.io/part-of="+applyset.ID(), nil)["items"].([]any)
	require.Less(t, len(items), 300)
}
