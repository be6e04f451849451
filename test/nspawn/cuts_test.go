//go:build e2e

package nspawn

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/faults"
)

// cutOff has an operator ask for a verb, and kills what carries it out: when a file of a pattern below /var is there,
// which may be empty, and some time after that. What it had done by then, the test finds out.
func (l *Lab) cutOff(on *Node, seen string, later time.Duration, command string, args ...string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 5*time.Minute)
	defer cancel()
	type end struct {
		said string
		ok   bool
	}
	ended := make(chan end, 1)
	go func() {
		_, said, ok := l.spore(ctx, command, args...)
		ended <- end{said, ok}
	}()
	// As root on the node, since a process of the node's own would not be quick enough.
	for {
		units, _ := on.Exec("systemctl", "list-units", "--plain", "--no-legend", "--state=active", "spore-act@*")
		list, err := filepath.Glob(filepath.Join(on.Var(), seen))
		require.NoError(l.t, err)
		if strings.Contains(units, "spore-act@") && (seen == "" || len(list) > 0) {
			break
		}
		select {
		case e := <-ended:
			require.Fail(l.t, "it ended before it was cut off", "%v %s", e.ok, e.said)
		case <-time.After(5 * time.Millisecond):
		}
	}
	time.Sleep(later)
	killed, err := on.Exec("systemctl", "kill", "--kill-whom=all", "--signal=KILL", "spore-act@*.service")
	e := <-ended
	l.t.Logf("%s was killed %s after %q (%v %s); the operator was told: %v %s", command, later, seen, err, killed, e.ok, e.said)
}

// restoreIsCutOff has a restore of etcd be killed, or its machine lose power, at a moment that is drawn, and asks again.
func (m *masters) restoreIsCutOff(t *testing.T, a *Node) {
	t.Helper()
	moments := []string{
		"lib/spore/etcd-restore/database", "lib/spore/etcd-restore/data/member/snap/db", "lib/spore/etcd-restore/committed.json",
		"lib/etcd/given-up-*",
	}
	seen := moments[m.random.IntN(len(moments))]
	later := time.Duration(m.random.IntN(300)) * time.Millisecond
	power := m.random.IntN(2) == 0
	t.Logf("cut when %s is there, and %s later; power: %v", seen, later, power)
	began := time.Now()
	if power {
		m.powerGoes(a, seen, later)
		m.startFor(true, a)
	} else {
		m.cutOff(a, seen, later, "etcd restore", "master-1", "--confirm", "master-1")
		m.within("etcd and the API server do not stand still", func() error {
			_, err := a.Exec("sh", "-c", `for u in etcd kube-apiserver; do
				s=$(systemctl show -P ActiveState $u.service); [ "$s" != inactive ] && [ "$s" != deactivating ] || exit 1; done`)
			return err
		})
	}
	t.Logf("the units are started again %.1f s after the restore was asked for", time.Since(began).Seconds())
	asked := 0
	m.within("the same order completes it", func() error {
		asked++
		_, said, ok := m.spore(t.Context(), "etcd restore", "master-1", "--confirm", "master-1")
		if ok || strings.Contains(said, "a quorum of etcd is alive (master-1 answers for it)") {
			return nil
		}
		return errorOf(said)
	})
	t.Logf("asked again %d times", asked)
	faults.Took(t, time.Since(began))
	left, err := os.ReadDir(filepath.Join(a.Var(), "lib", "spore", "etcd-restore"))
	require.NoError(t, err)
	for _, e := range left {
		require.Equal(t, ".lock", e.Name(), "nothing of it is left")
	}
}

// errorOf is what an operator was told as an error.
type errorOf string

func (e errorOf) Error() string { return string(e) }

// powerGoes has an operator ask for a restore of a master that loses its power meanwhile.
func (m *masters) powerGoes(on *Node, seen string, later time.Duration) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Minute)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.spore(ctx, "etcd restore", on.Facts.Name, "--confirm", on.Facts.Name)
	}()
	for over := false; !over; {
		list, err := filepath.Glob(filepath.Join(on.Var(), seen))
		require.NoError(m.t, err)
		over = len(list) > 0
		select {
		case <-ended:
			over = true
		case <-time.After(time.Millisecond):
		}
	}
	time.Sleep(later)
	on.PowerLoss()
	cancel()
	<-ended
}
