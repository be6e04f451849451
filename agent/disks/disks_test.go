package disks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/datadisk"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/repart"
	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/services"
)

func TestWhoseDisksAre(t *testing.T) {
	l, err := services.With([]services.Definition{
		&role.Definition{Name: "historian", Units: []string{"a.service", "b.timer"}, User: &role.User{Name: "hist"}, Disks: &role.Disks{Use: "historian", At: "/var/lib/historian-disks"}},
		&role.Definition{Name: "gateway", Units: []string{"c.service"}, User: &role.User{Name: "gateway"}},
	})
	require.NoError(t, err)
	c := &facts.Cluster{Roles: l.Facts()}
	for use, want := range map[string]owner{
		"kafka": {"kafka", "/var/lib/kafka/disks", []accountDir{{"log", "kafka"}}, []string{"kafka.service"}},
		"osd":   {account: "ceph"},
		"metrics": {
			"root", "/var/lib/metrics-disks", []accountDir{{"victoria-metrics", "victoria-metrics"}}, []string{"victoria-metrics.service"},
		},
		"logs": {
			"root", "/var/lib/logs-disks", []accountDir{{"victoria-logs", "victoria-logs"}, {"spore-logs-store", "spore-logs-store"}},
			[]string{"victoria-logs.service", "spore-logs-store.service"},
		},
		"historian": {"hist", "/var/lib/historian-disks", []accountDir{{"data", "hist"}}, []string{"a.service", "b.service"}},
	} {
		got, err := whose(c, use)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Equal(t, []string{"kafka", "logs", "metrics", "osd", "historian"}, Uses(c))
	for _, use := range []string{"gateway", "mqtt", "none"} {
		_, err := whose(c, use)
		require.EqualError(t, err, fmt.Sprintf("prepare the disks for %q: no service and no role with disks is called so", use))
	}
}

func TestTheStatusShowsEachDiskAndTheNumberOfItsOSD(t *testing.T) {
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	require.Empty(t, All(m))
	require.NoError(t, datadisk.Write(m.Root, datadisk.Kafka, []datadisk.Info{{Use: "kafka", Number: 1}}))
	require.NoError(t, datadisk.Write(m.Root, datadisk.OSD, []datadisk.Info{{Use: "osd", Number: 1}, {Use: "osd", Number: 2}, {Use: "osd", Number: 3, Problem: "gone"}}))
	file := m.Root.At(paths.OSDs + "/2/osd.env")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("OSD_ID=7\n"), 0o644))
	disks := All(m)
	require.Len(t, disks, 4)
	require.Nil(t, disks[1].OSD, "it has none yet")
	require.Equal(t, 7, *disks[2].OSD)
	require.Equal(t, []string{"ceph-osd-disk@1.service", "ceph-osd-disk@2.service"}, OSDUnits(disks), "Kafka's disk and the one that is gone have none")
	require.NoError(t, os.WriteFile(file, []byte("nonsense"), 0o644))
	require.Nil(t, All(m)[2].OSD)
}

// Units of several uses run at the same time: one without its definitions would write an empty table.
func TestUsesThatArePreparedAtTheSameTimeHaveDefinitionsOfTheirOwn(t *testing.T) {
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	c, n := &facts.Cluster{ID: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11"}, &facts.Node{Name: "a"}
	read := map[string]string{}
	run := func(use string, during func()) {
		o := options(m, c, n, use)
		require.Equal(t, use, o.Use)
		require.NoError(t, repart.Run(t.Context(), repart.Options{
			Files: map[string]string{"10-data.conf": use}, Definitions: o.Definitions, Temp: t.TempDir(), Say: func(string) {},
			Exec: func(_ context.Context, _ []string, name string, args ...string) error {
				if name != "systemd-repart" {
					return nil
				}
				during()
				for _, a := range args {
					if dir, is := strings.CutPrefix(a, "--definitions="); is {
						data, err := os.ReadFile(filepath.Join(dir, "10-data.conf"))
						require.NoError(t, err)
						read[use] = string(data)
					}
				}
				return nil
			},
		}))
	}
	run("historian", func() { run("kafka", func() {}) })
	require.Equal(t, map[string]string{"historian": "historian", "kafka": "kafka"}, read)
	require.Empty(t, datadisk.Uses(m.Root), "definitions are no use")
}
