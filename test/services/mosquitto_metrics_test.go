//go:build e2e

package services

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/metrics/family"
	collector "spore/agent/metrics/mqtt"
	"spore/agent/paths"
	"spore/services/mqtt"
)

// TestMetricsOfABroker has the collector read the topics of the image's mosquitto, and looks at what its user may do.
func TestMetricsOfABroker(t *testing.T) {
	b := newBroker(t, brokerKinds[0])
	b.start()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "run"), 0o755))
	require.NoError(t, os.Symlink(b.dir, filepath.Join(root, "run", "mosquitto")))
	c := collector.New(paths.Root(root))
	measure := func() map[string]float64 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		s := family.NewSink(collector.Families())
		require.NoError(t, c.Measure(ctx, s), b.log.String())
		all, errs := s.Families()
		require.Empty(t, errs)
		out := map[string]float64{}
		for _, f := range all {
			out[f.GetName()] = f.Metric[0].GetGauge().GetValue() + f.Metric[0].GetCounter().GetValue()
		}
		return out
	}
	require.Len(t, measure(), len(collector.Families()), "of each topic")

	sensor, err := b.dial("sensor", nil)
	require.NoError(t, err)
	defer sensor.Close()
	for range 3 {
		require.NoError(t, sensor.Publish("sensors/a", "12345", false))
	}
	require.Eventually(t, func() bool {
		values := measure()
		return values["mosquitto_messages_received_total"] == 3 && values["mosquitto_messages_received_bytes_total"] == 15 &&
			values["mosquitto_clients_connected"] == 2
	}, 30*time.Second, time.Second, "mosquitto counts every ten seconds")
	require.Equal(t, 1, strings.Count(b.log.String(), "u'"+mqtt.MetricsUser+"'"), "one connection for all questions")

	saves := func() int { return strings.Count(b.log.String(), "Saving in-memory database") }
	require.Positive(t, saves(), "it saves when somebody subscribes")
	before := saves()
	for range 12 { // It tells of itself every ten seconds.
		measure()
		time.Sleep(time.Second)
	}
	require.Equal(t, before, saves(), "what the collector is sent costs the disk nothing")

	password, err := os.ReadFile(filepath.Join(b.dir, mqtt.MetricsPassword))
	require.NoError(t, err)
	b.passwords[mqtt.MetricsUser] = string(password)
	user, err := b.dial(mqtt.MetricsUser, nil)
	require.NoError(t, err)
	defer user.Close()
	require.NoError(t, user.Subscribe("sensors/#"))
	require.NoError(t, user.Subscribe("$SYS/broker/uptime"))
	operator, err := b.dial("operator", nil)
	require.NoError(t, err)
	defer operator.Close()
	require.NoError(t, operator.Subscribe("sensors/#"))
	require.NoError(t, user.Publish("sensors/forged", "1", false))
	require.NoError(t, sensor.Publish("sensors/last", "1", false))
	_, err = operator.Await("sensors/last", 10*time.Second)
	require.NoError(t, err)
	require.Empty(t, operator.Messages("sensors/forged"), "the collector may write nothing")
	require.Empty(t, user.Messages("sensors/last"), "it may read nothing of clients")
	require.NotEmpty(t, user.Messages("$SYS/broker/uptime"))
	t.Run("the page has what a client is told", func(t *testing.T) { brokerOnPage(t, root, user) })
}
