package dashboard

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

func TestANodesPageHasWhatItSays(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.says("edge-01", func(a *answer) {
		a.status.Services["kafka.service"] = "failed"
		a.status.Failed = []string{"kafka.service", "other.service"}
		a.status.Held = []nodeapi.Held{{Role: "kafka-broker", Reason: "it waits for its bundle"}}
		a.status.Configuration.Trial = true
	})
	p.round()
	code, text := p.page(t, "/nodes/edge-01")
	require.Equal(t, http.StatusOK, code)
	for _, want := range []string{"mosquitto.service", "critical: failed", "other.service", "0123456789ab", "7, on trial", "mosquitto 2.0.21", "10.77.0.16"} {
		require.Contains(t, text, want)
	}
	_, text = p.page(t, "/")
	require.Contains(t, text, "kafka-broker: it waits for its bundle")
	code, text = p.page(t, "/nodes/edge-99")
	require.Equal(t, http.StatusNotFound, code)
	require.Contains(t, text, "There is no such page")
}
