package ceph

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPartsOfTheStatusAreOneAnswer(t *testing.T) {
	var parts []json.RawMessage
	for _, part := range []string{
		`{"status":{"health":{"status":"HEALTH_WARN","checks":{"PG_DEGRADED":{"summary":{"message":"3 degraded"}}}},"quorum_names":["a","b"]}}`,
		`{"osds":{"nodes":[{"type":"host","name":"storage-01"},{"type":"osd","name":"osd.0","status":"up","reweight":1}]}}`,
		`{"osds":{"nodes":[{"type":"osd","name":"osd.1","status":"down"}]}}`,
		`{"osds":{"summary":{"total_kb":1}}}`,
		`{"pools":{"pools":[{"name":"plant"}]}}`,
	} {
		parts = append(parts, json.RawMessage(part))
	}
	var out strings.Builder
	require.NoError(t, showStatus(&out, "mon-1", parts))
	text := out.String()
	require.Equal(t, 1, strings.Count(text, "HEALTH_WARN"), text)
	require.Equal(t, 1, strings.Count(text, "monitors in the quorum"), text)
	for _, want := range []string{"PG_DEGRADED", "3 degraded", "storage-01", "osd.0", "up, in", "osd.1", "down, out", "pool plant"} {
		require.Contains(t, text, want)
	}

	out.Reset()
	require.NoError(t, showStatus(&out, "mon-1", parts[:1]), "the manager did not answer")
	require.Contains(t, out.String(), "HEALTH_WARN")
	require.NotContains(t, out.String(), "osd.")
	require.ErrorContains(t, showStatus(&out, "mon-1", []json.RawMessage{json.RawMessage(`[]`)}), "malformed")
}
