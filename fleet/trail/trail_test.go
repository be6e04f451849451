package trail

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

// at is a record of a call of edge-1, so many minutes after the begin.
func at(id string, minute int, stage nodeapi.Stage, result string) nodeapi.TrailRecord {
	return nodeapi.TrailRecord{
		ID: strings.Repeat(id, 32), Stage: stage, Time: time.Date(2026, 11, 26, 1, minute, 0, 0, time.UTC), Node: "edge-1",
		User: "anna", Serial: "4f3c2b1a09f8e7d6", Role: nodeapi.Operator, From: "10.0.0.1:5", Call: "restart",
		Arguments: map[string]string{"unit": "kafka"}, Result: result,
	}
}

func TestEachCallIsShownOnceInTheOrderOfTime(t *testing.T) {
	one, first := at("1", 5, nodeapi.Begun, ""), at("2", 1, nodeapi.Begun, "")
	done := at("1", 6, nodeapi.Did, "restarted kafka")
	calls := Merge(map[string][]nodeapi.TrailRecord{
		"edge-1": {one, done, first},
		"edge-2": {one, one, first, at("2", 2, nodeapi.Erred, "no such unit")},
	})
	require.Len(t, calls, 2)
	require.Equal(t, first.ID, calls[0].ID)
	require.Equal(t, nodeapi.Erred, calls[0].Stage, "the other node knows how it ended")
	require.Equal(t, "restarted kafka", calls[1].Result)
	require.Equal(t, one.Time, calls[1].Time)
	require.Equal(t, done.Time, calls[1].Ended)
	for _, c := range calls {
		require.Equal(t, []string{"edge-1", "edge-2"}, c.Kept)
		require.False(t, c.Lost)
	}
}

func TestTheNodeItselfIsBelieved(t *testing.T) {
	false1 := at("1", 5, nodeapi.Begun, "")
	false1.User = "mallory"
	for _, other := range []string{"a", "z"} {
		calls := Merge(map[string][]nodeapi.TrailRecord{
			"edge-1": {at("1", 5, nodeapi.Begun, ""), at("1", 6, nodeapi.Did, "restarted kafka")},
			other:    {false1, at("1", 7, nodeapi.Erred, "no")},
		})
		require.Len(t, calls, 1)
		require.Equal(t, "anna", calls[0].User)
		require.Equal(t, "restarted kafka", calls[0].Result)
	}
}

func TestARecordThatOnlyAnotherNodeHasIsMarked(t *testing.T) {
	records := []nodeapi.TrailRecord{at("1", 5, nodeapi.Begun, "")}
	off := Merge(map[string][]nodeapi.TrailRecord{"edge-2": records})
	require.Equal(t, "only edge-2 has it; edge-1 does not answer", off[0].Remarks())
	lost := Merge(map[string][]nodeapi.TrailRecord{"edge-1": nil, "edge-2": records, "edge-3": records})
	require.Equal(t, "only edge-2 and edge-3 have it; edge-1 answers, and has lost it", lost[0].Remarks())
	there := Merge(map[string][]nodeapi.TrailRecord{"edge-1": records})
	require.Empty(t, there[0].Remarks())
}
