//go:build e2e

package nspawn

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Units that the masters of this test do without: nothing of the first is asked here, and of the API one server is
// enough.
var (
	unasked = []string{"calico-controllers.service", "cluster-dns.service", "kube-controller-manager.service", "kube-scheduler.service"}
	noAPI   = []string{"kube-apiserver.service", "kubernetes-bootstrap.service", "kubernetes-api.service"}
)

// startFor starts masters; only those with an API server of their own serve it.
func (m *masters) startFor(api bool, nodes ...*Node) {
	m.t.Helper()
	m.options.Masked = slices.Concat(withoutCGroups, unasked)
	if !api {
		m.options.Masked = append(m.options.Masked, noAPI...)
	}
	for _, n := range nodes {
		n.Start()
	}
}

// snapshotFiles are the names of the snapshots that a node has.
func snapshotFiles(n *Node) string {
	entries, _ := os.ReadDir(filepath.Join(n.Var(), "lib", "etcd-snapshots")) // none before the first
	var out []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".age") {
			out = append(out, e.Name())
		}
	}
	return strings.Join(out, " ")
}

// hasSnapshot waits until nodes have a snapshot.
func (m *masters) hasSnapshot(name string, nodes ...*Node) {
	m.t.Helper()
	for _, n := range nodes {
		m.within(n.Facts.Name+" has the snapshot", func() error {
			if have := snapshotFiles(n); !strings.Contains(have, name) {
				return fmt.Errorf("it has %q", have)
			}
			return nil
		})
	}
}

// lacks requires that an object is not there.
func (m *masters) lacks(from *Node, name string) {
	m.t.Helper()
	m.within("the API says that it is not there", func() error {
		err := ask(m.api(from), http.MethodGet, ledgerPath+"/"+name, nil, nil)
		if err != nil && strings.Contains(err.Error(), "404") {
			return nil
		}
		return fmt.Errorf("%s: %w", name, errors.Join(err, errors.New("it is there, or nobody knows")))
	})
}

// TestMastersRestored loses two masters of three and restores etcd on the one that is left, and then on one that has
// nothing while another comes back with what was given up.
func TestMastersRestored(t *testing.T) {
	m := newMasters(t)
	a, b, c := m.Node("master-1"), m.Node("master-2"), m.Node("master-3")
	m.startFor(true, a)
	m.startFor(false, b, c)
	m.voters("master-1", "master-2", "master-3")
	book := m.writeBook(a, "before")
	m.more(book, 30)
	before := book.end()
	saved := ""

	m.Step("a snapshot gets to all masters", func(t *testing.T) {
		saved = filepath.Base(b.MustExec("spore-agent", "etcd", "snapshot", "take"))
		// They ask each other every three minutes, and when they start.
		for _, n := range []*Node{a, c} {
			n.MustExec("systemctl", "restart", "etcd-snapshot.service")
		}
		began := time.Now()
		m.hasSnapshot(saved, a, b, c)
		t.Logf("%s is on all masters after %.0f s", saved, time.Since(began).Seconds())
		t.Logf("snapshots of master-1:\n%s\n%s", a.MustExec("spore-agent", "etcd", "snapshot", "list"), a.MustExec("spore-agent", "etcd", "snapshot", "check"))
		t.Logf("%s", a.MustExec("systemctl", "show", "--property=StatusText,ActiveState", "etcd-snapshot.service"))
		require.Empty(t, a.MustExec("find", "/var/lib/etcd-snapshots", "!", "-user", "spore-snapshot"))
	})
	m.Step("nothing is restored while a quorum is alive", func(t *testing.T) {
		out, err := a.Exec("spore-agent", "etcd", "restore", "--yes")
		require.Error(t, err)
		require.Contains(t, out, "a quorum of etcd is alive")
		_, said, ok := m.spore(t.Context(), "etcd restore", "master-1", "--force", "etcd", "--confirm", "master-1")
		require.False(t, ok)
		require.Contains(t, said, "etcd of master-2, master-3 still runs")
		_, said, ok = m.spore(t.Context(), "etcd forget", "master-1", "--confirm", "master-1")
		require.False(t, ok)
		require.Contains(t, said, "this master's etcd is one of the quorum that serves")
	})
	m.Step("an operator sees the members, and takes none out by mistake", func(t *testing.T) {
		out, said, ok := m.spore(t.Context(), "etcd members")
		require.True(t, ok, said)
		require.Regexp(t, `(?m)^master-2 +(leads|votes) `, out)
		require.Len(t, strings.Split(strings.TrimSpace(out), "\n"), 4, "a head and three members")
		_, said, ok = m.spore(t.Context(), "etcd remove", "master-3", "--node", "master-1", "--dry-run")
		require.True(t, ok, said)
		require.Contains(t, said, "is taken out of etcd; 2 of 2 members serve then")
		_, said, ok = m.spore(t.Context(), "etcd remove", "master-3", "--node", "master-1", "--confirm", "master-2")
		require.False(t, ok)
		require.Contains(t, said, `--confirm is "master-2", and this is about master-3`)
		m.voters("master-1", "master-2", "master-3")
	})
	late := m.writeBook(a, "after")
	m.more(late, 5)
	late.end()
	m.Step("two masters are lost, and the third is restored, although the restore is cut off once", func(t *testing.T) {
		for _, n := range []*Node{b, c} {
			n.PowerLoss()
			n.WipeState()
			n.NewBundle()
		}
		_, said, ok := m.spore(t.Context(), "etcd restore", "master-1", "--dry-run")
		require.True(t, ok, said)
		require.Contains(t, said, "the data of master-2, which does not answer, and may have data")
		require.Contains(t, said, "nothing was changed")
		began := time.Now()
		m.restoreIsCutOff(t, a)
		m.holds(a, before)
		t.Logf("the API serves %.1f s after the command was given", time.Since(began).Seconds())
		m.lacks(a, "after-0")
		m.voters("master-1")
	})
	m.Step("the others join it, and writing goes on", func(t *testing.T) {
		began := time.Now()
		book := m.writeBook(a, "joining")
		m.more(book, 20)
		m.startFor(false, b, c)
		m.voters("master-1", "master-2", "master-3")
		t.Logf("three members again after %.0f s", time.Since(began).Seconds())
		m.more(book, 20)
		joining := book.end()
		m.holds(a, before)
		m.holds(a, joining)
		m.hasSnapshot(saved, b, c)
	})
	m.Step("a fresh master restores a file, and one that comes back with its data waits until that is put aside", func(t *testing.T) {
		for _, n := range []*Node{a, b, c} {
			n.PowerLoss()
		}
		file, err := os.ReadFile(filepath.Join(c.Var(), "lib", "etcd-snapshots", saved))
		require.NoError(t, err)
		for _, n := range []*Node{a, c} {
			n.WipeState()
			n.NewBundle()
		}
		brought := filepath.Join(t.TempDir(), saved)
		require.NoError(t, os.WriteFile(brought, file, 0o600))
		m.startFor(true, a)
		m.awaits(a, "etcd.service", "master-2", "master-3")
		_, said, ok := m.spore(t.Context(), "etcd restore", "master-1", "--from", brought, "--confirm", "master-1")
		require.True(t, ok, said)
		m.holds(a, before)
		m.startFor(false, c)
		m.voters("master-1", "master-3")
		m.startFor(false, b)
		m.within("etcd is being started", func() error { _, err := b.Exec("test", "-e", "/run/spore/etcd-tried"); return err })
		// The first start of a boot asks nobody: then all members may be starting.
		b.MustExec("systemctl", "restart", "--no-block", "etcd.service")
		m.awaits(b, "etcd.service", "the other masters have another database")
		_, said, ok = m.spore(t.Context(), "etcd forget", "master-2", "--confirm", "master-2")
		require.True(t, ok, said)
		m.voters("master-1", "master-2", "master-3")
		m.holds(a, before)
		m.lacks(a, "joining-0")
		kept, err := filepath.Glob(filepath.Join(b.Var(), "lib", "etcd", "given-up-*"))
		require.NoError(t, err)
		require.Len(t, kept, 1, "what was given up is kept")
	})
	m.Step("an operator removes what was given up", func(t *testing.T) {
		out, said, ok := m.spore(t.Context(), "clean", "--node", "master-2", "--given-up", "--dry-run")
		require.True(t, ok, said)
		require.Contains(t, out, "/var/lib/etcd/given-up-")
		_, said, ok = m.spore(t.Context(), "clean", "--node", "master-2", "--given-up", "--confirm", "master-2")
		require.True(t, ok, said)
		kept, err := filepath.Glob(filepath.Join(b.Var(), "lib", "etcd", "given-up-*"))
		require.NoError(t, err)
		require.Empty(t, kept)
		m.voters("master-1", "master-2", "master-3")
	})
}
