//go:build e2e

package services

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"spore/agent/logs/serve"
	"spore/services/logs"
	"spore/services/logs/store"
	"spore/wire/journalexport"
	"spore/wire/nodeapi"
)

// takerSettings is where the test finds what it is to be, as the program spore-logs-store.
const takerSettings = "SPORE_TEST_LOGS_TAKER"

// takerOptions are the options of the program in other places than those of a node.
type takerOptions struct {
	store.Config
	Dir   string
	Floor int64
}

func (o takerOptions) socket() string  { return filepath.Join(o.Dir, "socket") }
func (o takerOptions) metrics() string { return filepath.Join(o.Dir, "metrics.prom") }

// TestLogsTakerItself is no test: it is the program in a process of its own, so that it can be killed.
func TestLogsTakerItself(t *testing.T) {
	file := os.Getenv(takerSettings)
	if file == "" {
		t.Skip("elsewhere: other tests start it")
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var o takerOptions
	require.NoError(t, json.Unmarshal(data, &o))
	require.NoError(t, serve.Run(context.Background(), serve.Options{
		Config: o.Config, Socket: o.socket(), Metrics: o.metrics(), Data: o.Dir, Now: time.Now, Floor: o.Floor,
		Say: func(text string) { fmt.Fprintln(os.Stderr, text) },
	}))
}

// logsTaker is the program spore-logs-store before a VictoriaLogs.
type logsTaker struct {
	t    *testing.T
	o    takerOptions
	file string
	mu   sync.Mutex
	cmd  *exec.Cmd
	log  bytes.Buffer
	http *http.Client
}

func newLogsTaker(t *testing.T, s *logsStore, dir string, floor int64) *logsTaker {
	t.Helper()
	k := &logsTaker{t: t, file: filepath.Join(t.TempDir(), "taker.json"), o: takerOptions{Dir: dir, Floor: floor, Config: store.Config{
		Cluster: "observed", Node: "store-01", Roles: map[string]string{"node-0": "mqtt-broker"}, Days: 30, Queue: 2 << 30,
		URL: "http://" + s.address, User: logs.User, PasswordFile: s.password,
	}}}
	data, err := json.Marshal(k.o)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(k.file, data, 0o600))
	k.http = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		MaxIdleConnsPerHost: 256, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", k.o.socket())
		},
	}}
	t.Cleanup(k.kill)
	return k
}

func (k *logsTaker) start() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cmd = exec.Command(os.Args[0], "-test.run=^TestLogsTakerItself$")
	// As in its unit.
	k.cmd.Env = append(os.Environ(), takerSettings+"="+k.file, "GOMEMLIMIT=96MiB")
	k.cmd.Stdout, k.cmd.Stderr = &k.log, &k.log
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(k.t, k.cmd.Start())
}

func (k *logsTaker) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cmd == nil {
		return
	}
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait()
	k.cmd = nil
	if k.t.Failed() {
		k.t.Logf("%.4000s", k.log.String())
	}
}

// logsAhead is by how much the clocks of the nodes are ahead of that of the store.
const logsAhead = time.Minute

// bring brings a batch, as the node's API does.
func (k *logsTaker) bring(node string, packed []byte) (int, error) {
	r, err := http.NewRequest(http.MethodPost, "http://store"+nodeapi.EntriesPath, bytes.NewReader(packed))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", journalexport.ContentType)
	r.Header.Set("Content-Encoding", "zstd")
	r.Header.Set(nodeapi.EntriesOf, node)
	r.Header.Set("Date", time.Now().Add(logsAhead).UTC().Format(http.TimeFormat))
	answer, err := k.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, nil
}

// counted is what the program tells under the beginning of a line.
func (k *logsTaker) counted(name string) float64 {
	text, _ := os.ReadFile(k.o.metrics())
	sum := 0.0
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, name); found {
			value, _ := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64)
			sum += value
		}
	}
	return sum
}

// journalOf is the entries of a node's journal from a number on, in the form that they are sent in.
func journalOf(node, from, n int) []byte {
	var data []byte
	now := time.Now()
	for i := from; i < from+n; i++ {
		field := func(name, value string) journalexport.Field {
			return journalexport.Field{Name: name, Value: []byte(value)}
		}
		data = journalexport.Append(data, journalexport.Entry{
			field("__CURSOR", fmt.Sprintf("s=%032x;i=%x;b=%032x;m=%x;t=%x;x=%x", node, i, node, i, now.UnixMicro(), i)),
			field("__REALTIME_TIMESTAMP", strconv.FormatInt(now.UnixMicro(), 10)),
			field("__MONOTONIC_TIMESTAMP", strconv.Itoa(i)), field("_BOOT_ID", fmt.Sprintf("%032x", node)),
			field("_MACHINE_ID", fmt.Sprintf("%032x", node)), field("_HOSTNAME", fmt.Sprintf("node-%d", node)),
			field("PRIORITY", strconv.Itoa(i%8)), field("_UID", "0"), field("_GID", "0"), field("_COMM", "kubelet"),
			field("_EXE", "/usr/bin/kubelet"), field("_CMDLINE", "/usr/bin/kubelet --config=/run/spore/kubelet/config.yaml"),
			field("_CAP_EFFECTIVE", "1ffffffffff"), field("_SYSTEMD_CGROUP", "/system.slice/kubelet.service"),
			field("_SYSTEMD_UNIT", fmt.Sprintf("unit-%d.service", i%20)), field("_SYSTEMD_SLICE", "system.slice"),
			field("_SYSTEMD_INVOCATION_ID", fmt.Sprintf("%032x", node)), field("_TRANSPORT", "stdout"),
			field("SYSLOG_IDENTIFIER", "kubelet"), field("_PID", strconv.Itoa(1000+i%50)), field("_SPORE_SOURCE", "journal"),
			field("MESSAGE", fmt.Sprintf("I1126 12:00:00.%06d reconciler.go:%d] \"Operation for volume finished\" pod=\"default/app-%d\" took=%dms", i%1000000, i%700, i%97, i*7919%5000)),
		})
	}
	return data
}

// sendAll brings the entries 1 to n of a node, in batches of random length, and again whatever was not acknowledged.
// Now and then the sender dies and goes on from a place that it had saved before.
func (k *logsTaker) sendAll(node, n int, seed uint64) {
	r := rand.New(rand.NewPCG(seed, uint64(node)))
	pack, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	saved := 1
	for at := 1; at <= n; {
		count := min(1+r.IntN(60), n+1-at)
		status, err := k.bring(fmt.Sprintf("node-%d", node), pack.EncodeAll(journalOf(node, at, count), nil))
		if err != nil || status != http.StatusNoContent {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		at += count
		switch r.IntN(12) {
		case 0:
			at = saved
		case 1, 2, 3:
			saved = at
		}
		time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
	}
}

// distinct is how many entries there are of different nodes and cursors.
func (s *logsStore) distinct() int {
	s.t.Helper()
	found := s.query(`* | stats by (node) count_uniq(__CURSOR) n | stats sum(n) n`)
	if len(found) != 1 {
		return 0
	}
	n, _ := strconv.Atoi(found[0]["n"])
	return n
}

// The store, what takes for it and the senders die at random: what was acknowledged is there.
func TestNothingThatTheStoreOfLogsAcknowledgedIsLost(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SPORE_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("SPORE_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s := newLogsStore(t)
	s.start()
	k := newLogsTaker(t, s, t.TempDir(), 1)
	k.start()
	const nodes, each = 5, 6000
	var sending sync.WaitGroup
	var left atomic.Int64
	for node := range nodes {
		left.Add(1)
		sending.Go(func() {
			defer left.Add(-1)
			k.sendAll(node, each, seed)
		})
	}
	kills := 0
	for left.Load() > 0 {
		time.Sleep(time.Duration(300+r.IntN(1500)) * time.Millisecond)
		if r.IntN(2) == 0 {
			k.kill()
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
			k.start()
		} else {
			s.kill()
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
			s.start()
		}
		kills++
	}
	sending.Wait()
	require.Eventually(t, func() bool { return s.distinct() == nodes*each }, 2*time.Minute, time.Second, "all are there")
	// The queue is past them when they are on the store's disk, and not before.
	require.Eventually(t, func() bool {
		return k.counted("spore_logs_store_certain_total") > 0 && k.counted("spore_logs_queue_behind_bytes") == 0
	}, 2*time.Minute, time.Second)
	k.kill()
	s.kill()
	s.start()
	require.Equal(t, nodes*each, s.distinct(), "after %d kills", kills)
	t.Logf("%d entries after %d kills, and %d lines in all", nodes*each, kills, s.count("*"))
	found := s.query(`{node="node-0"} | first 1 by (_time)`)
	require.Len(t, found, 1)
	require.Equal(t, "observed", found[0]["cluster"])
	require.Equal(t, "mqtt-broker", found[0]["role"])
	require.Equal(t, "journal", found[0]["_SPORE_SOURCE"])
}

// The disk of what takes is full for a while: nothing that was acknowledged is lost, and it goes on by itself.
func TestAFullDiskOfWhatTakesLogs(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a disk takes root")
	}
	disk := t.TempDir()
	require.NoError(t, syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=24m"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	s := newLogsStore(t)
	k := newLogsTaker(t, s, disk, 1) // It writes until there is no byte left.
	t.Cleanup(k.kill)
	k.start()
	pack, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	ballast := filepath.Join(disk, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 23<<20), 0o600))
	at, refused := 1, 0
	for at < 60_000 {
		status, err := k.bring("node-0", pack.EncodeAll(journalOf(0, at, 1000), nil))
		switch {
		case err == nil && status == http.StatusNoContent:
			at += 1000
		case err == nil && status == http.StatusServiceUnavailable:
			if refused++; refused == 8 {
				require.NoError(t, os.Remove(ballast))
				s.start() // VictoriaLogs was away until now.
			}
			time.Sleep(50 * time.Millisecond)
		default:
			time.Sleep(50 * time.Millisecond)
		}
	}
	require.GreaterOrEqual(t, refused, 8)
	require.Eventually(t, func() bool { return s.distinct() == at-1 }, time.Minute, time.Second)
}

// TestTheStoreOfLogsUnderTheLoadOfManyNodes has 200 nodes log 50 lines a second each, and one 100,000 in between, and
// says what that takes.
func TestTheStoreOfLogsUnderTheLoadOfManyNodes(t *testing.T) {
	const length = time.Minute
	if !soaks() {
		t.Skip("elsewhere: `make soak` runs it, by SPORE_SOAK=1")
	}
	s := newLogsStore(t)
	s.start()
	k := newLogsTaker(t, s, t.TempDir(), 1)
	k.start()
	const nodes, rate = 200, 50
	pack := make(chan *zstd.Encoder, 1)
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(256<<10))
	require.NoError(t, err)
	pack <- e
	packed := func(data []byte) []byte { e := <-pack; defer func() { pack <- e }(); return e.EncodeAll(data, nil) }
	time.Sleep(time.Second)
	processes := []int{k.cmd.Process.Pid, s.cmd.Process.Pid}
	var most, before [2]float64
	for i, pid := range processes {
		before[i] = cpuSeconds(t, pid)
	}
	begin := time.Now()
	var taken, loud atomic.Int64
	var slow sync.Map
	var all sync.WaitGroup
	for node := range nodes {
		all.Go(func() {
			time.Sleep(time.Duration(node) * time.Second / nodes)
			for at := 1; time.Since(begin) < length; {
				// As many lines as there are by now, so that whoever waits brings more at once.
				due := int(time.Since(begin).Seconds()*rate) - at + 1
				if due < rate {
					time.Sleep(100 * time.Millisecond)
					continue
				}
				asked := time.Now()
				status, err := k.bring(fmt.Sprintf("node-%d", node), packed(journalOf(node, at, due)))
				if err != nil || status != http.StatusNoContent {
					time.Sleep(time.Second)
					continue
				}
				slow.Store(fmt.Sprint(node, at), time.Since(asked))
				at += due
				taken.Add(int64(due))
			}
		})
	}
	all.Go(func() {
		batch := packed(journalOf(999, 1, 5000))
		for time.Since(begin) < length {
			if status, err := k.bring("loud-0", batch); err != nil || status != http.StatusNoContent {
				time.Sleep(time.Second)
				continue
			}
			loud.Add(5000)
		}
	})
	watching, stop := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() {
		for watching.Err() == nil {
			for i, pid := range processes {
				most[i] = max(most[i], residentMiB(pid))
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
	all.Wait()
	took := time.Since(begin)
	stop()
	watch.Wait()
	var times []time.Duration
	slow.Range(func(_, v any) bool { times = append(times, v.(time.Duration)); return true })
	slices.Sort(times)
	cpu := [2]float64{cpuSeconds(t, processes[0]) - before[0], cpuSeconds(t, processes[1]) - before[1]}
	t.Logf("%d lines in %s (%.0f/s), %d of the loud node; batches took %s (median), %s (99 %%), %s (most)", taken.Load(), took.Round(time.Second),
		float64(taken.Load())/took.Seconds(), loud.Load(), times[len(times)/2], times[len(times)*99/100], times[len(times)-1])
	t.Logf("taker: %.0f MiB, %.2f cores; VictoriaLogs: %.0f MiB, %.2f cores", most[0], cpu[0]/took.Seconds(), most[1], cpu[1]/took.Seconds())
	t.Logf("in the queue %.1f MiB", k.counted("spore_logs_queue_bytes ")/(1<<20))
	require.GreaterOrEqual(t, float64(taken.Load()), 0.9*nodes*rate*(length.Seconds()-2))
	require.LessOrEqual(t, most[0]+most[1], 300.0, "MiB")
}

// cpuSeconds is what a process has used (proc_pid_stat(5), fields 14 and 15 in ticks of 10 ms).
func cpuSeconds(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return float64(user+system) / 100
}

// residentMiB is the memory of a process that is its own (proc_pid_status(5), RssAnon).
func residentMiB(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "RssAnon:"); found {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return float64(n) / 1024
		}
	}
	return 0
}
