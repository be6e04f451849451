package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"spore/agent/metrics/ask"
	"spore/agent/metrics/ceph"
	"spore/agent/metrics/family"
	"spore/agent/metrics/source"
	"spore/agent/paths"
	smetrics "spore/services/metrics"
	"spore/wire/nodeapi"
)

// node is a root whose kernel is this machine's.
func node(t *testing.T) paths.Root {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"proc", "sys"} {
		require.NoError(t, os.Symlink("/"+dir, filepath.Join(root, dir)))
	}
	put := func(path, text string) {
		at := filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o600))
	}
	put(paths.Status, `{"spore":1,"cluster":"plant \"\n","node":"edge-1","roles":["mqtt-broker"],`+
		`"held":[{"role":"dns-server","reason":"x"},{"role":"dns-server","reason":"y"}],"buildTime":1700000000,`+
		`"configuration":{"rootHash":"aa","clusterHash":"bb","serial":7,"trial":true},"system":"running",`+
		`"clock":{"synchronized":true}}`)
	return paths.Root(root)
}

func question(t *testing.T, c http.Handler, q ask.Question, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	body, err := json.Marshal(q)
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodPost, ask.Path, bytes.NewReader(body))
	r.Header = header
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	return w
}

var health = []nodeapi.Condition{
	{Name: "agent", State: nodeapi.OK, Reason: "x"}, {Name: "clock", State: nodeapi.Warning, Reason: "x"},
	{Name: "units", State: nodeapi.Failing, Reason: "x"},
}

func parse(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	all, err := p.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	return all
}

// series are the values of a family, by its labels.
func series(f *dto.MetricFamily) map[string]float64 {
	out := map[string]float64{}
	for _, m := range f.GetMetric() {
		var labels []string
		for _, l := range m.Label {
			labels = append(labels, l.GetName()+"="+l.GetValue())
		}
		out[strings.Join(labels, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
	}
	return out
}

func TestTheMachineAndItsNodeAreMeasured(t *testing.T) {
	c := New(node(t), time.Now, func(string) {})
	all := parse(t, question(t, c, ask.Question{Health: health}, nil).Body.String())
	for _, name := range []string{
		"node_cpu_seconds_total", "node_memory_MemAvailable_bytes", "node_load1", "node_network_receive_bytes_total",
		"node_timex_sync_status", "node_boot_time_seconds", "node_uname_info", "node_filefd_allocated",
	} {
		require.Contains(t, all, name)
	}
	conditions := map[string]float64{"condition=agent": 0, "condition=clock": 1, "condition=units": 2}
	require.Equal(t, conditions, series(all["spore_condition"]))
	require.Equal(t, map[string]float64{"": 0}, series(all["spore_healthy"]))
	require.Equal(t, map[string]float64{"role=mqtt-broker": 1, "role=dns-server": 0}, series(all["spore_role"]))
	require.Equal(t, map[string]float64{"": 7}, series(all["spore_configuration_serial"]))
	require.Equal(t, map[string]float64{"": 1}, series(all["spore_configuration_trial"]))
	version := map[string]float64{"cluster=plant \"\n configuration=bb node=edge-1 root=aa": 1}
	require.Equal(t, version, series(all["spore_version_info"]))
}

func TestEachFamilyIsInTheTable(t *testing.T) {
	c := New(node(t), time.Now, func(string) {})
	rows := map[string]family.Family{}
	for _, f := range Families() {
		rows[f.Name] = f
		require.NotEmpty(t, f.Help, f.Name)
		require.NotEmpty(t, f.From, f.Name)
		require.True(t, strings.HasSuffix(f.Help, "."), "%s: %s", f.Name, f.Help)
	}
	for name, f := range parse(t, question(t, c, ask.Question{Health: health}, nil).Body.String()) {
		require.Contains(t, rows, name)
		require.Equal(t, rows[name].Type, f.GetType(), name)
	}
}

// OpenMetrics 1.0, Counter: its samples are called NAME_total, so that one without it would have two names.
func TestNoFamilyHasAnotherNameInOpenMetrics(t *testing.T) {
	for _, f := range Families() {
		require.False(t, f.Type == family.Counter && !strings.HasSuffix(f.Name, "_total"), f.Name)
	}
}

func TestTheFormatIsWhatTheCallerAsksFor(t *testing.T) {
	c := New(node(t), time.Now, func(string) {})
	for accept, want := range map[string]string{
		"":           "text/plain; version=0.0.4",
		"text/plain": "text/plain; version=0.0.4",
		"application/openmetrics-text;version=1.0.0": "application/openmetrics-text; version=1.0.0",
	} {
		w := question(t, c, ask.Question{}, http.Header{"Accept": {accept}})
		require.Contains(t, w.Header().Get("Content-Type"), want)
		require.Equal(t, strings.Contains(want, "openmetrics"), strings.HasSuffix(w.Body.String(), "# EOF\n"))
	}
}

// node_exporter's own names have capitals, and conventions of older days.
var ofOthers = regexp.MustCompile(
	`^node_(memory_|disk_(reads|read_time|write_time|writes|io_time|discard|flush)|thermal_zone_temp|hwmon|vmstat)`)

func TestPromlintHasNothingToSay(t *testing.T) {
	c := New(node(t), time.Now, func(string) {})
	problems, err := promlint.New(question(t, c, ask.Question{Health: health}, nil).Body).Lint()
	require.NoError(t, err)
	for _, p := range problems {
		require.Regexp(t, ofOthers, p.Metric, p.Text)
	}
}

func TestAMalformedQuestionIsRefused(t *testing.T) {
	c := New(node(t), time.Now, func(string) {})
	for _, body := range []string{"", "x", `{"programs":1}`, `{"programs":["` + strings.Repeat("x", ask.MaxQuestion) + `"]}`} {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequest(http.MethodPost, ask.Path, strings.NewReader(body)))
		require.Equal(t, http.StatusBadRequest, w.Code)
	}
}

func TestTheCollectorEndsWhenNobodyAsks(t *testing.T) {
	c := New(node(t), time.Now, func(string) {})
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- c.Serve(context.Background(), l, 300*time.Millisecond) }()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", l.Addr().String())
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	answer, err := client.Post("http://collector"+ask.Path, "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
}

func TestWhoIsBeingAnsweredWhenTheCollectorEndsHasAnAnswer(t *testing.T) {
	c := New(node(t), time.Now, func(string) {})
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Serve(ctx, l, time.Hour) }()
	conn, err := net.Dial("unix", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST "+ask.Path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{")
	require.NoError(t, err)
	from := bufio.NewReader(conn)
	line, err := from.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "100 Continue", "the question is being read")
	_, err = from.ReadString('\n')
	require.NoError(t, err)
	end()
	select {
	case <-done:
		t.Fatal("it ends in the middle of a question")
	case <-time.After(200 * time.Millisecond):
	}
	_, err = io.WriteString(conn, "}")
	require.NoError(t, err)
	answer, err := http.ReadResponse(from, nil)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "spore_source_up")
	require.NoError(t, <-done)
}

// TestTheStoreSeesWhatSlowSourcesSay asks at the longest interval that a store may have: what a source that is too slow
// for one answer said is still told in the next.
func TestTheStoreSeesWhatSlowSourcesSay(t *testing.T) {
	const interval = smetrics.MaxInterval * time.Second
	for _, every := range []time.Duration{0, wearEvery, ceph.Every} {
		var now, begun, ended atomic.Int64
		release := make(chan struct{})
		slow := source.Source{Name: "slow", Every: every, Ask: func(context.Context, ask.Question) ([]*dto.MetricFamily, error) {
			begun.Add(1)
			defer ended.Add(1)
			<-release
			return []*dto.MetricFamily{}, nil
		}}
		now.Store(1_000_000)
		clock := func() time.Time { return time.Unix(now.Load(), 0) }
		s := source.New([]source.Source{slow}, clock, func(string) {})
		up := func() float64 {
			all, err := s.Gather(t.Context(), ask.Question{})
			require.NoError(t, err)
			for _, f := range all {
				if f.GetName() == "spore_source_up" {
					return f.Metric[0].Gauge.GetValue()
				}
			}
			return -1
		}
		require.Zero(t, up(), "it has said nothing yet")
		for range 5 {
			if begun.Load() > ended.Load() { // Of those that are not asked each time, it may not have been.
				release <- struct{}{}
				require.Eventually(t, func() bool { return begun.Load() == ended.Load() }, 10*time.Second, time.Millisecond)
			}
			now.Add(int64((interval + 5*time.Second) / time.Second)) // A store under load is late.
			require.Equal(t, 1.0, up(), "asked every %s", every)
		}
		close(release)
	}
}
