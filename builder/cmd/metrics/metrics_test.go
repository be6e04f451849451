package metrics

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/verb"
)

func TestAQueryIsOfAMomentOrOfATime(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		at   moments
		want map[string]string
		err  string
	}{
		"now":                     {want: map[string]string{"query": "up"}},
		"a moment":                {at: moments{until: "2026-11-24T11:00:00Z"}, want: map[string]string{"query": "up", "until": "1795518000"}},
		"a time":                  {at: moments{since: "90m", step: time.Minute}, want: map[string]string{"query": "up", "from": "1795516200", "step": "60"}},
		"days":                    {at: moments{since: "3d", until: "1h"}, want: map[string]string{"query": "up", "from": "1795262400", "until": "1795518000"}},
		"no time":                 {at: moments{since: "yesterday"}, err: `"yesterday" is not a time; write 2026-11-24T12:00:00Z, or how long ago, such as 90m or 3d`},
		"in the future":           {at: moments{since: "-1h"}, err: `"-1h" is not a time; write 2026-11-24T12:00:00Z, or how long ago, such as 90m or 3d`},
		"a step of no time":       {at: moments{step: time.Minute}, err: "--step is for a time with a begin; give --since, too"},
		"a step of half a second": {at: moments{since: "1h", step: 500 * time.Millisecond}, err: "--step 500ms is not whole seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.at.order("up", now)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got.Arguments)
			require.NoError(t, verb.Row("metrics-query").Check(got))
		})
	}
}

func TestSeriesAreShownAsPromQLHasThem(t *testing.T) {
	parts := []json.RawMessage{
		json.RawMessage(`[{"labels":{"__name__":"up","job":"node","instance":"edge-01"},"samples":[{"at":1,"value":"1"}]},
			{"samples":[{"at":1,"value":"42"}]},{"labels":{"__name__":"x\u001b[2J","a":"\u001b]0;\"\n"},"samples":[{"at":1,"value":"NaN"}]}]`),
		json.RawMessage(`[{"labels":{"__name__":"up"},"samples":[{"at":1795518000,"value":"1"},{"at":1795518030.5,"value":"0"}]},{"labels":{"a":"b"},"samples":[]}]`),
	}
	var out strings.Builder
	require.NoError(t, show(&out, "observer-01", parts))
	require.Equal(t, `up{instance="edge-01", job="node"}  1
{}                                  42
x\x1b[2J{a="\x1b]0;\"\n"}           NaN
up
  2026-11-24T11:00:00Z  1
  2026-11-24T11:00:30Z  0
{a="b"}
`, out.String())
	require.ErrorContains(t, show(&out, "observer-01", []json.RawMessage{json.RawMessage(`{}`)}), "malformed")
}
