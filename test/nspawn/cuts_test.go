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

// order is what an operator asked for.
type order struct {
	ended chan struct{}
	said  string
	ok    bool
}

// asks has an operator ask for a verb.
func (l *Lab) asks(command string, args ...string) *order {
	ctx, cancel := context.WithTimeout(l.t.Context(), 5*time.Minute)
	o := &order{ended: make(chan struct{})}
	go func() {
		defer close(o.ended)
		defer cancel()
		_, o.said, o.ok = l.spore(ctx, command, args...)
	}()
	return o
}

// until waits until something is seen, and then some time more. An order that ended before that is not cut off.
func (o *order) until(t *testing.T, seen func() bool, every, later time.Duration) {
	t.Helper()
	for !seen() {
		select {
		case <-o.ended:
			t.Logf("it ended before it was cut off: %v %s", o.ok, o.said)
			return
		case <-time.After(every):
		}
	}
	time.Sleep(later)
}

// has tells whether a node has a file of some patterns below /var.
func (n *Node) has(patterns ...string) bool {
	for _, p := range patterns {
		list, err := filepath.Glob(filepath.Join(n.Var(), p))
		require.NoError(n.lab.t, err)
		if len(list) > 0 {
			return true
		}
	}
	return false
}

// acts tells whether a node carries out a verb that acts.
func (n *Node) acts() bool {
	units, _ := n.Exec("systemctl", "list-units", "--plain", "--no-legend", "--state=active", "spore-act@*")
	return strings.Contains(units, "spore-act@")
}

// killActing kills the processes of acting verbs one by one, as the kernel does that is out of memory. systemctl kill
// would do it by cgroup.kill, after which some kernels (6.18) kill each process that systemd begins in the same group,
// such as that of ExecStopPost=.
const killActing = `systemctl show -P ControlGroup 'spore-act@*.service' |
	while read -r g; do [ -z "$g" ] || kill -KILL $(cat "/sys/fs/cgroup$g/cgroup.procs"); done`

// kill ends what carries out a verb on a node.
func (o *order) kill(on *Node) {
	on.lab.t.Helper()
	out, err := on.Exec("sh", "-c", killActing)
	<-o.ended
	on.lab.t.Logf("it was killed (%v %s); the operator was told: %v %s", err, out, o.ok, o.said)
}

// cutOff has an operator ask for a verb, and kills what carries it out some time after that began.
func (l *Lab) cutOff(on *Node, later time.Duration, command string, args ...string) {
	l.t.Helper()
	o := l.asks(command, args...)
	o.until(l.t, on.acts, 5*time.Millisecond, later)
	o.kill(on)
}

// restoreIsCutOff has a restore of etcd be killed, or its machine lose power, at a moment that is drawn, and asks
// again.
func (m *masters) restoreIsCutOff(t *testing.T, a *Node) {
	t.Helper()
	const below = "lib/spore/etcd-restore/"
	moments := [][]string{{below + "database"}, {below + "data/member/snap/db"}, {below + "committed.json", "lib/etcd/given-up-*"}}
	seen := moments[m.random.IntN(len(moments))]
	later := time.Duration(m.random.IntN(300)) * time.Millisecond
	power := m.random.IntN(2) == 0
	t.Logf("cut when %s is there, and %s later; power: %v", seen, later, power)
	o := m.asks("etcd restore", "master-1", "--confirm", "master-1")
	o.until(t, func() bool { return a.has(seen...) }, time.Millisecond, later)
	began := time.Now()
	if power {
		a.PowerLoss()
		<-o.ended
		m.startFor(true, a)
	} else {
		o.kill(a)
		m.within("etcd and the API server do not stand still", func() error {
			_, err := a.Exec("sh", "-c", `for u in etcd kube-apiserver; do
				s=$(systemctl show -P ActiveState $u.service); [ "$s" != inactive ] && [ "$s" != deactivating ] || exit 1; done`)
			return err
		})
	}
	t.Logf("the units are started again %.1f s after the cut", time.Since(began).Seconds())
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
