//go:build e2e

package services

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What docs/logs.md promises of a store of 200 nodes with 50 lines a second each.
const (
	linesASecond  = 200 * 50
	mostLogMemory = 300 << 20
	mostLogCores  = 1.0
)

// journalLines are lines as nodes log them: few texts, with numbers, addresses and names that change, and the fields
// that a journal has.
func journalLines(source *rand.Rand, at time.Time, n int) []byte {
	texts := []string{
		"Started Session %[1]d of User root.", "audit: type=1400 audit(%[1]d.%[2]d:%[3]d): apparmor=\"ALLOWED\" operation=\"open\" pid=%[2]d",
		"New connection from 10.78.0.%[2]d:%[3]d on port 8883.", "Client client-%[2]d disconnected.", "level=info ts=%[1]d caller=wal.go:%[3]d msg=\"write block\" duration=%[2]dms",
		"[INFO] 10.78.0.%[2]d:%[3]d - %[3]d \"A IN service-%[2]d.plant.example. udp 54 false 1232\" NOERROR qr,aa,rd 106 0.000%[2]ds",
		"I1126 12:00:00.%[1]d  1 handler.go:%[2]d] Reconciling pod default/web-%[3]x in phase Running", "kernel: EXT4-fs (sda%[2]d): mounted filesystem %[3]x ro with ordered data mode.",
	}
	var b bytes.Buffer
	for i := range n {
		node, unit := source.IntN(200), source.IntN(30)
		message := fmt.Sprintf(texts[source.IntN(len(texts))], at.Unix()+int64(i), source.IntN(250), source.IntN(60000))
		fmt.Fprintf(&b, `{"_time":"%d","_msg":%q,"node":"node-%03d","cluster":"plant","role":"worker","_SPORE_SOURCE":"journal","_SYSTEMD_UNIT":"unit-%02d.service",`+
			`"PRIORITY":"%d","SYSLOG_IDENTIFIER":"unit-%02d","SYSLOG_FACILITY":"3","_PID":"%d","_UID":"0","_GID":"0","_COMM":"unit-%02d","_EXE":"/usr/bin/unit-%02d","_CMDLINE":"/usr/bin/unit-%02d --config /run/unit/config.yaml",`+
			`"_CAP_EFFECTIVE":"0","_SYSTEMD_CGROUP":"/system.slice/unit-%02d.service","_SYSTEMD_SLICE":"system.slice","_BOOT_ID":"%032x","_MACHINE_ID":"%032x","_HOSTNAME":"node-%03d","_TRANSPORT":"stdout",`+
			`"__CURSOR":"s=%032x;i=%x;b=%032x;m=%x;t=%x;x=%x"}`+"\n",
			at.UnixNano()+int64(i)*1000, message, node, unit, 3+source.IntN(4), unit, 1000+unit*7+node, unit, unit, unit, unit, node*31, node*37, node, node*41, at.UnixNano()/1e6+int64(i), node*31, at.UnixNano()/1000, at.UnixNano()/1000+int64(i), source.Uint64())
	}
	return b.Bytes()
}

// used is the processor time of the store so far, and the most memory that it had.
func (s *logsStore) used() (processor time.Duration, memory uint64) {
	s.t.Helper()
	return (&metricsStore{t: s.t, cmd: s.cmd}).used()
}

// A store of 200 nodes that log as much as they may takes as much as the documentation says, and finds a rare word.
func TestWhatTheStoreOfLogsTakes(t *testing.T) {
	if !soaks() {
		t.Skip("elsewhere: `make soak` runs it, by SPORE_SOAK=1: it takes minutes of all processors")
	}
	s := newLogsStore(t)
	s.start()
	source := rand.New(rand.NewPCG(7, 27))

	// A minute of all nodes, each batch as large as one of 200 nodes is.
	before, _ := s.used()
	began := time.Now()
	const each = 250
	plain := 0
	for sent := 0; sent < 60*linesASecond; sent += each {
		lines := journalLines(source, time.Now(), each)
		plain += len(lines)
		require.NoError(t, s.insert(lines))
		if early := time.Until(began.Add(time.Duration(sent) * time.Second / linesASecond)); early > 0 {
			time.Sleep(early)
		}
	}
	took := time.Since(began)
	after, memory := s.used()
	cores := (after - before).Seconds() / took.Seconds()
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, s.cmd.Wait())
	s.start()
	size := s.metric("vl_data_size_bytes")
	t.Logf("%d lines/s in %s: %.2f processors, %d MiB of memory; a line of %d bytes as JSON fills %.1f; a day of that fills %.1f GiB",
		linesASecond, took.Round(time.Second), cores, memory>>20, plain/(60*linesASecond), size/(60*linesASecond), size/(60*linesASecond)*linesASecond*86400/(1<<30))

	// Many lines in the last hour, and one with a rare word.
	most := 10_000_000
	if text := os.Getenv("SPORE_SOAK_LINES"); text != "" {
		var err error
		most, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	filling := time.Now()
	var all sync.WaitGroup
	for worker := range 2 {
		all.Go(func() {
			source := rand.New(rand.NewPCG(uint64(worker), 27))
			for n := 0; n < most/2 && time.Since(filling) < 5*time.Minute; n += 5000 {
				at := time.Now().Add(-time.Hour + time.Duration(float64(n)/float64(most)*2*float64(50*time.Minute)))
				if err := s.insert(journalLines(source, at, 5000)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	took = time.Since(filling)
	rare := bytes.Replace(journalLines(source, time.Now().Add(-20*time.Minute), 1), []byte(`"_msg":"`), []byte(`"_msg":"the needle-7f3a is here: `), 1)
	require.NoError(t, s.insert(rare))
	s.becomes(`_time:1h "needle-7f3a"`, 1)
	lines := s.count("_time:1h")
	for _, row := range s.query("_time:1h | block_stats | stats by (field) sum(values_bytes) values, sum(bloom_bytes) blooms | sort by (values desc) | limit 8") {
		t.Logf("field %s: %s bytes, and %s of what finds words", row["field"], row["values"], row["blooms"])
	}
	for _, query := range []string{`_time:1h "needle-7f3a"`, `_time:1h _msg:~"needle-[0-9]f3a"`, `_time:1h _msg:~"ne+dle.*here"`, `_time:1h {node="node-007"} PRIORITY:="3" | sort by (_time) desc | limit 1000`} {
		asked := time.Now()
		before, _ := s.used()
		found := s.query(query)
		took := time.Since(asked).Round(time.Millisecond)
		after, _ := s.used()
		t.Logf("%d lines: %d found in %s, %s of processors: %s", lines, len(found), took, after-before, query)
		require.True(t, len(found) == 1 || strings.Contains(query, "limit"), query)
	}
	// What it has mapped of its files counts for the kernel, and goes when somebody needs the memory.
	anonymous := s.metric("process_resident_memory_anon_bytes")
	t.Logf("%.0f MiB of memory of its own after questions; filled at %.0f lines/s; %.1f bytes a line", anonymous/(1<<20),
		float64(lines)/took.Seconds(), s.metric("vl_data_size_bytes")/float64(lines))
	require.Less(t, memory, uint64(mostLogMemory))
	require.Less(t, cores, mostLogCores)
}
