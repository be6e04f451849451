//go:build e2e

package services

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"spore/agent/metrics/ask"
	"spore/agent/metrics/service"
	"spore/agent/metrics/source"
	"spore/agent/paths"
	"spore/services/metrics"
	"spore/services/metrics/rules"
	"spore/test/testca"
)

// collected is what the node's collector tells of the programs of the role, as a store takes it.
func (a *alerting) collected() (text func() string, families func() []*dto.MetricFamily) {
	a.t.Helper()
	root := paths.Root(a.t.TempDir())
	at := map[string]string{metrics.Evaluator: a.evaluator, metrics.Manager: a.manager, metrics.Bridge: a.bridge}
	var endpoints []service.Endpoint
	var q ask.Question
	for _, e := range service.Endpoints() {
		if at[e.Program] == "" {
			continue
		}
		e.URL = "http://" + at[e.Program] + "/metrics"
		endpoints, q.Programs = append(endpoints, e), append(q.Programs, e.Program)
		secret := root.At(filepath.Join(paths.Secrets, e.Program, metrics.AlertsPassword))
		require.NoError(a.t, os.MkdirAll(filepath.Dir(secret), 0o700))
		require.NoError(a.t, os.WriteFile(secret, a.secrets[metrics.AlertsPassword], 0o600))
	}
	require.Len(a.t, endpoints, len(at))
	sources := source.New(service.Sources(root, endpoints), time.Now, func(string) {})
	families = func() []*dto.MetricFamily {
		all, _ := sources.Gather(a.t.Context(), q) // What does not answer yet is missing.
		return all
	}
	return func() string {
		var b bytes.Buffer
		for _, f := range families() {
			_, _ = expfmt.MetricFamilyToText(&b, f) // A buffer takes everything.
		}
		return b.String()
	}, families
}

// highest is the most memory that a process had, in MiB.
func highest(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	require.True(t, found)
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return n >> 10
}

// ownRules are rules of a plant as validate takes them.
func ownRules(t *testing.T, text string) metrics.RuleFile {
	t.Helper()
	_, err := rules.Parse("own.yaml", []byte(text))
	require.NoError(t, err)
	return metrics.RuleFile{Name: "plant-own.yaml", Text: text}
}

// Rules that match everything, of which one finds more than vmalert keeps and the other more than the store answers:
// both are told of as rules that fail, and all else goes on within the memory of its unit. Receivers that are away are
// told of, too, by those that are not.
func TestARuleThatMatchesEverything(t *testing.T) {
	ca, err := testca.New("test")
	require.NoError(t, err)
	people, webhook := hook(t)
	gone := httpStatus(t, http.StatusNotFound)
	a := newAlerting(t, "observer-01", &metrics.Alerts{
		Wait: 1, Receivers: []metrics.Receiver{
			{Name: "shift", Severities: []string{"warning", "info"}, Webhook: &metrics.Endpoint{URL: webhook}},
			{Name: "gone", Webhook: &metrics.Endpoint{URL: gone}},
		},
	}, ca)
	told := metrics.AlertsOf(a.cluster.Services)
	told.Rules = append(slices.Clone(told.Rules), ownRules(t, `
groups:
  - name: everything
    rules:
      - alert: MatchesMuch
        expr: filler{job="many",n=~"1.*"} >= 0
        labels: {severity: critical}
        annotations: {summary: "{{ $labels.n }} of {{ $labels.instance }} is there", description: "{{ $value | humanize }}"}
      - alert: MatchesAll
        expr: '{__name__!=""}'
        labels: {severity: critical}
        annotations: {summary: "{{ $labels.n }} of {{ $labels.instance }} is there", description: "{{ $value | humanize }}"}
`))
	node, families := a.collected()
	const many = 60_000
	var page bytes.Buffer
	for i := range many {
		fmt.Fprintf(&page, "filler{n=\"%d\",place=\"a place of the plant with a long name\",line=\"%d\"} 1\n", i, i%7)
	}
	var celsius atomic.Int64
	celsius.Store(60)
	store := newMetricsStore(t, ca, map[string]int{"observer-01": scraped(t, ca, node)}, []metrics.Job{
		{Name: "many", Series: many, Targets: []string{plain(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page.Bytes()) })}},
		{Name: "press", Targets: []string{plain(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "press_oil_celsius %d\n", celsius.Load())
		})}},
	})
	store.args = append(store.args, "-search.latencyOffset=1s", "-search.disableCache")
	store.start()
	a.store = store.at.Address
	a.runBridge()
	manager := a.runManager()
	evaluator, _ := a.runEvaluator(filepath.Dir(filepath.Dir(filepath.Dir(store.args[0]))))

	t.Run("the collector reads all that the programs tell", func(t *testing.T) {
		store.becomes(`count(alertmanager_alerts{job="node",instance="observer-01",program="alertmanager",state="active"})`, "1")
		have := map[string]bool{}
		series := 0
		for _, f := range families() {
			have[f.GetName()] = true
			series += len(f.Metric)
		}
		for _, program := range []string{metrics.Evaluator, metrics.Manager, metrics.Bridge} {
			for _, f := range service.Table()[program] {
				if strings.HasPrefix(f.Name, "alertmanager_cluster_") {
					continue // It has no other one.
				}
				require.True(t, have[f.Name], "%s does not tell %s", program, f.Name)
			}
		}
		t.Logf("%d series", series)
		require.Less(t, series, 500)
		lint(t, families())
	})
	t.Run("rules that fail are told of, each by its name", func(t *testing.T) {
		people.hears(t, "firing RuleFails observer-01")
		require.Eventually(t, func() bool {
			_, body := a.ask(a.manager, "/api/v2/alerts", "")
			return strings.Contains(body, `"rule":"MatchesMuch"`) && strings.Contains(body, `"rule":"MatchesAll"`)
		}, time.Minute, time.Second)
		_, body := a.ask(a.manager, "/api/v2/alerts", "")
		require.NotContains(t, body, `"alertname":"Matches`)
		require.Equal(t, 2, strings.Count(body, `"alertname":"RuleFails"`), "other rules do not fail")
		_, body = a.ask(a.evaluator, "/api/v1/rules", "")
		require.Contains(t, body, "exec exceeded limit of 500 with 11111 alerts")
		require.Contains(t, body, "-search.maxResponseSeries=20000")
	})
	t.Run("others go on", func(t *testing.T) {
		celsius.Store(95)
		people.hears(t, "firing PressTooHot")
		celsius.Store(60)
		people.hears(t, "resolved PressTooHot")
	})
	t.Run("a receiver that fails is told of to one that wants no critical alerts", func(t *testing.T) {
		people.hears(t, "firing ReceiverFails observer-01")
		require.Zero(t, people.count("Matches"), people.all())
		require.Equal(t, "1", store.value(`count(ALERTS{alertname="ReceiverFails",alertstate="firing",receiver_name="gone"})`))
		require.Equal(t, "1", store.value(`count(ALERTS{alertname="ReceiverFails",alertstate="firing"})`))
	})
	t.Run("within the memory of their units", func(t *testing.T) {
		for unit, mib := range map[string]int{metrics.EvaluatorUnit: highest(t, evaluator), metrics.ManagerUnit: highest(t, manager)} {
			t.Logf("%s: at most %d MiB", unit, mib)
			text, err := os.ReadFile("../../units/" + unit)
			require.NoError(t, err)
			_, rest, found := strings.Cut(string(text), "\nMemoryMax=")
			require.True(t, found, unit)
			bound, err := strconv.Atoi(rest[:strings.Index(rest, "M\n")])
			require.NoError(t, err)
			require.Less(t, 2*mib, bound, "%s has less than twice of what it takes", unit)
		}
	})
}

// httpStatus is a server that answers with a status.
func httpStatus(t *testing.T, code int) string {
	t.Helper()
	return "http://" + plain(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

// pending is what vmalert says of an alert.
type pending struct{ State, ActiveAt string }

// alert is an alert of vmalert, or empty.
func (a *alerting) alert(name string) pending {
	a.t.Helper()
	_, body := a.ask(a.evaluator, "/api/v1/alerts", "")
	var answer struct {
		Data struct {
			Alerts []struct {
				Name string
				pending
			}
		}
	}
	_ = json.Unmarshal([]byte(body), &answer) // It may be about to begin.
	for _, one := range answer.Data.Alerts {
		if one.Name == name {
			return one.pending
		}
	}
	return pending{}
}

// An alert whose time has begun goes on when vmalert is killed: the store has since when it is true. One that fires is
// not over because of that.
func TestAnAlertGoesOnWhereVmalertIsKilled(t *testing.T) {
	ca, err := testca.New("test")
	require.NoError(t, err)
	people, webhook := hook(t)
	a := newAlerting(t, "observer-01", &metrics.Alerts{
		Wait: 1, Receivers: []metrics.Receiver{{Name: "shift", Webhook: &metrics.Endpoint{URL: webhook}}},
	}, ca)
	const long = 30 * time.Second
	told := metrics.AlertsOf(a.cluster.Services)
	told.Rules = append(slices.Clone(told.Rules), ownRules(t, `
groups:
  - name: own
    rules:
      - alert: PressHotForLong
        expr: press_oil_celsius{job="press"} > 80
        for: 30s
        labels: {severity: warning}
        annotations: {summary: "{{ $labels.instance }} is hot"}
`))
	var celsius atomic.Int64
	celsius.Store(95)
	store := newMetricsStore(t, ca, nil, []metrics.Job{{Name: "press", Targets: []string{plain(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "press_oil_celsius %d\n", celsius.Load())
	})}}})
	store.args = append(store.args, "-search.latencyOffset=1s", "-search.disableCache")
	store.start()
	a.store = store.at.Address
	root := filepath.Dir(filepath.Dir(filepath.Dir(store.args[0])))
	a.runManager()
	// Alertmanager takes an alert for over that it has not heard of for four intervals: these are as long as the unit's.
	const interval = "-rule.resendDelay=30s"
	_, kill := a.runEvaluator(root, interval)

	var before pending
	require.Eventually(t, func() bool { before = a.alert("PressHotForLong"); return before.State == "pending" }, 30*time.Second, 100*time.Millisecond)
	begun, err := time.Parse(time.RFC3339, before.ActiveAt)
	require.NoError(t, err)
	store.becomes(`count(ALERTS_FOR_STATE{alertname="PressHotForLong"})`, "1")
	time.Sleep(time.Until(begun.Add(long / 2)))
	kill()
	require.Zero(t, people.count("PressHotForLong"))
	_, kill = a.runEvaluator(root, interval)

	t.Run("it fires when its time is over, which has begun before", func(t *testing.T) {
		people.hears(t, "firing PressHotForLong")
		require.GreaterOrEqual(t, time.Since(begun), long)
		require.Equal(t, begun.Unix(), activeAt(t, a.alert("PressHotForLong")).Unix())
	})
	t.Run("it fires on, and nobody is told of that again", func(t *testing.T) {
		kill()
		time.Sleep(3 * time.Second)
		_, kill = a.runEvaluator(root, interval)
		require.Eventually(t, func() bool { return a.alert("PressHotForLong").State == "firing" }, time.Minute, 100*time.Millisecond)
		require.Equal(t, begun.Unix(), activeAt(t, a.alert("PressHotForLong")).Unix())
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, people.count("firing PressHotForLong"), people.all())
		require.Zero(t, people.count("resolved PressHotForLong"), people.all())
	})
	t.Run("it ends once", func(t *testing.T) {
		celsius.Store(60)
		people.hears(t, "resolved PressHotForLong")
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, people.count("resolved PressHotForLong"), people.all())
		require.Equal(t, 1, people.count("firing PressHotForLong"), people.all())
	})
}

func activeAt(t *testing.T, p pending) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, p.ActiveAt)
	require.NoError(t, err)
	return at
}
