package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/command"
	"spore/agent/nodetest"
)

func TestWrongUsageSaysWhatToWrite(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	for _, line := range []string{
		"", "nonsense", "detect --x", "detect x", "probe x", "run x", "bundle x", "bundle --ask x", "status -x", "status x", "enroll x", "renew x", "sign x", "api x", "time x", "trial x",
		"revoke x", "images x", "state x", "state adopt", "state adopt /dev/sda", "state adopt /dev/sda 1 2", "mount x", "osd", "osd 1 2",
		"disks", "disks state", "disks kafka x", "disks reset /dev/vdb",
		"reset", "reset S1", "reset --disk", "reset --disk /dev/sda", "reset --disk S1 x", "reset --disks S1",
		"install", "install A B", "install --unattended A", "install --unattended --erase-state A", "install --unattended --node a", "install --what", "install /dev/sda",
		"stage-config", "stage-config a b", "stage-config --spool a", "stage-config --reboot",
		"render", "render -- /x", "render etcd kafka", "render etcd kafka -- /x", "render etcd --", "render -x",
		"ceph x", "ceph-mon x", "ceph-quorum x", "kafka x", "kafka-format x", "kafka-ready x", "metrics-ready x",
		"formation", "formation x", "formation show x", "formation force", "formation force kafka --lose", "formation force mqtt", "formation force kafka x",
		"etcd-member x", "kubernetes x", "kubernetes-node x", "kubernetes-ready", "kubernetes-ready a b", "kubernetes-ready a b c d", "kubernetes-network x",
	} {
		err := table(m).Dispatch(t.Context(), strings.Fields(line), new(bytes.Buffer))
		require.Equal(t, 2, command.Status(err), "%q: %v", line, err)
		require.Regexp(t, "(?i)usage: spore-agent ", err.Error(), line)
	}
	require.Equal(t, 2, command.Status(table(m).Dispatch(t.Context(), arguments([]string{"/usr/sbin/mount.spore", "x"}), new(bytes.Buffer))))
}

func TestEachCommandHasHelp(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	require.NoError(t, table(m).Dispatch(t.Context(), []string{"--help"}, new(bytes.Buffer)))
	for _, c := range table(m).Commands {
		if c.Name == "etcd" {
			continue // Another program reads what follows.
		}
		var out bytes.Buffer
		require.NoError(t, table(m).Dispatch(t.Context(), append(strings.Fields(c.Name), "--help"), &out), c.Name)
		require.Contains(t, out.String(), "Usage: spore-agent "+c.Name, c.Name)
		require.Contains(t, out.String(), "\nExample: ", c.Name)
	}
}

// What units call is read as they write it.
func TestUnitsCallCommandsThatThereAre(t *testing.T) {
	units, err := filepath.Glob("../units/*.service")
	require.NoError(t, err)
	m, _ := nodetest.New(t, 1)
	names := map[string]bool{}
	for _, c := range table(m).Commands {
		names[c.Name] = true
	}
	calls := 0
	for _, unit := range units {
		data, err := os.ReadFile(unit)
		require.NoError(t, err)
		for _, call := range regexp.MustCompile(`(?m)^Exec\w+=\+?/usr/bin/spore-agent (\S+)`).FindAllStringSubmatch(string(data), -1) {
			calls++
			require.True(t, names[call[1]], "%s calls %s", unit, call[1])
		}
	}
	require.Greater(t, calls, 30)
}
