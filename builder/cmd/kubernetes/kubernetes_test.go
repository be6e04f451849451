package kubernetes

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsNotWellIsARowEach(t *testing.T) {
	var out strings.Builder
	require.NoError(t, show(&out, "m", []json.RawMessage{
		json.RawMessage(`{"nodes":[{"name":"a","ready":"True","version":"v1"}]}`),
		json.RawMessage(`{"nodes":[{"name":"b\u001b","ready":"False","why":"Kubelet\nstopped","pressure":["DiskPressure"],"cordoned":true}],
			"counts":[{"kind":"Deployment","all":3,"well":2}],"behind":[{"kind":"Deployment","namespace":"n","name":"web","wanted":3,"ready":1}],
			"pods":[{"namespace":"n","name":"web-1","phase":"Pending","why":"Unschedulable"}],
			"volumes":[{"kind":"PersistentVolume","name":"pv","state":"Failed"}],"more":["pods that are not well"]}`),
	}))
	var rows []string
	for line := range strings.Lines(out.String()) {
		if row := strings.Join(strings.Fields(line), " "); row != "" {
			rows = append(rows, row)
		}
	}
	require.Equal(t, []string{
		"NODE READY VERSION WHAT IS WRONG", "a True v1 -", `b\x1b False - Kubelet stopped; DiskPressure; cordoned`,
		"KIND ALL WELL", "Deployment 3 2", "LACKS PODS KIND READY", "n/web Deployment 1 of 3",
		"POD NODE PHASE RESTARTS WHY LAST END", "n/web-1 - Pending 0 Unschedulable -",
		"VOLUME KIND STATE CLASS SIZE WHY", "pv PersistentVolume Failed - - -", "There are more: pods that are not well",
	}, rows)
	require.ErrorContains(t, show(&out, "m", []json.RawMessage{json.RawMessage(`[]`)}), "malformed")
}
