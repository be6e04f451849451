//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/status"
	"spore/builder/manifest"
	"spore/builder/recipe"
	"spore/builder/vm"
	"spore/wire/nodeapi"
)

// The master and the worker, which keeps a part of Ceph's data, are updated as an operator does it. The next start of
// both is that after the power cut, so that the update costs no boot of its own.

// nodeEnds are the APIs of the nodes that are updated.
var nodeEnds = map[string]string{
	masterName: fmt.Sprintf("%s:%d", masterIP, nodeapi.Port), workerName: fmt.Sprintf("%s:%d", workerIP, nodeapi.Port),
}

// updated are the machines of those nodes, with the pods that see them.
func (l *lab) updated() map[string]*guest {
	return map[string]*guest{lookMaster: l.master, lookWorker: l.worker}
}

// asks runs a command of spore that asks the nodes which are updated, through the gateway.
func (l *lab) asks(command string, args ...string) (string, error) {
	l.t.Helper()
	args = append([]string{command, filepath.Join(l.dir, "plant"), "--timeout", "2m"}, args...)
	for _, node := range []string{masterName, workerName} {
		at, err := l.master.Address("tcp", nodeEnds[node])
		require.NoError(l.t, err)
		args = append(args, "--node", node, "--address", node+"="+at)
	}
	ctx, cancel := context.WithTimeout(context.Background(), kubeLimit)
	defer cancel()
	var said strings.Builder
	cmd := exec.CommandContext(ctx, flashTool(l.t), args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("spore %s: %w\n%s%s", strings.Join(args, " "), err, out, said.String())
	}
	return string(out), err
}

// statuses are what spore status says of the nodes, by their names. It is asked again when a node does not answer: a
// node gives a handshake half a minute, which a busy emulated one does not always keep.
func (l *lab) statuses() map[string]nodeapi.Status {
	l.t.Helper()
	var text string
	l.within(kubeStep, "both nodes say how they are", func() (err error) {
		text, err = l.asks("status", "--json")
		return err
	})
	var nodes []status.Node
	require.NoError(l.t, json.Unmarshal([]byte(text), &nodes), text)
	out := map[string]nodeapi.Status{}
	for _, n := range nodes {
		s, err := nodeapi.ParseStatus(n.Status, l.shared.Name, n.Node)
		require.NoError(l.t, err, text)
		require.NotNil(l.t, s.Configuration, text)
		out[n.Node] = s
	}
	require.Len(l.t, out, len(nodeEnds), text)
	return out
}

// isSentTheNextSystem pushes the image of today to both nodes, which go on with the one that they run.
func (l *lab) isSentTheNextSystem(t *testing.T) {
	l.haveSystem(manifestOf(t, filepath.Dir(l.image)))
	before := l.statuses()
	start, master, worker := time.Now(), l.master.CPU(), l.worker.CPU()
	out, err := l.asks("push", "--image", l.next)
	require.NoError(t, err)
	t.Logf("sent in %.0f s, by CPU-s %.0f to %.0f of the master and %.0f to %.0f of the worker:\n%s", time.Since(start).Seconds(),
		master.Seconds(), l.master.CPU().Seconds(), worker.Seconds(), l.worker.CPU().Seconds(), out)
	for name := range before {
		require.Contains(t, out, name+" has it on its disk, and takes it at its next start")
	}
	// The agent looks again, and says so, a little later.
	l.within(kubeStep, "both nodes say what they start next", func() error {
		for name, s := range l.statuses() {
			require.Equal(t, before[name].Configuration.RootHash, s.Configuration.RootHash, name)
			if l.nextRoot = s.Configuration.StagedRoot; l.nextRoot == "" {
				return fmt.Errorf("%s does not", name)
			}
		}
		return nil
	})
	require.NotEqual(t, before[masterName].Configuration.RootHash, l.nextRoot)
	require.NoError(t, l.fetches(clientPod, helloURL, helloAnswer), "meanwhile they serve")
}

// runsTheNextSystem waits until both nodes have passed their trials.
func (l *lab) runsTheNextSystem(t *testing.T) {
	require.NotEmpty(t, l.nextRoot, "they were sent it")
	for _, g := range l.updated() {
		ctx, cancel := context.WithTimeout(context.Background(), kubeLimit)
		defer cancel()
		isKept := func(s vm.Status) bool {
			c := systemOf(t, s).Configuration
			return c.RootHash == l.nextRoot && !c.Trial && s.System == "running"
		}
		_, _, _, err := g.Console.AwaitStatus(ctx, g.mark, "a status line of the next root, which is on no trial", isKept)
		require.NoError(t, err, g.Config.Name)
		t.Logf("%s stays with it, at %.0f CPU-s", g.Config.Name, g.CPU().Seconds())
	}
	for name, s := range l.statuses() {
		require.Equal(t, l.nextRoot, s.Configuration.RootHash, name)
		require.NotZero(t, s.Configuration.Serial, name)
		require.False(t, s.Configuration.Trial, name)
		require.Empty(t, s.Configuration.Problem, name)
		require.Empty(t, s.Failed, name)
		require.Empty(t, s.Held, name)
	}
	l.haveSystem(manifestOf(t, l.next))
}

// haveSystem makes sure that both nodes run the kernel of an image, and that their roots have those of its packages in
// which the older image differs from that of today.
func (l *lab) haveSystem(m manifest.Manifest) {
	l.t.Helper()
	changed := differing(manifestOf(l.t, filepath.Dir(l.image)), manifestOf(l.t, l.next))
	require.NotEmpty(l.t, changed)
	want := map[string]string{}
	for _, p := range m.Packages {
		if changed[p.Name] {
			want[p.Name] = p.Version
		}
	}
	l.t.Logf("kernel %s, packages %v", m.Kernel, want)
	for pod, g := range l.updated() {
		require.Equal(l.t, m.Kernel, l.read(pod, "/proc/sys/kernel/osrelease"), g.Config.Name)
		has := versions(l.read(pod, "/host"+recipe.StatusPath))
		for name, version := range want {
			require.Equal(l.t, version, has[name], "%s of %s", name, g.Config.Name)
		}
	}
}

// differing are the names of the packages that are parts of both images, in different versions.
func differing(a, b manifest.Manifest) map[string]bool {
	of := map[string]string{}
	for _, p := range a.Packages {
		if !p.Absent {
			of[p.Name] = p.Version
		}
	}
	out := map[string]bool{}
	for _, p := range b.Packages {
		if before, ok := of[p.Name]; ok && before != p.Version && !p.Absent {
			out[p.Name] = true
		}
	}
	return out
}

// versions are those of the packages in dpkg's status file (deb822(5)).
func versions(text string) map[string]string {
	out := map[string]string{}
	name := ""
	for line := range strings.Lines(text) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), ": "); key {
		case "Package":
			name = value
		case "Version":
			out[name] = value
		}
	}
	return out
}
