//go:build e2e

package nspawn

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// healthStatus is what a test reads of `ceph health`.
type healthStatus struct {
	Checks map[string]struct {
		Summary struct {
			Message string `json:"message"`
		} `json:"summary"`
	} `json:"checks"`
}

// TestOneMonitorAndItsManager runs a cluster of one monitor, whose manager has to have all of its modules.
func TestOneMonitorAndItsManager(t *testing.T) {
	m := &mons{New(t, Options{Source: "../..", Configs: "testdata/onemon"})}
	n := m.Node("mon-1")
	n.Start()
	n.Running()
	asJSON := func(into any, args ...string) {
		t.Helper()
		out := n.MustExec(append([]string{"ceph", "--format=json"}, args...)...) // as people type it: /etc/ceph/ceph.conf leads to the files
		require.NoError(t, json.Unmarshal([]byte(out[strings.IndexAny(out, "{["):]), into), out)
	}

	m.Step("its manager is active, with every module, and nothing is wrong but that there are no disks", func(t *testing.T) {
		m.within("a manager is active", func() error {
			var s struct {
				Available bool `json:"available"`
			}
			asJSON(&s, "mgr", "stat")
			if !s.Available {
				return fmt.Errorf("there is none yet")
			}
			return nil
		})
		var h healthStatus
		m.within("the manager counts the OSDs", func() error {
			h = healthStatus{}
			asJSON(&h, "health", "detail")
			if _, counted := h.Checks["TOO_FEW_OSDS"]; !counted {
				return fmt.Errorf("it says %v", h.Checks)
			}
			return nil
		})
		for name, check := range h.Checks {
			// The folder that is /var here lies on a disk of the host.
			require.Contains(t, []string{"TOO_FEW_OSDS", "MON_DISK_LOW"}, name, check.Summary.Message)
		}
		require.NotContains(t, n.MustExec("journalctl", "-u", "ceph-mgr.service", "--no-pager"), "Error loading module")
		for _, program := range []string{"ceph-mon", "ceph-mgr"} {
			pid := n.MustExec("systemctl", "show", "--value", "-p", "MainPID", program+".service")
			_, rss, _ := strings.Cut(n.MustExec("cat", "/proc/"+pid+"/status"), "VmRSS:")
			rss, _, _ = strings.Cut(rss, "\n")
			t.Logf("%s: %s of memory, %s ns of CPU", program, strings.TrimSpace(rss), n.MustExec("systemctl", "show", "--value", "-p", "CPUUsageNSec", program+".service"))
		}
	})
	m.Step("it has what ceph.yaml says, and a second bootstrap changes nothing", func(t *testing.T) {
		var pools []struct {
			Name         string         `json:"pool_name"`
			Size         int            `json:"size"`
			MinSize      int            `json:"min_size"`
			Applications map[string]any `json:"application_metadata"`
		}
		asJSON(&pools, "osd", "pool", "ls", "detail")
		got := map[string]string{}
		for _, p := range pools {
			if !strings.HasPrefix(p.Name, ".") {
				got[p.Name] = fmt.Sprint(p.Size, p.MinSize, len(p.Applications))
			}
		}
		require.Equal(t, map[string]string{"volumes": "1 1 1", "archive": "3 2 1"}, got)
		const applied = "applies "
		before := strings.Count(n.MustExec("journalctl", "-u", "ceph-bootstrap.service", "--no-pager"), applied)
		require.Positive(t, before)
		n.MustExec("systemctl", "restart", "ceph-bootstrap.service")
		require.Equal(t, before, strings.Count(n.MustExec("journalctl", "-u", "ceph-bootstrap.service", "--no-pager"), applied))
	})
	m.Step("its manager sees no key but its own", func(t *testing.T) {
		pid := n.MustExec("systemctl", "show", "--value", "-p", "MainPID", "ceph-mgr.service")
		require.Contains(t, n.MustExec("cat", "/proc/"+pid+"/root/run/ceph-mgr/keyring"), "[mgr.mon-1]")
		for _, path := range []string{"/run/ceph-mon", "/run/ceph-bootstrap", "/var/lib/ceph"} {
			require.Empty(t, n.MustExec("ls", "-A", "/proc/"+pid+"/root"+path), path)
			require.NotEmpty(t, n.MustExec("ls", "-A", path), path)
		}
	})
	m.Step("nobody who speaks the older protocol is heard, and the journal is not flooded", func(t *testing.T) {
		out := n.MustExec("ceph", "mon", "dump")
		require.Contains(t, out, "0: v2:10.81.0.11:3300/0 mon.mon-1")
		require.NotContains(t, n.MustExec("journalctl", "-u", "ceph-mon.service", "-u", "ceph-mgr.service", "--no-pager"), "log [DBG]")
	})
	m.Step("data of another storage cluster is left alone", func(t *testing.T) {
		n.Stop()
		mark := filepath.Join(n.Var(), "lib", "ceph", "mon", "ceph-mon-1", "spore-fsid")
		own, err := os.ReadFile(mark)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(mark, []byte("11111111-2222-4333-8444-555555555555\n"), 0o644))
		n.Start()
		m.within("it says why", func() error {
			out, err := n.Exec("journalctl", "-b", "-u", "ceph-mon.service", "--no-pager")
			if err == nil && !strings.Contains(out, `is data of the storage cluster "11111111-2222-4333-8444-555555555555"`) {
				err = fmt.Errorf("it says %s", out)
			}
			return err
		})
		require.NoError(t, os.WriteFile(mark, own, 0o644))
		m.within("it starts with its own", func() error {
			_, err := n.Exec("ceph", "--connect-timeout", "15", "quorum_status")
			return err
		})
	})
}
