package kafka

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATopicInSeveralPartsIsOneRow(t *testing.T) {
	one := `{"leader":1,"replicas":[1,2],"inSync":[1,2]}`
	behind := `{"leader":-1,"replicas":[1,2,3],"inSync":[1]}`
	var parts []json.RawMessage
	for _, part := range []string{
		`[{"name":"a","partitions":[` + one + `]},{"name":"b","partitions":[` + one + `,` + behind + `]}]`,
		`[{"name":"b","partitions":[` + one + `]}]`,
		`[{"name":"b","partitions":[` + behind + `]},{"name":"c","problem":"gone","partitions":null}]`,
	} {
		parts = append(parts, json.RawMessage(part))
	}
	var out strings.Builder
	require.NoError(t, showTopics(&out, "kafka-1", parts))
	var rows []string
	for line := range strings.Lines(out.String()) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	require.Equal(t, []string{"TOPIC PARTITIONS COPIES BEHIND WITHOUT LEADER", "a 1 2 0 0", "b 4 3 2 2", "c (gone) 0 0 0 0"}, rows)

	require.NoError(t, showTopics(&out, "kafka-1", nil))
	require.ErrorContains(t, showTopics(&out, "kafka-1", []json.RawMessage{json.RawMessage(`{}`)}), "malformed")
}

func TestTheControllersAreShownByWhoLeads(t *testing.T) {
	var out strings.Builder
	require.NoError(t, showQuorum(&out, "kafka-1", []json.RawMessage{json.RawMessage(`{"leader":"kafka-1","voters":[
		{"id":1,"name":"kafka-1","behind":0,"silent":0},{"id":2,"name":"kafka-2","behind":4,"silent":1},
		{"id":3,"name":"kafka-3\u001b","behind":900,"silent":77},{"id":4,"name":"kafka-4","silent":-1}],
		"brokers":[{"name":"kafka-1","up":true},{"name":"kafka-2"}]}`)}))
	var rows []string
	for line := range strings.Lines(out.String()) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	require.Equal(t, []string{
		"CONTROLLER STATE RECORDS BEHIND LAST HEARD", "kafka-1 leads 0 -", "kafka-2 follows 4 1 s ago",
		`kafka-3\x1b is not heard 900 77 s ago`, "kafka-4 is not heard 0 -", "", "BROKER STATE", "kafka-1 up", "kafka-2 down",
	}, rows)
}
