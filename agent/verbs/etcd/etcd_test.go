package etcd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/pause"
	"spore/agent/verbs"
	"spore/agent/verbs/verbstest"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

const brought = "etcd-20261122T050134Z-r351-master-1-d448f3b96f32ac95e2f58b0384fc1c8d.age"

// do carries out a verb on a master.
func do(t *testing.T, answer map[string]string, verb func(Etcd) verbs.Handler, o nodeapi.Order) ([]nodeapi.Event, string, []string, error) {
	t.Helper()
	p := &verbstest.Programs{Answer: answer}
	c := &facts.Cluster{Members: map[string][]string{role: {"master-1", "master-2"}}}
	n := &facts.Node{Name: "master-1", Roles: []string{role}}
	m := node.New("test", paths.Root(t.TempDir()))
	for _, file := range []string{program, filepath.Join(paths.BroughtSnapshot, brought)} {
		require.NoError(t, os.MkdirAll(filepath.Dir(m.Root.At(file)), 0o755))
		require.NoError(t, os.WriteFile(m.Root.At(file), nil, 0o755))
	}
	events, done, err := verbstest.Do(t, m, c, n, verb(Etcd{Run: p.Run}), o)
	for i, call := range p.Called {
		p.Called[i] = strings.ReplaceAll(call, string(m.Root), "")
	}
	return events, done, p.Called, err
}

func TestARestoreIsToldFirstAndDoneWhenItIsConfirmed(t *testing.T) {
	restore := func(e Etcd) verbs.Handler { return e.Restore }
	// It ends with an error where it was not told to do it, as spore-etcd does.
	script := map[string]string{
		"restore --yes":                  "echo etcd is restored.",
		"restore":                        "echo etcd is made anew; echo nothing was changed >&2; exit 1",
		"restore --give-up-quorum --yes": "echo etcd is restored.",
	}
	events, done, called, err := do(t, map[string]string{"restore": script["restore"]}, restore, nodeapi.Order{DryRun: true})
	require.NoError(t, err)
	require.Equal(t, "nothing was changed", done)
	require.Contains(t, verbstest.Said(events), "etcd is made anew")
	require.Equal(t, []string{"/usr/bin/spore-etcd restore"}, called)

	_, _, called, err = do(t, nil, restore, nodeapi.Order{Confirm: "master-2"})
	require.ErrorContains(t, err, `repeats "master-2", and this is about master-1; nothing was done`)
	require.Empty(t, called)
	_, _, called, err = do(t, nil, restore, nodeapi.Order{Confirm: "master-1", Force: "kafka"})
	require.ErrorContains(t, err, `the quorum etcd, and not about "kafka"`)
	require.Empty(t, called)

	_, done, called, err = do(t, map[string]string{"--yes": script["restore --yes"]}, restore,
		nodeapi.Order{Confirm: "master-1", Force: "etcd", Arguments: map[string]string{"from": brought}})
	require.NoError(t, err)
	require.Equal(t, "etcd is restored.", done)
	require.Equal(t, []string{"/usr/bin/spore-etcd restore --from " + paths.BroughtSnapshot + "/" + brought + " --give-up-quorum --yes"}, called)
	_, _, called, err = do(t, nil, restore, nodeapi.Order{Confirm: "master-1", Arguments: map[string]string{"from": "etcd-x.age"}})
	require.ErrorContains(t, err, "etcd-x.age was not brought to master-1")
	require.Empty(t, called)
}

func TestEtcdIsStoppedByForceAlone(t *testing.T) {
	stop := func(e Etcd) verbs.Handler { return e.Stop }
	_, _, called, err := do(t, nil, stop, nodeapi.Order{Confirm: "master-1"})
	require.ErrorContains(t, err, "say --force etcd")
	require.Empty(t, called)
	_, _, called, err = do(t, map[string]string{"systemctl stop": "exit 0"}, stop, nodeapi.Order{Confirm: "master-1", Force: "etcd"})
	require.NoError(t, err)
	require.Equal(t, []string{"systemctl stop kube-apiserver.service etcd.service"}, called)
}

// systemctl stops both units by one call, which is killed when the first has stopped.
func TestAStopThatIsCutOffIsCompletedByTheSameOrder(t *testing.T) {
	m := node.New("test", paths.Root(t.TempDir()))
	for _, file := range []string{program, "/units/" + apiUnit, "/units/" + unit} {
		require.NoError(t, os.MkdirAll(filepath.Dir(m.Root.At(file)), 0o755))
		require.NoError(t, os.WriteFile(m.Root.At(file), nil, 0o755))
	}
	// A restore before it was killed, too, and would have its units start again.
	note := m.Root.At(paths.Paused + "/units-1")
	require.NoError(t, os.MkdirAll(filepath.Dir(note), 0o700))
	require.NoError(t, os.WriteFile(note, []byte(`["etcd.service","kube-apiserver.service"]`), 0o600))
	stop := func(script string) error {
		p := &verbstest.Programs{Answer: map[string]string{"systemctl stop": "cd " + m.Root.At("/units") + " && " + script}}
		c := &facts.Cluster{Members: map[string][]string{role: {"master-1"}}}
		n := &facts.Node{Name: "master-1", Roles: []string{role}}
		o := nodeapi.Order{Confirm: "master-1", Force: "etcd"}
		_, _, err := verbstest.Do(t, m, c, n, Etcd{Run: p.Run}.Stop, o)
		return err
	}
	mended := func() (started []string) {
		require.NoError(t, pause.Mend(t.Context(), m.Root, func(_ context.Context, unit string) error {
			started = append(started, unit)
			return nil
		}))
		return started
	}
	require.ErrorContains(t, stop("rm "+apiUnit+"; kill -9 $$"), "killed")
	require.Empty(t, mended(), "nothing starts what an operator stops")
	require.FileExists(t, m.Root.At("/units/"+unit))
	require.NoError(t, stop("rm -f "+apiUnit+" "+unit))
	require.NoFileExists(t, m.Root.At("/units/"+unit))
	require.Empty(t, mended())
}

func TestMembersAreAListOfTheirs(t *testing.T) {
	members := func(e Etcd) verbs.Handler { return e.Members }
	events, done, _, err := do(t, map[string]string{"show --json": `echo '[{"name":"master-1"},{"name":"master-2"}]'`}, members, nodeapi.Order{})
	require.NoError(t, err)
	require.Equal(t, "etcd has 2 members", done)
	require.Len(t, events, 1)
	_, _, _, err = do(t, map[string]string{"show --json": `echo none`}, members, nodeapi.Order{})
	require.ErrorContains(t, err, "malformed")
	_, _, _, err = do(t, map[string]string{"show --json": `echo no etcd >&2; exit 1`}, members, nodeapi.Order{})
	require.ErrorContains(t, err, "no etcd")
}

func TestAnotherNodeSaysWhoTheMastersAre(t *testing.T) {
	c := &facts.Cluster{Members: map[string][]string{role: {"master-1"}}}
	m := node.New("test", paths.Root(t.TempDir()))
	_, _, err := verbstest.Do(t, m, c, &facts.Node{Name: "worker-1"}, Etcd{}.Members, nodeapi.Order{})
	require.EqualError(t, err, "worker-1 is no master (control-plane), and has no etcd; masters are master-1")
}
