//go:build e2e

package services

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"spore/services/metrics/room"
	"spore/test/testca"
	"spore/wire/nodeapi"
)

// What docs/metrics.md promises of a store of 200 nodes with 1,000 series each, asked every 30 seconds.
const (
	manyNodes, theirSeries = 200, 1000
	usualInterval          = 30 * time.Second
	mostMemory             = 800 << 20
	mostProcessors         = 1.0
	mostWeek               = 1 << 30
	mostBusyWeek           = 3 << 29
)

// soaks tells whether the long counts are asked for (make soak).
func soaks() bool { return os.Getenv("SPORE_SOAK") != "" }

// simulated are the series of a node at a moment. Of ten families of a node (docs/reference/metrics.md) seven say the
// same for hours (information, sizes, states, buckets, counters of errors), one counts at a rate, one what is done in
// bursts, and one goes up and down. Of a node that is busy in all its parts two count at a rate.
type simulated struct {
	source *rand.Rand
	busy   bool
	values []float64
	steps  []float64
}

func simulate(node int, busy bool) *simulated {
	s := &simulated{busy: busy, source: rand.New(rand.NewPCG(uint64(node), 7)), values: make([]float64, theirSeries), steps: make([]float64, theirSeries)}
	for i := range s.values {
		s.values[i] = math.Trunc(s.source.Float64() * 1e6)
		s.steps[i] = math.Trunc(1 + s.source.Float64()*2000)
	}
	return s
}

// next goes on by one look.
func (s *simulated) next() {
	for i := range s.values {
		switch k := i % 10; {
		case k == 0, k == 1 && s.busy: // seconds of a processor, bytes of a card: a rate, and something on it
			s.values[i] += s.steps[i] + math.Trunc(s.source.Float64()*s.steps[i]/10)
		case k == 2: // requests, writes: nothing for most of the time
			if s.source.IntN(10) == 0 {
				s.values[i] += math.Trunc(s.source.Float64() * 100)
			}
		case k == 3: // memory in pages, temperatures
			s.values[i] += math.Trunc(s.source.NormFloat64() * 3)
		}
	}
}

func seriesName(i int) string {
	return fmt.Sprintf("node_family_%d_total{device=\"sd%d\",mode=\"m%d\"}", i/10, i%10, i%3)
}

// text is an answer of the node's API.
func (s *simulated) text(b *bytes.Buffer) {
	for i, v := range s.values {
		b.WriteString(seriesName(i))
		b.WriteByte(' ')
		b.WriteString(strconv.FormatFloat(v, 'f', -1, 64))
		b.WriteByte('\n')
	}
}

// asksMany has the store ask many simulated nodes, all of them at one port, which tells them apart by their paths.
func (s *metricsStore) asksMany(ca *testca.CA, interval time.Duration) {
	s.t.Helper()
	certificate, key, err := ca.Server("localhost")
	require.NoError(s.t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(s.t, err)
	nodes := make([]*simulated, manyNodes)
	for i := range nodes {
		nodes[i] = simulate(i, true)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, nodeapi.MetricsPath+"/"))
		if err != nil || n >= len(nodes) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		var b bytes.Buffer
		nodes[n].next() // The store has one question at a time for each.
		nodes[n].text(&b)
		_, _ = w.Write(b.Bytes())
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(), MinVersion: tls.VersionTLS13}
	server.StartTLS()
	s.t.Cleanup(server.Close)

	file := filepath.Join(filepath.Dir(s.data), "scrape.yaml")
	text, err := os.ReadFile(file)
	require.NoError(s.t, err)
	var list struct {
		Global map[string]string `yaml:"global"`
		Jobs   []map[string]any  `yaml:"scrape_configs"`
	}
	require.NoError(s.t, yaml.Unmarshal(text, &list))
	list.Global["scrape_interval"] = interval.String()
	of := list.Jobs[0]
	delete(of, "static_configs")
	list.Jobs = nil
	for i := range nodes {
		one := map[string]any{}
		for k, v := range of {
			one[k] = v
		}
		one["job_name"] = fmt.Sprintf("node-%d", i)
		one["metrics_path"] = fmt.Sprintf("%s/%d", nodeapi.MetricsPath, i)
		one["static_configs"] = []map[string]any{{
			"targets": []string{"localhost:" + strings.TrimPrefix(server.URL, "https://127.0.0.1:")},
			"labels":  map[string]string{"instance": fmt.Sprintf("node-%03d", i)},
		}}
		list.Jobs = append(list.Jobs, one)
	}
	text, err = yaml.Marshal(list)
	require.NoError(s.t, err)
	require.NoError(s.t, os.WriteFile(file, text, 0o600))
}

// used is the processor time of the store so far, and the most memory that it had.
func (s *metricsStore) used() (processor time.Duration, memory uint64) {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	require.NoError(s.t, err)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
	for _, f := range fields[11:13] { // utime and stime (proc_pid_stat(5)), in hundredths of a second
		n, err := strconv.Atoi(f)
		require.NoError(s.t, err)
		processor += time.Duration(n) * 10 * time.Millisecond
	}
	text, err = os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	require.NoError(s.t, err)
	_, line, found := strings.Cut(string(text), "\nVmHWM:")
	require.True(s.t, found)
	kib, err := strconv.Atoi(strings.Fields(line)[0])
	require.NoError(s.t, err)
	return processor, uint64(kib) << 10
}

// 200 nodes of 1,000 series. Each first look of all of them makes their index; what comes then is what it costs for good.
// The short count asks more often than each 30 seconds and divides by that; the long one takes ten minutes with queries.
func TestTheStoreOfMetricsOfTwoHundredNodes(t *testing.T) {
	interval, looks := 5*time.Second, 2
	if soaks() {
		interval, looks = usualInterval, 20
	}
	ca, err := testca.New("agent")
	require.NoError(t, err)
	s := newMetricsStore(t, ca, nil, nil)
	s.asksMany(ca, interval)
	s.args = append(s.args, "-search.latencyOffset=1s") // So that the count does not wait for it.
	s.start()
	all := fmt.Sprint(manyNodes * theirSeries)
	require.Eventually(t, func() bool { return s.value(`count({device!=""})`) == all }, 2*time.Minute, time.Second)
	first, _ := s.used()
	began := time.Now()
	for time.Since(began) < time.Duration(looks)*interval {
		time.Sleep(5 * time.Second)
		if soaks() {
			// What the six dashboards of a plant ask for each half minute.
			require.NotEmpty(t, s.value(`sum(rate(node_family_1_total[5m]))`))
			require.NotEmpty(t, s.value(`count(up == 1)`))
			_, err := s.query(map[string]string{"query": `sum by (instance) (rate(node_family_2_total[5m]))`, "from": strconv.FormatInt(began.Add(-time.Hour).Unix(), 10)})
			require.NoError(t, err)
		}
	}
	took := time.Since(began)
	processor, memory := s.used()
	share := (processor - first).Seconds() / took.Seconds() * float64(interval) / float64(usualInterval)
	require.Equal(t, all, s.value(`count({device!=""})`))
	require.Equal(t, fmt.Sprint(manyNodes), s.value(`count(up == 1)`))
	t.Logf("%d nodes of %d series each %s, for %s: the first look took %.1f s of a processor; %.1f %% of a processor, %d MiB at most",
		manyNodes, theirSeries, interval, took.Round(time.Second), first.Seconds(), share*100, memory>>20)
	require.LessOrEqual(t, memory, uint64(mostMemory))
	require.LessOrEqual(t, share, mostProcessors)
}

// A week of some nodes is imported; what 200 take follows from that. The short count has a node and two days.
func TestTheStoreOfMetricsOnItsDiskAfterAWeek(t *testing.T) {
	nodes, days := 1, 2
	if soaks() {
		nodes, days = 5, 7
	}
	t.Run("nodes", func(t *testing.T) { require.LessOrEqual(t, week(t, nodes, days, false), float64(mostWeek)) })
	t.Run("nodes that are busy in all their parts", func(t *testing.T) {
		if !soaks() {
			t.Skip("elsewhere: `make soak` runs it, by SPORE_SOAK=1")
		}
		require.LessOrEqual(t, week(t, nodes, days, true), float64(mostBusyWeek))
	})
}

// week is what 200 nodes take in a week, in bytes.
func week(t *testing.T, nodes, days int, busy bool) float64 {
	t.Helper()
	ca, err := testca.New("agent")
	require.NoError(t, err)
	s := newMetricsStore(t, ca, nil, nil)
	s.start()
	begin := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -days)
	sims := make([]*simulated, nodes)
	for i := range sims {
		sims[i] = simulate(i, busy)
	}
	// An hour at a time, as it would come.
	const looks = int(time.Hour / usualInterval)
	for hour := range days * 24 {
		for n, sim := range sims {
			columns := make([][]byte, theirSeries)
			var times []byte
			for i := range looks {
				sim.next()
				at := begin.Add(time.Duration(hour)*time.Hour + time.Duration(i)*usualInterval + time.Duration(n)*time.Second)
				times = append(strconv.AppendInt(times, at.UnixMilli(), 10), ',')
				for j, v := range sim.values {
					columns[j] = append(strconv.AppendFloat(columns[j], v, 'f', -1, 64), ',')
				}
			}
			var b bytes.Buffer
			for j, column := range columns {
				fmt.Fprintf(&b, `{"metric":{"__name__":"node_family_%d_total","device":"sd%d","mode":"m%d","job":"node","instance":"node-%03d"},"values":[%s],"timestamps":[%s]}`+"\n",
					j/10, j%10, j%3, n, column[:len(column)-1], times[:len(times)-1])
			}
			s.post("/api/v1/import", &b)
		}
	}
	processor, _ := s.used()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, s.cmd.Wait(), s.log.String())
	s.cmd = nil
	// Without what it knows for its own speed, which does not grow with time.
	require.NoError(t, os.RemoveAll(filepath.Join(s.data, "cache")))
	grown, err := room.Bytes(s.data)
	require.NoError(t, err)
	samples := nodes * theirSeries * days * 24 * looks
	all := float64(grown) / float64(nodes*days) * manyNodes * 7
	t.Logf("%d nodes of %d series for %d days: %d million samples, %.1f MiB, %.3f bytes each; %d nodes take %.2f GiB a week (%.1f s of a processor)",
		nodes, theirSeries, days, samples/1e6, float64(grown)/(1<<20), float64(grown)/float64(samples), manyNodes, all/(1<<30), processor.Seconds())
	return all
}
