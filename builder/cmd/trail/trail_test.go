package trail

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/fleet/trail"
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

func TestTheTableShowsWhoDidWhat(t *testing.T) {
	forced := at("1", 5, nodeapi.Begun, "")
	forced.Force, forced.DryRun, forced.User = "kafka", true, "b\x1b[2J\tx"
	var b strings.Builder
	require.NoError(t, print(&b, trail.Merge(map[string][]nodeapi.TrailRecord{"edge-1": {
		forced, at("2", 7, nodeapi.Begun, ""), at("2", 8, nodeapi.Erred, "no such unit"),
	}})))
	require.Equal(t, `TIME                  NODE    USER        ROLE      CERTIFICATE    FROM        CALL                                      RESULT                                                REMARKS
2026-11-26T01:05:00Z  edge-1  b\x1b[2J x  operator  4f3c2b1a09f8…  10.0.0.1:5  restart unit=kafka force=kafka (dry run)  not known: it goes on, or the node stopped meanwhile  -
2026-11-26T01:07:00Z  edge-1  anna        operator  4f3c2b1a09f8…  10.0.0.1:5  restart unit=kafka                        failed: no such unit                                  -
`, b.String())
}
