package metrics

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
)

func TestWhereTheDataAreAndWhatTheyMayFill(t *testing.T) {
	disk := []spec.Disk{{Use: "state"}, {Use: Use}}
	for name, tt := range map[string]struct {
		disks       []spec.Disk
		size        string
		data, bound string
	}{
		"on the state":                        {nil, "", "/var/lib/victoria-metrics", "0"},
		"on the state, with a size":           {[]spec.Disk{{Use: "state"}, {Use: "kafka"}}, "20GiB", "/var/lib/victoria-metrics", "21474836480"},
		"on a disk, whose size bounds them":   {disk, "", "/var/lib/metrics-disks/1/victoria-metrics", "80%"},
		"on a disk, with a size of their own": {disk, "20GiB", "/var/lib/metrics-disks/1/victoria-metrics", "21474836480"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &facts.Cluster{Services: spec.Services{&Settings{Size: tt.size}}}
			require.Equal(t, map[string]string{
				"VICTORIA_METRICS_RETENTION": "30d", "VICTORIA_METRICS_SIZE": tt.bound, "VICTORIA_METRICS_DATA": tt.data,
			}, variables(c, &facts.Node{Name: "observer-01", Disks: tt.disks}, 0))
		})
	}
}
