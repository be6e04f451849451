package backup

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/paths"
	"spore/services/kubernetes/etcd/master/mastertest"
	"spore/services/kubernetes/etcd/restore"
	"spore/services/kubernetes/etcd/snapshot/sealing"
)

func TestWhenARestoreIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name    string
		found   found
		giveUp  bool
		problem string
	}{
		{"nobody answers", found{}, false, ""},
		{"this one has data and no quorum", found{answers: []string{"a"}}, false, ""},
		{"two of five are left", found{answers: []string{"a", "b"}}, false, ""},
		{"a quorum is alive", found{quorum: "b", answers: []string{"b", "c"}}, false, "a quorum of etcd is alive (b answers for it)"},
		{"it may be given up, and runs elsewhere", found{quorum: "b", answers: []string{"a", "b", "c"}}, true, "etcd of b, c still runs"},
		{"it is this one alone", found{quorum: "a", answers: []string{"a"}}, false, "a quorum of etcd is alive (a answers for it)"},
		{"it is this one alone, and may be given up", found{quorum: "a", answers: []string{"a"}}, true, ""},
	} {
		err := tt.found.refuse("a", tt.giveUp)
		if tt.problem == "" {
			require.NoError(t, err, tt.name)
			continue
		}
		require.ErrorContains(t, err, tt.problem, tt.name)
	}
}

func TestWhatARestoreSaysFirst(t *testing.T) {
	taken := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	h := sealing.Header{Node: "b", Taken: taken, Revision: 100, Keys: 20}
	f := found{masters: []string{"a", "b", "c"}, answers: []string{"a", "c"}, revision: 140}
	require.Equal(t, `etcd is made anew, of a alone, from
  etcd-x.age
  taken 2026-11-22T12:00:00Z by b, 10m0s before now: revision 100, 20 keys
This gives up
  what was written after that, at least 40 changes
  the data of a, if there is any; it is kept in /var/lib/etcd/given-up-x
  the data of b, which does not answer, and may have data
  the data of c, which has data, and no quorum
No other master may ever come back with its former data.
`, f.plan("a", h, "etcd-x.age", "/var/lib/etcd/given-up-x", taken.Add(10*time.Minute)))
	alone := found{masters: []string{"a"}}
	text := alone.plan("a", h, "etcd-x.age", "k", taken)
	require.NotContains(t, text, "No other master")
	require.Contains(t, text, "  what was written after that\n")
	require.Equal(t, "etcd is restored.\n", done(nil))
	require.Contains(t, done([]string{"b", "c"}), "b, c join it")
}

func TestOnlyDataThatTheQuorumDoesNotHaveIsForgotten(t *testing.T) {
	require.NoError(t, found{quorum: "b", answers: []string{"a", "b"}}.forgettable())
	require.ErrorContains(t, found{answers: []string{"a"}}.forgettable(), "this data may be the last")
	require.ErrorContains(t, found{quorum: "b", serves: true}.forgettable(), "one of the quorum that serves")
}

func TestARestoreThatWasCommittedGoesOnOnlyWhenItIsSaid(t *testing.T) {
	m := mastertest.New(t, "master-1")
	dir := m.Root.At(paths.EtcdRestore)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "committed.json"), []byte("{}"), 0o600))
	err := Restore(t.Context(), m, io.Discard, Options{})
	require.ErrorContains(t, err, "a restore is committed")
	require.ErrorContains(t, err, "nothing was changed")
	require.True(t, restore.Pending(m.Root), "whoever only looks ends nothing")
}

func TestWhatCouldNotBeStartedIsStartedWhenTheCommandHasEnded(t *testing.T) {
	m := mastertest.New(t, "master-1")
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	notes := func(fails string) []string {
		script := "#!/bin/sh\ncase \"$*\" in *" + fails + "*) exit 1 ;; esac\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "systemctl"), []byte(script), 0o700))
		end, err := stopUnits(t.Context(), m)
		require.NoError(t, err)
		err = startAnyway(t.Context(), m, end, nil)
		require.Equal(t, fails == "start*etcd", err != nil, "etcd runs without the API server")
		list, err := filepath.Glob(m.Root.At(paths.Paused) + "/units-*")
		require.NoError(t, err)
		return list
	}
	require.Empty(t, notes("nothing"))
	require.Len(t, notes("start*etcd"), 1)
	require.Len(t, notes("start*kube-apiserver"), 2)
}
