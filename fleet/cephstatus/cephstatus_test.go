package cephstatus

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheAnswerIsPutTogetherOfItsParts(t *testing.T) {
	var parts []json.RawMessage
	for _, text := range []string{
		`{"status":{"health":{"status":"HEALTH_WARN","checks":{"OSD_DOWN":{"severity":"HEALTH_WARN","summary":{"message":"1 osds down"}}}},"quorum_names":["a","b"]}}`,
		`{"monitors":{"all":["a","b","c"],"quorum":["a","b"],"leader":"a"}}`,
		`{"osds":{"nodes":[{"id":-2,"name":"a","type":"host"}]}}`,
		`{"osds":{"nodes":[{"id":0,"name":"osd.0","type":"osd","status":"up","reweight":1,"kb":1024,"kb_used":512,"pgs":7}]}}`,
		`{"pools":{"pools":[{"name":"p","stats":{"stored":5,"max_avail":15,"percent_used":0.25}}]}}`,
	} {
		parts = append(parts, json.RawMessage(text))
	}
	a, err := Read(parts)
	require.NoError(t, err)
	require.Equal(t, "1 osds down", a.Status.Health.Checks["OSD_DOWN"].Summary.Message)
	require.Equal(t, &Monitors{All: []string{"a", "b", "c"}, Quorum: []string{"a", "b"}, Leader: "a"}, a.Monitors)
	require.Len(t, a.OSDs.Nodes, 2)
	require.Equal(t, 512.0, a.OSDs.Nodes[1].KBUsed)
	require.Equal(t, 0.25, a.Pools.Pools[0].Stats.Percent)
	_, err = Read([]json.RawMessage{json.RawMessage(`{"status":7}`)})
	require.ErrorContains(t, err, "the answer is malformed")
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"osds":{"nodes":[{"id":0,"kb":1e308}]}}`))
	f.Add([]byte(`{"status":{"health":{"checks":{"":{}}}},"monitors":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if a, err := Read([]json.RawMessage{data}); err == nil {
			require.LessOrEqual(t, len(a.OSDs.Nodes), len(data))
		}
	})
}
