//go:build e2e

package services

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"spore/services/logs"
	"spore/services/logs/days"
	logsunit "spore/services/logs/unit"
	"spore/test/kubecluster"
)

// logsStore is VictoriaLogs of payloads/ with the arguments of its unit.
type logsStore struct {
	t             *testing.T
	args          []string
	address, data string
	password      string
	cmd           *exec.Cmd
	log           bytes.Buffer
}

const streamFields = "node,_SPORE_SOURCE,_SYSTEMD_UNIT,KUBERNETES_NAMESPACE,KUBERNETES_POD,KUBERNETES_CONTAINER"

func newLogsStore(t *testing.T, change ...string) *logsStore {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, kubecluster.Programs(t.Context(), "../..", dir, "victoria-logs"))
	s := &logsStore{t: t, data: filepath.Join(dir, "state"), password: filepath.Join(dir, "secret_"+logs.PasswordEntry)}
	s.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
	require.NoError(t, os.WriteFile(s.password, []byte("swordfish"), 0o600))
	arguments := argumentsOf(t, logs.Unit, strings.NewReplacer(append(change,
		"${VICTORIA_LOGS_DATA}", s.data, "%d", dir, "127.0.0.1:9428", s.address,
		"/usr/bin/victoria-logs", filepath.Join(dir, "usr/bin/victoria-logs"))...))
	s.args = arguments[slices.Index(arguments, "--")+1:]
	t.Cleanup(s.kill)
	return s
}

func (s *logsStore) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(s.t, s.cmd.Start())
	s.answers()
}

func (s *logsStore) answers() {
	s.t.Helper()
	require.Eventually(s.t, func() bool { _, err := s.post("/insert/ready", "", nil); return err == nil },
		30*time.Second, 50*time.Millisecond, "the store does not answer")
}

func (s *logsStore) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // an error means that it has ended
	_ = s.cmd.Wait()         // always "killed"
	s.cmd = nil
	if s.t.Failed() {
		s.t.Log(s.log.String())
	}
}

// post asks the store, with its password, and returns an error where it does not answer 200.
func (s *logsStore) post(path, encoding string, body []byte) (string, error) {
	r, err := http.NewRequest(http.MethodPost, "http://"+s.address+path, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	if encoding == "form" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	} else if encoding != "" {
		r.Header.Set("Content-Encoding", encoding)
	}
	r.SetBasicAuth(logs.User, "swordfish")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", answer.Status, text)
	}
	return string(text), err
}

// insert hands entries over as the program that takes them does.
func (s *logsStore) insert(lines []byte) error {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		return err
	}
	_, err = s.post("/insert/jsonline?_stream_fields="+streamFields, "zstd", w.EncodeAll(lines, nil))
	return err
}

// query returns the entries that a query finds.
func (s *logsStore) query(query string) []map[string]string {
	s.t.Helper()
	text, err := s.post("/select/logsql/query", "form", []byte(url.Values{"query": {query}}.Encode()))
	require.NoError(s.t, err)
	var out []map[string]string
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var entry map[string]string
		require.NoError(s.t, json.Unmarshal(lines.Bytes(), &entry), lines.Text())
		out = append(out, entry)
	}
	require.NoError(s.t, lines.Err())
	return out
}

func (s *logsStore) count(filter string) int {
	s.t.Helper()
	found := s.query(filter + ` | count() n`)
	require.Len(s.t, found, 1)
	n, err := strconv.Atoi(found[0]["n"])
	require.NoError(s.t, err)
	return n
}

func (s *logsStore) becomes(filter string, want int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.count(filter) == want }, 30*time.Second, 100*time.Millisecond, "%s is %d", filter, want)
}

// metric is the sum of what the store says of itself under a name.
func (s *logsStore) metric(name string) float64 {
	s.t.Helper()
	text, err := s.post("/metrics", "", nil)
	require.NoError(s.t, err)
	sum, found := 0.0, false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name) {
			value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			require.NoError(s.t, err)
			sum, found = sum+value, true
		}
	}
	require.True(s.t, found, name)
	return sum
}

// says waits until the store says a number of itself: it says for a second what it said.
func (s *logsStore) says(name string, want float64) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.metric(name) == want }, 10*time.Second, 200*time.Millisecond, "%s is %v", name, want)
}

// entries are lines of a node at a time, each with a number.
func entries(node string, at time.Time, from, n int, message string) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `{"_time":%q,"_msg":"%s %d","node":%q,"cluster":"observed","role":"mqtt-broker","_SPORE_SOURCE":"journal",`+
			`"_SYSTEMD_UNIT":"unit-%d.service","PRIORITY":"%d","__CURSOR":"s=1;i=%x"}`+"\n",
			at.Add(time.Duration(i)*time.Millisecond).UTC().Format(time.RFC3339Nano), message, from+i, node, i%7, i%8, from+i)
	}
	return b.Bytes()
}

// The store of examples/observed lets nobody in without its password, keeps what a journal may hold, and has after a
// kill what it took some seconds before.
func TestTheStoreOfLogs(t *testing.T) {
	s := newLogsStore(t)
	s.start()
	now := time.Now()
	t.Run("nobody is let in without its password", func(t *testing.T) {
		for _, path := range []string{"/", "/insert/jsonline", "/insert/elasticsearch/_bulk", "/insert/loki/api/v1/push", "/insert/ready", "/select/logsql/query?query=*", "/select/vmui/",
			"/metrics", "/flags", "/debug/pprof/heap", "/internal/partition/list", "/internal/partition/detach?name=20261126", "/internal/force_flush", "/delete/run_task?filter=*"} {
			for _, password := range []string{"", "wrong"} {
				r, err := http.NewRequest(http.MethodPost, "http://"+s.address+path, strings.NewReader("{}"))
				require.NoError(t, err)
				if password != "" {
					r.SetBasicAuth(logs.User, password)
				}
				answer, err := http.DefaultClient.Do(r)
				require.NoError(t, err)
				answer.Body.Close()
				require.Equal(t, http.StatusUnauthorized, answer.StatusCode, path)
			}
		}
	})
	t.Run("what came is found by node, unit, priority, word and regexp", func(t *testing.T) {
		require.NoError(t, s.insert(entries("edge-01", now.Add(-time.Hour), 0, 700, "the press has stopped")))
		require.NoError(t, s.insert(entries("edge-02", now.Add(-time.Hour), 0, 70, "the press goes on")))
		s.becomes(`{node="edge-01"}`, 700)
		require.Equal(t, 100, s.count(`{node="edge-01",_SYSTEMD_UNIT="unit-3.service"}`))
		require.Equal(t, 88, s.count(`{node="edge-01"} PRIORITY:="3"`))
		require.Equal(t, 70, s.count(`"goes on"`))
		require.Equal(t, 11, s.count(`_msg:~"stopped 6[0-9]$|stopped 699$"`))
		found := s.query(`{node="edge-02"} _msg:="the press goes on 5"`)
		require.Len(t, found, 1)
		require.Equal(t, "observed", found[0]["cluster"])
		require.Equal(t, "s=1;i=5", found[0]["__CURSOR"])
		require.Equal(t, now.Add(-time.Hour+5*time.Millisecond).UTC().Format(time.RFC3339Nano), found[0]["_time"])
	})
	t.Run("hostile and large ones are kept as they are", func(t *testing.T) {
		hostile := "\x1b[2J \"'\\ | delete; {node=\"x\"} \u2028 \x00\x01 é"
		large := strings.Repeat("\x01", 256<<10)
		for i, message := range []string{hostile, large} {
			line, err := json.Marshal(map[string]string{"_time": now.Add(-time.Minute).UTC().Format(time.RFC3339Nano), "_msg": message, "node": "hostile-" + strconv.Itoa(i)})
			require.NoError(t, err)
			require.NoError(t, s.insert(append(line, '\n')))
			s.becomes(fmt.Sprintf(`{node="hostile-%d"}`, i), 1)
			require.Equal(t, message, s.query(fmt.Sprintf(`{node="hostile-%d"}`, i))[0]["_msg"])
		}
		require.Len(t, s.query("_msg:="+strconv.Quote(hostile)), 1, "a word of people is quoted as Go does")
	})
	t.Run("what it cannot keep it drops, and says how many", func(t *testing.T) {
		require.Error(t, s.insert([]byte("{\n")))
		require.NoError(t, s.insert([]byte(`{"_msg":"whole","node":"odd"}`+"\n{\n")), "of lines in part")
		s.says(`vl_http_errors_total{path="/insert/jsonline"}`, 2)
		require.NoError(t, s.insert([]byte(`{"_msg":"`+strings.Repeat("x", 3<<20)+`","node":"odd"}`+"\n")))
		s.says("vl_too_long_lines_skipped_total", 1)
		// A name of 129 bytes makes the whole entry go, or its name: nobody counts that.
		require.NoError(t, s.insert([]byte(`{"_msg":"x","node":"long","`+strings.Repeat("X", 129)+`":"1"}`+"\n")))
		require.NoError(t, s.insert([]byte(`{"_msg":"x","node":"odd","_time":"2100-01-01T00:00:00Z"}`+"\n")))
		s.says("vl_rows_dropped_total", 1)
		s.becomes(`{node="odd"}`, 1)
	})
	t.Run("after a kill it has what it took half a minute before", func(t *testing.T) {
		const each = 100
		took := map[int]time.Time{}
		for i, until := 0, time.Now().Add(40*time.Second); time.Now().Before(until); i++ {
			require.NoError(t, s.insert(entries("killed", time.Now(), i*each, each, "line")))
			took[i] = time.Now()
			time.Sleep(50 * time.Millisecond)
		}
		s.kill()
		killed := time.Now()
		s.start()
		have := map[string]bool{}
		for _, e := range s.query(`{node="killed"} | fields _msg`) {
			have[e["_msg"]] = true
		}
		oldest := time.Duration(0)
		for i, at := range took {
			for k := range each {
				if !have[fmt.Sprintf("line %d", i*each+k)] {
					oldest = max(oldest, killed.Sub(at))
				}
			}
		}
		require.Less(t, oldest, 30*time.Second)
		t.Logf("%d of %d entries; the oldest that is lost was taken %s before the kill", len(have), len(took)*each, oldest)
	})
	t.Run("what was taken is there at once after it ended by itself", func(t *testing.T) {
		require.NoError(t, s.insert(entries("ended", time.Now(), 0, 1000, "line")))
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, s.cmd.Wait(), s.log.String())
		s.start()
		require.Equal(t, 1000, s.count(`{node="ended"}`))
		require.Equal(t, 700, s.count(`{node="edge-01"}`))
	})
}

// limited runs the store within the command of its unit.
func (s *logsStore) limited(l days.Limits, free func(string) (uint64, error), now func() time.Time) (say func() []string, counters string, end func()) {
	s.t.Helper()
	var mu sync.Mutex
	var said []string
	log, err := os.Create(filepath.Join(s.t.TempDir(), "log"))
	require.NoError(s.t, err)
	counters = filepath.Join(s.t.TempDir(), "metrics.prom")
	o := logsunit.Options{
		Store:  days.Store{Dir: s.data, Address: s.address, PasswordFile: s.password, Free: free},
		Limits: l, Program: s.args, Log: log, Counters: counters, Look: 200 * time.Millisecond, Now: now, Patience: time.Minute,
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- logsunit.Run(ctx, o, func(line string) { mu.Lock(); defer mu.Unlock(); said = append(said, line) })
	}()
	once := sync.OnceFunc(func() {
		cancel()
		require.NoError(s.t, <-ended)
	})
	s.t.Cleanup(once)
	s.answers()
	return func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(said) }, counters, once
}

func plenty(string) (uint64, error) { return 1 << 40, nil }

// The oldest days go, from the store that runs, whichever bound is met; entries for a day that has gone are taken all
// the same.
func TestTheOldestDaysOfLogsGo(t *testing.T) {
	s := newLogsStore(t)
	noon := time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour)
	if noon.After(time.Now()) {
		noon = time.Now()
	}
	ago := func(n int) time.Time { return noon.AddDate(0, 0, -n) }
	day := func(n int) string { return ago(n).Format(days.Form) }
	onDisk := func() []string {
		list, err := os.ReadDir(filepath.Join(s.data, "partitions"))
		require.NoError(t, err)
		var out []string
		for _, e := range list {
			out = append(out, e.Name())
		}
		return out
	}
	fill := func(n, count int) {
		// Each entry has words of its own, so that it takes room.
		var b bytes.Buffer
		for i := range count {
			fmt.Fprintf(&b, `{"_time":%q,"_msg":"%x %x","node":"edge-01"}`+"\n", ago(n).UTC().Format(time.RFC3339Nano), int64(i)*7919*104729, int64(n*count+i)*15485863*32452843)
		}
		require.NoError(t, s.insert(b.Bytes()))
	}
	_, first, end := s.limited(days.Limits{Days: 10}, plenty, time.Now)
	for n := range 5 {
		fill(n, 20_000)
	}
	fill(20, 10)
	require.Eventually(t, func() bool { return len(onDisk()) == 5 }, 30*time.Second, 100*time.Millisecond, "one day is too old")
	fill(20, 10)
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(first)
		return strings.Contains(string(text), "spore_logs_store_removed_partitions_total 2\n")
	}, 30*time.Second, 100*time.Millisecond, "entries for a day that has gone are taken, and go again")
	s.becomes(`_time:`+ago(0).Format("2006-01-02"), 20_000)
	end()

	_, _, end = s.limited(days.Limits{Days: 10}, plenty, func() time.Time { return time.Now().AddDate(30, 0, 0) })
	time.Sleep(2 * time.Second)
	require.Len(t, onDisk(), 5, "a clock that is late")
	end()
	_, _, end = s.limited(days.Limits{Days: 10}, plenty, func() time.Time { return time.Now().AddDate(-30, 0, 0) })
	time.Sleep(2 * time.Second)
	require.Len(t, onDisk(), 5, "a clock that is early")
	size := s.metric("vl_data_size_bytes")
	end()

	bound := uint64(size * 0.5)
	said, counters, end := s.limited(days.Limits{Days: 10, Bytes: bound}, plenty, time.Now)
	require.Eventually(t, func() bool { return s.metric("vl_data_size_bytes") <= float64(bound) && len(onDisk()) < 5 }, 30*time.Second, 100*time.Millisecond)
	left := onDisk()
	require.Contains(t, [][]string{{day(0)}, {day(1), day(0)}, {day(2), day(1), day(0)}}, left)
	require.NotEmpty(t, said())
	require.Zero(t, s.count(`_time:`+ago(3).Format("2006-01-02")))
	require.Equal(t, 20_000*len(left), s.count("*"))
	end()

	said, counters, end = s.limited(days.Limits{Days: 10, Bytes: 1000}, plenty, time.Now)
	require.Eventually(t, func() bool { return slices.Equal(onDisk(), []string{day(0)}) }, 30*time.Second, 100*time.Millisecond)
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(counters)
		return strings.Contains(string(text), "spore_logs_store_over_bound 1\n")
	}, 30*time.Second, 100*time.Millisecond)
	require.Contains(t, strings.Join(said(), "\n"), "write a larger size into services/logs.yaml")
	fill(0, 10)
	s.becomes(`_time:`+ago(0).Format("2006-01-02"), 20_010)
	end()
}

// On a small disk of its own the store gives old days up, then takes nothing more and says so, and goes on when there
// is room: the disk never fills.
func TestAFullDiskOfLogs(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a disk takes root")
	}
	disk := t.TempDir()
	require.NoError(t, syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=48m"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	s := newLogsStore(t, "-storage.minFreeDiskSpaceBytes=512MiB", "-storage.minFreeDiskSpaceBytes=12MiB", "${VICTORIA_LOGS_DATA}", filepath.Join(disk, "state"))
	s.data = filepath.Join(disk, "state")
	require.NoError(t, os.MkdirAll(s.data, 0o700))
	said, _, end := s.limited(days.Limits{Days: 10, Floor: 20 << 20, Enough: 24 << 20}, days.Free, time.Now)
	today := time.Now()
	yesterday := today.AddDate(0, 0, -1)
	filler := func(at time.Time, n int) []byte {
		var b bytes.Buffer
		random := uint64(n + 1)
		for range 20_000 {
			random ^= random << 13
			random ^= random >> 7
			random ^= random << 17
			fmt.Fprintf(&b, `{"_time":%q,"_msg":"%016x%016x","node":"edge-01"}`+"\n", at.UTC().Format(time.RFC3339Nano), random, random*0x9e3779b97f4a7c15)
		}
		return b.Bytes()
	}
	for i := range 12 {
		require.NoError(t, s.insert(filler(yesterday, i)))
	}
	var refused error
	for i := range 1000 {
		if refused = s.insert(filler(today, 1000+i)); refused != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	require.ErrorContains(t, refused, "429 Too Many Requests: ")
	require.Contains(t, strings.Join(said(), "\n"), ": the day "+yesterday.UTC().Format(days.Form)+" goes")
	require.Eventually(t, func() bool { return strings.Contains(strings.Join(said(), "\n"), "the store takes nothing") }, 30*time.Second, 100*time.Millisecond)
	s.says("vl_storage_is_read_only", 1)
	time.Sleep(12 * time.Second) // What it had in memory is written, too.
	free, err := days.Free(disk)
	require.NoError(t, err)
	require.Positive(t, free)
	require.Positive(t, s.count("*"), "it answers")
	end()
}
