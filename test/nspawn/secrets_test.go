//go:build e2e

package nspawn

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/pki/bundle"
	"spore/test/leak"
)

// names are entries of bundles that everybody may know: programs write them into their logs.
var names = []string{"kafka-cluster-id", "ceph-fsid"}

// secrets knows those of all nodes. Certificates are for everybody.
func (l *Lab) secrets(t *testing.T) *leak.Searcher {
	t.Helper()
	signing, err := l.Keys.Public().SigningKeys()
	require.NoError(t, err)
	marks, n := leak.New(), 0
	for _, node := range l.Nodes() {
		b, err := bundle.Open(bytes.NewReader(node.Bundle), bundle.Whose{Cluster: l.Cluster.ID, Node: node.Facts.Name, Keys: signing})
		require.NoError(t, err)
		for name, value := range b.Secrets {
			if !strings.Contains(value, "BEGIN CERTIFICATE") && !slices.Contains(names, name) {
				require.NoError(t, marks.Add(node.Facts.Name+"/"+name, value))
				n++
			}
		}
	}
	require.Greater(t, n, 3)
	return marks
}

// hasNoSecret searches a file.
func hasNoSecret(t *testing.T, marks *leak.Searcher, file string) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	finds, err := marks.Search(f)
	require.NoError(t, err)
	require.Empty(t, finds, file)
}

// journalsHaveNoSecret looks for the secrets of all nodes in the journals of those that run, with every field of every
// entry, and in the audit logs of masters: what stores of logs are sent.
func (l *Lab) journalsHaveNoSecret(t *testing.T) {
	marks := l.secrets(t)
	for _, n := range l.Nodes() {
		if !n.Up() {
			continue
		}
		file := filepath.Join(n.Var(), "journal.export")
		n.MustExec("sh", "-ec", "umask 077; journalctl --quiet --output=export >/var/journal.export; cat /var/log/kubernetes/audit*.log >>/var/journal.export 2>/dev/null || :")
		s, err := os.Stat(file)
		require.NoError(t, err)
		require.Greater(t, s.Size(), int64(32<<10), n.Facts.Name)
		hasNoSecret(t, marks, file)
		n.MustExec("rm", "/var/journal.export")
	}
}

// storeHasNoSecret looks for the secrets of all nodes in all that the store of logs has. It returns the entries, as
// journalctl writes them in JSON.
func (l *Lab) storeHasNoSecret(t *testing.T) (file string) {
	file = filepath.Join(t.TempDir(), "all.log")
	_, errs, ok := l.quiet(t.Context(), "logs", "--all", "--since", "1d", "--source", "journal", "--source", "pod", "--source", "audit", "--json", "--output", file)
	require.True(t, ok, errs)
	s, err := os.Stat(file)
	require.NoError(t, err)
	require.Greater(t, s.Size(), int64(1<<20))
	hasNoSecret(t, l.secrets(t), file)
	return file
}
