package revocation

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

func TestWhatARevocationLeavesANode(t *testing.T) {
	revoked := []System{{"aa", "01"}, {"aa", "02"}, {"bb", "03"}, {"", ""}}
	for name, tt := range map[string]struct {
		status string
		err    error
		want   string
		bricks bool
	}{
		"nothing of it":                {`{"configuration":{"rootHash":"aa","clusterHash":"09","other":"08"}}`, nil, "", false},
		"another root":                 {`{"configuration":{"rootHash":"cc","clusterHash":"01"}}`, nil, "", false},
		"the same part of other root":  {`{"configuration":{"rootHash":"aa","clusterHash":"03","other":"09"}}`, nil, "", false},
		"what it runs, alone":          {`{"configuration":{"rootHash":"AA","clusterHash":"01"}}`, nil, "would have nothing left to start", true},
		"both":                         {`{"configuration":{"rootHash":"aa","clusterHash":"01","other":"02"}}`, nil, "would have nothing left to start", true},
		"what it runs":                 {`{"configuration":{"rootHash":"aa","clusterHash":"01","other":"09"}}`, nil, "runs what is to be revoked", false},
		"its way back":                 {`{"configuration":{"rootHash":"aa","clusterHash":"09","other":"02"}}`, nil, "would lose its way back", false},
		"its way back to another root": {`{"configuration":{"rootHash":"aa","clusterHash":"09","other":"03","otherRoot":"bb"}}`, nil, "would lose its way back", false},
		"a part beside another root":   {`{"configuration":{"rootHash":"aa","clusterHash":"09","other":"02","otherRoot":"bb"}}`, nil, "", false},
		"what it starts next":          {`{"configuration":{"rootHash":"aa","clusterHash":"09","other":"02","staged":"02"}}`, nil, "starts what is to be revoked next", false},
		"a node that names nothing":    {`{"configuration":{}}`, nil, "", false},
		"a node that is silent":        {`{}`, errors.New("no route"), "does not say what it starts: no route", false},
		"a node without the words":     {`{}`, nil, "does not say what it starts", false},
	} {
		t.Run(name, func(t *testing.T) {
			var s nodeapi.Status
			require.NoError(t, json.Unmarshal([]byte(tt.status), &s))
			got := Judge(revoked, []Answer{{Node: "edge-01", Status: s, Err: tt.err}})
			if tt.want == "" {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			require.Contains(t, got[0].Text, tt.want)
			require.Equal(t, tt.bricks, got[0].Bricks)
		})
	}
}
