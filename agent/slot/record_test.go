package slot

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatTheStatusSaysOfEachState(t *testing.T) {
	base := Record{Serial: 4, ClusterHash: "new", RootHash: "root", Previous: "old", BootID: "then", Starts: 2, Problem: "mosquitto.service did not come up"}
	for name, tt := range map[string]struct {
		state, runs, boot string
		want              Info
	}{
		"its record is not there yet":    {"", "new", "now", Info{ClusterHash: "new", Trial: true}},
		"taken back while it ran":        {Failed, "old", "then", Info{ClusterHash: "old", Problem: "the pushed configuration was taken back: mosquitto.service did not come up"}},
		"staged":                         {Staged, "old", "then", Info{ClusterHash: "old", Staged: "new", Other: "new"}},
		"on trial":                       {OnTrial, "new", "now", Info{ClusterHash: "new", Serial: 4, Trial: true, Other: "old"}},
		"kept":                           {Kept, "new", "now", Info{ClusterHash: "new", Serial: 4, Other: "old"}},
		"went back with a reason":        {Failed, "old", "now", Info{ClusterHash: "old", Other: "new", Problem: "went back to this configuration: mosquitto.service did not come up"}},
		"went back without":              {OnTrial, "old", "now", Info{ClusterHash: "old", Other: "new", Problem: "went back to this configuration: the pushed one was started 2 times and neither came up nor said why"}},
		"never came as far as its state": {Staged, "old", "now", Info{ClusterHash: "old", Other: "new", Problem: "went back to this configuration: the pushed one was not started, or got not as far as the node's state"}},
		"cut off while it was written":   {Staging, "old", "now", Info{ClusterHash: "old", Other: "new", Problem: "the pushed configuration was not written to its end; push it again"}},
		"another image since":            {Kept, "third", "now", Info{ClusterHash: "third"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := base
			if r.State = tt.state; r.State == "" {
				r = Record{}
			}
			tt.want.RootHash = "root"
			require.Equal(t, &tt.want, InfoOf(r, "root", tt.runs, tt.boot, true))
		})
	}
	base.State = OnTrial
	require.False(t, InfoOf(base, "root", "new", "now", false).Trial, "a cut came between the entry and the record")
	require.False(t, InfoOf(Record{}, "root", "other", "now", false).Trial, "never pushed to")
	require.Nil(t, InfoOf(base, "", "", "", false), "nothing of stage1: a container")
}
