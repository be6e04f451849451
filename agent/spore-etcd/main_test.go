package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/command"
	"spore/services/kubernetes/etcd/backup"
	"spore/services/kubernetes/etcd/master/mastertest"
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
	for line, want := range map[string]backup.Options{
		"":                                {},
		"--latest":                        {},
		"--latest --yes":                  {Yes: true},
		"--from /var/a.age --yes":         {From: "/var/a.age", Yes: true},
		"--give-up-quorum --from x":       {From: "x", GiveUp: true},
		"--resume":                        {Resume: true},
		"--yes --give-up-quorum --latest": {Yes: true, GiveUp: true},
	} {
		var got backup.Options
		read := readRestore(func(_ context.Context, o backup.Options) error { got = o; return nil })
		one := command.Table{Program: "x", Commands: []command.Command{{Name: "restore", About: "x", Read: read}}}
		require.NoError(t, one.Dispatch(t.Context(), append([]string{"restore"}, strings.Fields(line)...), new(bytes.Buffer)), line)
		require.Equal(t, want, got, line)
	}
}
