package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

func TestHowOldTheLastSnapshotIs(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	have := func(age time.Duration) *Snapshots {
		return &Snapshots{Every: time.Hour, Count: 3, Newest: now.Add(-age), By: "m"}
	}
	for _, tt := range []struct {
		name   string
		in     *Snapshots
		want   nodeapi.State
		reason string
	}{
		{"no master", nil, "", ""},
		{"it cannot be read", &Snapshots{Problem: "no permission"}, nodeapi.Warning, "no permission"},
		{"none yet", &Snapshots{Every: time.Hour}, nodeapi.Warning, "no snapshot of etcd yet"},
		{"in time", have(59 * time.Minute), nodeapi.OK, "3 of etcd, the last 59m0s ago by m"},
		{"another master's turn", have(89 * time.Minute), nodeapi.OK, "1h29m0s ago"},
		{"overdue", have(91 * time.Minute), nodeapi.Warning, "one is due every 1h0m0s"},
	} {
		got, reason := snapshots(Input{Now: now, Snapshots: tt.in})
		require.Equal(t, tt.want, got, tt.name)
		require.Contains(t, reason, tt.reason, tt.name)
	}
}
