//go:build e2e

package nspawn

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/test/faults"
)

const (
	// cephLimit bounds what the monitors take to agree on something on a busy machine.
	cephLimit = 4 * time.Minute
	monPort   = "3300"
	// cephConf is what people use on a node with a monitor.
	cephConf = "/run/ceph-bootstrap/ceph.conf"
)

// mons is a running set of monitors.
type mons struct{ *Lab }

// ceph runs ceph(8) on a node.
func (m *mons) ceph(on *Node, args ...string) (string, error) {
	return on.Exec(append([]string{"ceph", "-c", cephConf, "--connect-timeout", "15"}, args...)...)
}

// within tries until there is no error any more.
func (m *mons) within(what string, try func() error) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cephLimit)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			require.NoError(m.t, err, "%s, after %s", what, cephLimit)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// quorumStatus is what a test reads of `ceph quorum_status`.
type quorumStatus struct {
	Names  []string `json:"quorum_names"`
	Leader string   `json:"quorum_leader_name"`
	MonMap struct {
		FSID string `json:"fsid"`
		Mons []struct {
			Name string `json:"name"`
		} `json:"mons"`
	} `json:"monmap"`
}

// quorum waits until exactly these monitors are the quorum, as the first of them says.
func (m *mons) quorum(names ...string) quorumStatus {
	m.t.Helper()
	var q quorumStatus
	m.within(fmt.Sprintf("%v are the quorum", names), func() error {
		out, err := m.ceph(m.Node(names[0]), "quorum_status", "--format=json")
		if err != nil {
			return err
		}
		// Names and monitors are appended where the last answer is still there.
		q = quorumStatus{}
		if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &q); err != nil {
			return fmt.Errorf("read %q: %w", out, err)
		}
		if len(q.Names) != len(names) {
			return fmt.Errorf("the quorum is %v", q.Names)
		}
		for _, name := range names {
			if !strings.Contains(strings.Join(q.Names, " ")+" ", name+" ") {
				return fmt.Errorf("the quorum is %v", q.Names)
			}
		}
		return nil
	})
	require.Len(m.t, q.MonMap.Mons, 3, "the map has three monitors at all times")
	return q
}

// notes are keys that were written and acknowledged.
type notes struct {
	mu   sync.Mutex
	keys []string
	stop chan struct{}
	done chan struct{}
}

// write writes keys by a node, one after the other, until stopped.
func (m *mons) write(on *Node, prefix string) *notes {
	n := &notes{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(n.done)
		for i := 0; ; i++ {
			select {
			case <-n.stop:
				return
			default:
			}
			key := fmt.Sprintf("lab/%s/%d", prefix, i)
			if _, err := m.ceph(on, "config-key", "set", key, key); err == nil {
				n.mu.Lock()
				n.keys = append(n.keys, key)
				n.mu.Unlock()
			}
		}
	}()
	return n
}

func (n *notes) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.keys)
}

func (n *notes) end() []string {
	close(n.stop)
	<-n.done
	return n.keys
}

// holds requires that every key is there, as one node says.
func (m *mons) holds(on *Node, keys []string) {
	m.t.Helper()
	var have []string
	m.within("the keys can be listed", func() error {
		out, err := m.ceph(on, "config-key", "ls", "--format=json")
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(out[strings.Index(out, "["):]), &have)
	})
	for _, key := range keys {
		require.Contains(m.t, have, key, "an acknowledged key is lost")
	}
}

// TestThreeMons runs three monitors of Ceph.
func TestThreeMons(t *testing.T) {
	m := &mons{New(t, Options{Source: "../..", Configs: "testdata/mons"})}
	for _, n := range m.Nodes() {
		n.Start()
	}
	all := []string{"mon-1", "mon-2", "mon-3"}
	first := m.quorum(all...)
	m.within("a manager is active, and the others stand by", func() error {
		out, err := m.ceph(m.Node("mon-1"), "mgr", "stat", "--format=json")
		if err == nil && !strings.Contains(out, `"available":true`) {
			err = fmt.Errorf("there is none: %s", out)
		}
		return err
	})
	for _, n := range m.Nodes() {
		require.Empty(t, n.MustExec("systemctl", "list-units", "--failed", "--plain", "--no-legend"))
		t.Logf("%s used %.1f CPU seconds until there was a quorum with a manager", n.Facts.Name, n.CPU().Seconds())
	}
	var keys []string

	m.Step("an operator sees how Ceph is, and takes no monitor out by mistake", func(t *testing.T) {
		out, said, ok := m.spore(t.Context(), "ceph status", "--node", "mon-2")
		require.True(t, ok, said)
		require.Regexp(t, `^HEALTH_(OK|WARN)\n`, out)
		require.Regexp(t, `monitors in the quorum +3`, out)
		_, said, ok = m.spore(t.Context(), "ceph monitor-remove", "mon-3", "--node", "mon-1", "--dry-run")
		require.True(t, ok, said)
		require.Contains(t, said, "the monitor mon-3 would be taken out; 2 would be left")
		_, said, ok = m.spore(t.Context(), "ceph osd-purge", "7", "--node", "mon-1", "--confirm", "osd.7")
		require.True(t, ok, said)
		require.Contains(t, said, "there is no osd.7 (any more), and nothing to forget")
		_, said, ok = m.spore(t.Context(), "ceph osd-out", "7", "--node", "mon-1")
		require.False(t, ok)
		require.Contains(t, said, "there is no osd.7")
	})
	m.Step("the node of the leading monitor tells how Ceph is", func(t *testing.T) {
		tells := func(n *Node, line string) int { return strings.Count(string(m.scraper(t, n)()), line) }
		leads := func() (leading []*Node) {
			for _, n := range m.Nodes() {
				if tells(n, "\nceph_health_status ") > 0 {
					leading = append(leading, n)
				}
			}
			return leading
		}
		// The program that asks Ceph takes seconds, of which the collector waits for none: it is in a later answer.
		for end := time.Now().Add(2 * time.Minute); len(leads()) != 1; time.Sleep(5 * time.Second) {
			if time.Now().After(end) {
				for _, n := range m.Nodes() {
					t.Log(n.MustExec("journalctl", "--quiet", "--output=cat", "--unit=spore-metrics.service"))
				}
				require.Fail(t, "no node tells how Ceph is, or two do")
				return
			}
		}
		leading := leads()[0]
		require.Equal(t, 3, tells(leading, "\nceph_mon_quorum_status{"))
		require.Equal(t, 1, tells(leading, `spore_source_up{source="ceph"} 1`))
		t.Logf("%s leads", leading.Facts.Name)
	})
	m.Step("Ceph is asked before an OSD goes, and forgets one that is lost, by an order that was cut off once", func(t *testing.T) {
		m.within("the number of an OSD that never ran", func() error {
			_, err := m.ceph(m.Node("mon-1"), "osd", "new", "0b5c6f4e-7d3c-4f43-9d0e-6b7f2f2b7c11")
			return err
		})
		m.Node("mon-1").hasOSD(0)
		_, said, ok := m.spore(t.Context(), "reboot", "--node", "mon-1", "--dry-run")
		require.True(t, ok, said)
		require.Contains(t, said, "would be allowed now")
		m.within("nodes with a monitor were asked", func() (err error) {
			for _, n := range m.Nodes() {
				if _, err = n.Exec("sh", "-c", "journalctl -u spore-api.service | grep -q ceph-osd-safe"); err == nil {
					return nil
				}
			}
			return err
		})
		_, said, ok = m.spore(t.Context(), "reboot", "--node", "mon-1", "--dry-run", "--force", "ceph-osds")
		require.False(t, ok)
		require.Contains(t, said, "it takes one of ceph-mon, ceph-osd")
		purge := []string{"0", "--node", "mon-1", "--confirm", "osd.0", "--force", "ceph-mon"}
		m.cutOff(m.Node("mon-1"), time.Duration(m.random.IntN(6000))*time.Millisecond, "ceph osd-purge", purge...)
		began := time.Now()
		m.within("the same order completes it", func() error {
			if _, said, ok := m.spore(t.Context(), "ceph osd-purge", purge...); !ok {
				return errorOf(said)
			}
			return nil
		})
		faults.Took(t, time.Since(began))
		out, err := m.ceph(m.Node("mon-1"), "osd", "ls", "--format=json")
		require.NoError(t, err)
		require.Contains(t, out, "[]")
		m.Node("mon-1").MustExec("rm", "-r", "/run/spore/disks/osd.json", "/run/ceph-osd/1")
	})
	m.Step("each listens where its rows say, and nowhere else", m.listenWhereTheirRowsSay)
	m.Step("a monitor loses power amid acknowledged writes, the others go on, and it returns", func(t *testing.T) {
		lost := m.Node(first.Leader)
		var left []string
		for _, name := range all {
			if name != first.Leader {
				left = append(left, name)
			}
		}
		n := m.write(m.Node(left[0]), "lost")
		m.enough(n, 2+m.random.IntN(6))
		lost.PowerLoss()
		before := n.count()
		m.enough(n, before+3)
		keys = append(keys, n.end()...)
		m.quorum(left...)
		m.holds(m.Node(left[1]), keys)
		lost.Start()
		m.quorum(append([]string{lost.Facts.Name}, left...)...)
		m.holds(lost, keys)
	})
	wiped := m.Node("mon-1") // The first by name: the one that would write the record of a first formation.
	m.Step("no journal has a secret", m.journalsHaveNoSecret)
	m.Step("a monitor that was taken out, by an order that was cut off once, and wiped takes the map from the quorum", func(t *testing.T) {
		wiped.PowerLoss()
		m.quorum("mon-2", "mon-3")
		remove := []string{"mon-1", "--node", "mon-2", "--confirm", "mon-1"}
		m.cutOff(m.Node("mon-2"), time.Duration(m.random.IntN(6000))*time.Millisecond, "ceph monitor-remove", remove...)
		began := time.Now()
		m.within("the same order completes it", func() error {
			if _, said, ok := m.spore(t.Context(), "ceph monitor-remove", remove...); !ok {
				return errorOf(said)
			}
			return nil
		})
		faults.Took(t, time.Since(began))
		wiped.WipeState()
		wiped.NewBundle()
		wiped.Start()
		q := m.quorum(all...)
		require.Equal(t, first.MonMap.FSID, q.MonMap.FSID)
		m.holds(wiped, keys)
	})
	m.Step("all lose power amid acknowledged writes, and one that was wiped waits alone, and says for whom", func(t *testing.T) {
		n := m.write(m.Node("mon-2"), "all")
		m.enough(n, 2+m.random.IntN(6))
		m.PowerLoss(m.Nodes()...)
		keys = append(keys, n.end()...)
		wiped.WipeState()
		wiped.NewBundle()
		wiped.Start()
		s := wiped.Await("a monitor that waits", func(s vm.Status) bool { return waiting(s) != "" })
		waitsFor(t, s, "ceph-mon.service", "mon-2", "mon-3")
		store := filepath.Join(wiped.Var(), "lib", "ceph", "mon", "ceph-mon-1", "store.db")
		wiped.silent(quietForVoter, store, monPort)
		m.Node("mon-2").Start()
		m.Node("mon-3").Start()
		q := m.quorum(all...)
		require.DirExists(t, store)
		require.Equal(t, first.MonMap.FSID, q.MonMap.FSID)
		m.holds(wiped, keys)
	})
	m.Step("one monitor of three is no quorum", func(t *testing.T) {
		write := func() error {
			_, err := wiped.Exec("timeout", "30", "ceph", "-c", cephConf, "config-key", "set", "lab/alone", "1")
			return err
		}
		m.within("a key is written in time", write)
		m.Node("mon-2").PowerLoss()
		m.Node("mon-3").PowerLoss()
		require.Error(t, write(), "it acknowledged a write alone")
		wiped.hasOSD(0)
		_, said, ok := m.spore(t.Context(), "reboot", "--node", "mon-1", "--dry-run")
		require.False(t, ok)
		require.Contains(t, said, "takes away osd.0, and whether Ceph bears that is not known: no monitor answers")
		_, said, ok = m.spore(t.Context(), "reboot", "--node", "mon-1", "--dry-run", "--force", "ceph-osd")
		require.True(t, ok, said)
	})
}

// hasOSD has a node think that it has an OSD.
func (n *Node) hasOSD(number int) {
	n.lab.t.Helper()
	n.MustExec("sh", "-c", fmt.Sprintf(`mkdir -p /run/spore/disks /run/ceph-osd/1 && echo OSD_ID=%d > /run/ceph-osd/1/osd.env &&
		echo '[{"use":"osd","number":1,"selector":"serial: X"}]' > /run/spore/disks/osd.json`, number))
}

// enough waits until so many keys were acknowledged.
func (m *mons) enough(n *notes, want int) {
	m.t.Helper()
	m.within("keys are written", func() error {
		if got := n.count(); got < want {
			return fmt.Errorf("%d of %d are", got, want)
		}
		return nil
	})
}
