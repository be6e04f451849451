//go:build e2e

package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/test/cis"
)

// isWhatTheTableSays holds the rows of docs/cis.md against the processes, files and objects of the running nodes.
func (l *lab) isWhatTheTableSays(t *testing.T) {
	dir, version, err := cis.Module(filepath.Join(sourceTree, "test", "cis"))
	require.NoError(t, err)
	list, err := cis.ReadList(os.DirFS(dir), version)
	require.NoError(t, err)
	rendered, err := cis.RenderedWith(workerName, filepath.Join(l.dir, "plant"), filepath.Join(sourceTree, "units"))
	require.NoError(t, err)
	want, err := cis.Evaluate(list, rendered)
	require.NoError(t, err)

	live := cis.Evidence{Master: l.look(lookMaster, rendered.Master), Worker: l.look(lookWorker, rendered.Worker), Objects: l.ourObjects()}
	require.Equal(t, slices.Sorted(maps.Keys(rendered.Master.Files)), slices.Sorted(maps.Keys(live.Master.Files)), "files of the master")
	require.Equal(t, slices.Sorted(maps.Keys(rendered.Worker.Files)), slices.Sorted(maps.Keys(live.Worker.Files)), "files of the worker")
	for program, flags := range map[string][]string{
		"kubelet":        {"--hostname-override=", "--node-ip="},
		"kube-apiserver": {"--advertise-address=", "--bind-address=", "--secure-port=", "--service-cluster-ip-range="},
	} {
		for _, flag := range flags { // Those of /etc/cluster-config/environment.
			running := withFlag(live.Master.Arguments[program], flag)
			require.Len(t, running, 1, "%s %s", program, flag)
			require.Equal(t, withFlag(rendered.Master.Arguments[program], flag), running, "%s of the master", program)
			require.Equal(t, withFlag(rendered.Worker.Arguments[program], flag), withFlag(live.Worker.Arguments[program], flag), "%s of the worker", program)
		}
	}
	got, err := cis.Evaluate(list, live)
	require.NoError(t, err)
	for i := range want {
		require.Equal(t, want[i].Result, got[i].Result, "check %s (%s): rendered %q, running %q", want[i].ID, want[i].Text, want[i].Reason, got[i].Reason)
	}
}

// withFlag are the words of a command line that set a flag.
func withFlag(words []string, flag string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, flag) })
}

// look collects what a node is known by.
func (l *lab) look(pod string, like cis.Node) cis.Node {
	l.t.Helper()
	out, err := l.in(pod, append([]string{"node", "/host"}, slices.Sorted(maps.Keys(like.Files))...)...)
	require.NoError(l.t, err)
	var n cis.Node
	require.NoError(l.t, json.Unmarshal([]byte(out), &n))
	return n
}

// ourObjects are those of the API that Kubernetes does not make of itself, and that the test has not made.
func (l *lab) ourObjects() []cis.Object {
	l.t.Helper()
	var list struct {
		Items []struct {
			Metadata struct {
				Name, Namespace string
				Labels          map[string]string
			}
			Kind string
		}
	}
	text := l.must("get", "-A", "-o", "json",
		"clusterroles,clusterrolebindings,roles,rolebindings,networkpolicies,services,pods,deployments,daemonsets,statefulsets,jobs,serviceaccounts,secrets")
	require.NoError(l.t, json.Unmarshal([]byte(text), &list))
	var all struct{ Items []cis.Object }
	require.NoError(l.t, json.Unmarshal([]byte(text), &all))
	var out []cis.Object
	for i, o := range list.Items {
		switch {
		case o.Metadata.Labels["kubernetes.io/bootstrapping"] != "" || o.Metadata.Namespace == "lab" || strings.HasPrefix(o.Metadata.Name, "look-"):
		case o.Kind == "ServiceAccount" && o.Metadata.Name != "default": // of kube-controller-manager's controllers
		case o.Kind == "Service" && o.Metadata.Name == "kubernetes": // kube-apiserver's own
		default:
			out = append(out, all.Items[i])
		}
	}
	return out
}
