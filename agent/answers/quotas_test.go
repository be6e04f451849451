package answers

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/health"
	"spore/agent/nodetest"
	"spore/agent/quota"
)

func TestOnlyDirectoriesThatAreThereAreHeldToTheirQuota(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	limits := []quota.Limit{{Path: "/var/lib/recorder", Bytes: 1 << 20}, {Path: "/var/lib/later", Bytes: 1 << 20}}
	require.NoError(t, os.MkdirAll(m.Root.At("/var/lib/recorder"), 0o755))
	got := quotasOf(m, limits)
	require.Len(t, got, 1)
	require.NotZero(t, got[0].Is.Bytes)
	require.Equal(t, health.Quota{Path: "/var/lib/recorder", Bytes: 1 << 20, Is: got[0].Is}, got[0])
	require.Empty(t, quotasOf(m, nil))
}
