package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/command"
	"spore/agent/etcd/client"
	"spore/agent/etcd/master/mastertest"
	"spore/agent/etcd/member"
	"spore/agent/etcd/origin"
	"spore/agent/formation"
)

func TestWrongUsageSaysWhatToWrite(t *testing.T) {
	m := mastertest.New(t, "master-1")
	for _, line := range []string{
		"", "frobnicate", "bootstrap", "bootstrap --lose a", "bootstrap --force a", "enter x", "promote x", "members x", "endpoint x", "show --yaml", "show x",
		"restore x", "restore --from", "restore --latest --from x", "restore --resume --yes", "restore --resume --from x", "restore --force", "restore --from=",
		"snapshot", "snapshot x", "snapshot take x", "snapshot list x", "snapshot check x", "snapshot open", "snapshot open a", "snapshot open a b c", "snapshot run x",
	} {
		err := table(m).Dispatch(t.Context(), strings.Fields(line), new(bytes.Buffer))
		require.Equal(t, 2, command.Status(err), "%q: %v", line, err)
		require.Regexp(t, "(?i)usage: spore-agent etcd ", err.Error(), line)
	}
}

func TestEachCommandHasHelp(t *testing.T) {
	m := mastertest.New(t, "master-1")
	for _, c := range append(table(m).Commands, command.Command{}, command.Command{Name: "snapshot"}) {
		var out bytes.Buffer
		require.NoError(t, table(m).Dispatch(t.Context(), append(strings.Fields(c.Name), "--help"), &out), c.Name)
		require.Contains(t, out.String(), "Usage: spore-agent etcd ", c.Name)
		require.Contains(t, out.String(), "\nExample: spore-agent etcd ", c.Name)
	}
}

func TestARestoreIsWhatItsOptionsSay(t *testing.T) {
	for line, want := range map[string]restoreOptions{
		"":                                {},
		"--latest":                        {},
		"--latest --yes":                  {yes: true},
		"--from /var/a.age --yes":         {from: "/var/a.age", yes: true},
		"--give-up-quorum --from x":       {from: "x", giveUp: true},
		"--resume":                        {resume: true},
		"--yes --give-up-quorum --latest": {yes: true, giveUp: true},
	} {
		var got restoreOptions
		read := readRestore(func(_ context.Context, o restoreOptions) error { got = o; return nil })
		one := command.Table{Program: "x", Commands: []command.Command{{Name: "restore", About: "x", Read: read}}}
		require.NoError(t, one.Dispatch(t.Context(), append([]string{"restore"}, strings.Fields(line)...), new(bytes.Buffer)), line)
		require.Equal(t, want, got, line)
	}
}

func TestOnlyAMasterWithItsSecretsAsksEtcd(t *testing.T) {
	for name, tt := range map[string]struct{ node, want string }{
		"a machine that is no node":        {"", "this machine is no node"},
		"a master without its bundle":      {"master-1", "secret etcd-agent-certificate of this node"},
		"a node that is not in the config": {"master-9", "master-9"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, showCommand(t.Context(), mastertest.New(t, tt.node), false), tt.want)
		})
	}
}

func TestAnEntrantKnowsTheOtherMasters(t *testing.T) {
	e, err := newEntrant(mastertest.New(t, "master-1"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"master-2": "https://10.77.0.2:2379"}, e.others)
	require.Equal(t, "https://10.77.0.1:2380", e.peer)
}

// testEntrant is master-1, which has no data and is to join the others.
func testEntrant(t *testing.T) *entrant {
	t.Helper()
	m := mastertest.New(t, "master-1")
	dir := origin.Dir(m.Root.At(origin.Data))
	require.NoError(t, os.MkdirAll(filepath.Dir(string(dir)), 0o755))
	require.NoError(t, dir.Make(origin.Origin{Kind: formation.Join, Nonce: "n"}, os.Getuid(), os.Getgid()))
	e, err := newEntrant(m)
	require.NoError(t, err)
	e.origin, err = e.dir.Read()
	require.NoError(t, err)
	return e
}

func TestWhoIsLetInIsNotedBesideTheOthers(t *testing.T) {
	e := testEntrant(t)
	require.NoError(t, e.note(7, client.Cluster{Members: []member.Member{
		{ID: 3, Name: "master-2", Peers: []string{"https://10.77.0.2:2380"}}, {ID: 7, Peers: []string{"https://10.77.0.1:2380"}}, {ID: 0x1f, Peers: []string{"https://10.77.0.4:2380"}},
	}}))
	o, err := e.dir.Read()
	require.NoError(t, err)
	require.Equal(t, uint64(7), o.ID)
	require.Equal(t, "000000000000001f=https://10.77.0.4:2380,master-1=https://10.77.0.1:2380,master-2=https://10.77.0.2:2380", o.InitialCluster())
}

// etcd-members.service may not look into the data of etcd.
func TestWhoKeepsTheMembersNeedsNothingOfTheData(t *testing.T) {
	m := mastertest.New(t, "master-1")
	require.NoError(t, os.MkdirAll(filepath.Dir(m.Root.At(origin.Data)), 0o755))
	require.NoError(t, os.WriteFile(m.Root.At(origin.Data), nil, 0o600)) // what reads below it fails
	_, err := newEntrant(m)
	require.NoError(t, err)
}
