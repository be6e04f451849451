//go:build e2e

package services

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"spore/agent/metrics/family"
	"spore/agent/metrics/machine"
	"spore/services/metrics"
	"spore/test/grafana"
	"spore/test/testca"
)

// Each query of each dashboard in docs/grafana finds data in the store, of what real programs told; what those have
// nothing of, because nothing has happened or the machine has no such part, is found in what was written by hand.
func TestEachPanelFindsData(t *testing.T) {
	dashboards, err := grafana.Load("../../docs/grafana")
	require.NoError(t, err)
	ca, err := testca.New("agent")
	require.NoError(t, err)
	s := newMetricsStore(t, ca, nil, nil)
	s.start()

	// Samples of the last 30 seconds are not shown yet (-search.latencyOffset).
	now := time.Now().Add(-time.Minute)
	here := [2]string{machineTells(t), machineTells(t)}
	for _, told := range []struct {
		instance string
		answers  []string
	}{
		{"master-01", []string{"control-plane", "felix", "ceph"}}, {"edge-01", []string{"dns", "mqtt"}}, {"observer-01", nil},
		{"made", []string{"made"}},
	} {
		// The first moment twice and the second twice, 15 seconds apart, so that counters have a slope.
		for i, ago := range []int{45, 30, 15, 0} {
			text := "up 1\n"
			for _, who := range told.answers {
				answer, err := grafana.Answer(who, 1+i/2)
				require.NoError(t, err)
				text += answer
			}
			s.take(told.instance, grafana.At(text+here[i/2], now.Add(-time.Duration(ago)*time.Second).UnixMilli()))
		}
	}
	find := func(expr string) (found []map[string]string, _ error) {
		all, err := s.query(map[string]string{"query": expr, "until": strconv.FormatInt(now.Unix(), 10)})
		for _, one := range all {
			found = append(found, one.Labels)
		}
		return found, err
	}
	require.Eventually(t, func() bool { up, err := find("up == 1"); return err == nil && len(up) == 4 },
		30*time.Second, 200*time.Millisecond)

	for name, tt := range map[string]struct {
		evidence  grafana.Evidence
		instances string
	}{
		"recorded": {grafana.Recorded, "master-01|edge-01|observer-01"},
		"made":     {grafana.Made, "made"},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]string{"instance": tt.instances, "job": "node"}
			require.Empty(t, tt.evidence.Silent(dashboards, values, find))
		})
	}
	t.Run("a node that is not there shows nothing", func(t *testing.T) {
		values := map[string]string{"instance": "nobody", "job": "node"}
		queries := 0
		for i := range dashboards {
			for _, expr := range dashboards[i].Queries() {
				found, err := find(grafana.Expand(expr, values))
				require.NoError(t, err)
				require.Empty(t, found, expr)
				queries++
			}
		}
		t.Logf("%d queries", queries)
	})
}

// take puts samples into the store as those of a node.
func (s *metricsStore) take(instance, text string) {
	s.t.Helper()
	labels := url.Values{"extra_label": {"job=node", "instance=" + instance}}
	to := "http://" + s.at.Address + "/api/v1/import/prometheus?" + labels.Encode()
	r, err := http.NewRequest(http.MethodPost, to, strings.NewReader(text))
	require.NoError(s.t, err)
	r.SetBasicAuth(metrics.User, "swordfish")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusNoContent, answer.StatusCode, "%s", body)
}

// machineTells is what the collector measures of the machine below the test.
func machineTells(t *testing.T) string {
	t.Helper()
	sink := family.NewSink(machine.Families())
	if err := machine.New("/").Measure(t.Context(), sink); err != nil {
		t.Log(err) // what this machine does not have
	}
	all, _ := sink.Families()
	var text bytes.Buffer
	for _, f := range all {
		_, err := expfmt.MetricFamilyToText(&text, f)
		require.NoError(t, err)
	}
	return text.String()
}
