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
