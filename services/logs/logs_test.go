package logs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
)

func TestWhereEntriesAreAndWhatTheyMayFill(t *testing.T) {
	disk := []spec.Disk{{Use: "state"}, {Use: Use}}
	for name, tt := range map[string]struct {
		disks       []spec.Disk
		size        string
		data, bound string
	}{
		"on the state":                        {[]spec.Disk{{Use: "metrics"}}, "", "/var/lib/victoria-logs", "0"},
		"on a disk, whose size bounds them":   {disk, "", "/var/lib/logs-disks/1/victoria-logs", "80%"},
		"on a disk, with a size of their own": {disk, "20GiB", "/var/lib/logs-disks/1/victoria-logs", "21474836480"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &facts.Cluster{Services: spec.Services{&Settings{Size: tt.size}}}
			require.Equal(t, map[string]string{
				"VICTORIA_LOGS_DAYS": "30", "VICTORIA_LOGS_SIZE": tt.bound, "VICTORIA_LOGS_DATA": tt.data,
			}, variables(c, &facts.Node{Name: "observer-01", Disks: tt.disks}, 0))
		})
	}
}
