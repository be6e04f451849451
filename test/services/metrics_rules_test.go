//go:build e2e

package services

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"spore/services/metrics/rules"
	"spore/services/metrics/rules/shipped"
	"spore/test/kubecluster"
)

// recordedAlert are series with which an alert fires, and others (services/metrics/rules/testdata).
type recordedAlert struct {
	Alert                  string
	Every                  string
	Series                 map[string]string
	Quiet, Fires, Resolved []string
	Labels                 map[string]string
	Below                  []map[string]string
}

// seriesPart is a part of a series in the notation of promtool.
var seriesPart = regexp.MustCompile(`^(-?[0-9.]+)([+-][0-9.]+)?(?:x([0-9]+))?$`)

// samples are the values of a series; those that are missing are not in it.
func samples(t *testing.T, text string) map[int]float64 {
	t.Helper()
	out, n := map[int]float64{}, 0
	for part := range strings.FieldsSeq(text) {
		if gap, ok := strings.CutPrefix(part, "_x"); ok {
			count, err := strconv.Atoi(gap)
			require.NoError(t, err, text)
			n += count
			continue
		}
		if part == "_" || part == "stale" {
			n++
			continue
		}
		m := seriesPart.FindStringSubmatch(part)
		require.NotNil(t, m, text)
		first, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err, text)
		step, _ := strconv.ParseFloat(m[2], 64)
		count, _ := strconv.Atoi(m[3])
		for i := range count + 1 {
			out[n] = first + step*float64(i)
			n++
		}
	}
	return out
}

// absolute are families whose values are times.
var absolute = regexp.MustCompile(`^(node_time_seconds|kubelet_pleg_last_seen_seconds|[a-z_]+_end_timestamp_seconds)\{`)

// TestTheStoreTakesRulesAsPrometheusDoes asks VictoriaMetrics for the rules that come with the image, with the series
// by which Debian's promtool has tested them. Functions such as increase differ between the two.
func TestTheStoreTakesRulesAsPrometheusDoes(t *testing.T) {
	at := emptyStore(t)
	known := map[string]rules.Rule{}
	groups, err := rules.Shipped()
	require.NoError(t, err)
	for _, g := range groups {
		for _, r := range g.Rules {
			known[r.Alert] = r
		}
	}
	// Each has days of its own, so that none sees series of another.
	const apart = 72 * time.Hour
	begin := time.Now().Add(-1000 * 24 * time.Hour).Truncate(time.Hour)
	type one struct {
		recordedAlert
		begin  time.Time
		series map[string]string
	}
	var all []one
	for _, file := range shipped.Files() {
		data, err := os.ReadFile(filepath.Join("../../services/metrics/rules/testdata", file))
		require.NoError(t, err)
		var list []recordedAlert
		require.NoError(t, yaml.Unmarshal(data, &list))
		for _, r := range list {
			for i := range len(r.Below) + 1 {
				c := one{r, begin, maps.Clone(r.Series)}
				if i > 0 {
					maps.Copy(c.series, r.Below[i-1])
					c.Quiet, c.Fires = slices.Concat(r.Quiet, r.Fires), nil
				}
				all = append(all, c)
				begin = begin.Add(apart)
			}
		}
	}
	require.True(t, begin.Before(time.Now()))
	var text bytes.Buffer
	for _, c := range all {
		for name, values := range c.series {
			for i, v := range samples(t, values) {
				if absolute.MatchString(name) {
					v += float64(c.begin.Unix())
				}
				fmt.Fprintf(&text, "%s %g %d\n", name, v, c.begin.Add(time.Duration(i)*every(t, c.Every)).UnixMilli())
			}
		}
	}
	at.post("/api/v1/import/prometheus", &text)
	at.post("/internal/force_flush", nil)
	for _, c := range all {
		rule, ok := known[c.Alert]
		require.True(t, ok, c.Alert)
		fires := func(after string) bool {
			d, ok := rules.Duration(after)
			require.True(t, ok, after)
			// It fires when it was true at each look for so long. Of many looks, a dozen are made.
			step := every(t, c.Every)
			looks := int(rule.For / step)
			for i := 0; i <= looks; i += max(1, looks/12) {
				if !at.holds(rule.Expr, c.begin.Add(d-time.Duration(i)*step)) {
					return false
				}
			}
			return at.holds(rule.Expr, c.begin.Add(d-time.Duration(looks)*step))
		}
		for _, after := range c.Fires {
			require.True(t, fires(after), "%s does not fire after %s with %v", c.Alert, after, c.series)
		}
		for _, after := range slices.Concat(c.Quiet, c.Resolved) {
			require.False(t, fires(after), "%s fires after %s with %v", c.Alert, after, c.series)
		}
	}
}

func every(t *testing.T, text string) time.Duration {
	t.Helper()
	if text == "" {
		return 30 * time.Second
	}
	d, ok := rules.Duration(text)
	require.True(t, ok, text)
	return d
}

// ruleStore is VictoriaMetrics of payloads/ with nothing in it.
type ruleStore struct {
	t  *testing.T
	at string
}

func emptyStore(t *testing.T) ruleStore {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, kubecluster.Programs(t.Context(), "../..", dir, "victoria-metrics"))
	s := ruleStore{t, net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))}
	var log bytes.Buffer
	cmd := exec.Command(filepath.Join(dir, "usr/bin/victoria-metrics"),
		"-storageDataPath="+filepath.Join(dir, "data"), "-httpListenAddr="+s.at,
		"-retentionPeriod=5y", "-memory.allowedBytes=200MB", "-search.disableCache", "-search.latencyOffset=0s")
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	require.Eventually(t, func() bool {
		r, err := http.Get("http://" + s.at + "/health")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	}, time.Minute, 50*time.Millisecond)
	return s
}

func (s ruleStore) post(path string, body io.Reader) []byte {
	s.t.Helper()
	r, err := http.Post("http://"+s.at+path, "text/plain", body)
	require.NoError(s.t, err)
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	require.NoError(s.t, err)
	require.Less(s.t, r.StatusCode, 300, "%s: %s", path, data)
	return data
}

// holds tells whether an expression has series at a time. The step is that of vmalert, by which a sample counts for
// five minutes.
func (s ruleStore) holds(expr string, at time.Time) bool {
	s.t.Helper()
	q := url.Values{"query": {expr}, "time": {strconv.FormatInt(at.Unix(), 10)}, "step": {"5m"}, "nocache": {"1"}}
	var answer struct {
		Data struct{ Result []any }
	}
	require.NoError(s.t, json.Unmarshal(s.post("/api/v1/query?"+q.Encode(), nil), &answer))
	return len(answer.Data.Result) > 0
}
