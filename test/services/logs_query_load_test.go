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

// fill has lines in a store as 200 nodes write them with 50 lines a second each, up to now, for as long as it may take
// or until there are enough. One in the last minute has the word xyzzy. It returns how many there are.
func (s *askedStore) fill(most int, long time.Duration) int {
	s.t.Helper()
	const step, batch, writers = 100 * time.Microsecond, 50_000, 2
	now := time.Now().UTC()
	began := now.Add(-time.Duration(most) * step)
	rare := most / 2
	if most > 1_000_000 {
		rare = 250_000
	}
	var mu sync.Mutex
	done, first := 0, most // Lines are made from the newest on, so that the last hour is there when the time is up.
	var work sync.WaitGroup
	for w := range writers {
		work.Go(func() {
			source := rand.New(rand.NewPCG(uint64(w), 7))
			for {
				mu.Lock()
				if first == 0 || time.Since(now) > long {
					mu.Unlock()
					return
				}
				end := first
				first = max(first-batch, 0)
				begin := first
				mu.Unlock()
				var b bytes.Buffer
				for i := begin; i < end; i++ {
					at := began.Add(time.Duration(i) * step)
					node, word := i%200, "job"
					if most-i == rare {
						word = "xyzzy"
					}
					fmt.Fprintf(&b, `{"_time":"%s","_msg":"accepted connection %d from 10.77.%d.%d:%d for %s %x, took %d µs","node":"node-%03d","cluster":"plant",`+
						`"role":"worker","_SPORE_SOURCE":"journal","_SYSTEMD_UNIT":"unit-%d.service","_PID":"%d","PRIORITY":"6","_TRANSPORT":"stdout",`+
						`"SYSLOG_IDENTIFIER":"unit-%d","_BOOT_ID":"%032x","__CURSOR":"s=%032x;i=%x","__REALTIME_TIMESTAMP":"%d"}`+"\n",
						at.Format(time.RFC3339Nano), i, source.IntN(256), source.IntN(256), source.IntN(65536), word, source.Uint64(), source.IntN(100000),
						node, i/200%20, 300+i/200%20, i/200%20, node, node, i, at.UnixMicro())
				}
				s.post(askedStreams, &b)
				mu.Lock()
				done += end - begin
				mu.Unlock()
			}
		})
	}
	work.Wait()
	s.post("/internal/force_flush", nil)
	return done
}

// A rare word in the last hour is found within two seconds in a store with 100 million lines. The short count has few,
// and the long one as many as some minutes give.
func TestARareWordIsFoundInAStoreOfLogs(t *testing.T) {
	most, long := 500_000, time.Minute
	if soaks() {
		most, long = 100_000_000, 8*time.Minute
	}
	if n, err := strconv.Atoi(os.Getenv("SPORE_LINES")); err == nil {
		most = n
	}
	s := newAskedStore(t)
	began := time.Now()
	lines := s.fill(most, long)
	t.Logf("%d lines, written in %s", lines, time.Since(began).Round(time.Second))
	for _, c := range []struct {
		name, since, grep string
		want              int
		bound             time.Duration
	}{
		{"a whole word", "1h", `\bxyzzy\b`, 1, 2 * time.Second},
		{"a part of a word", "1h", `xyzz`, 1, 0},
		{"whole words with others", "1h", `for xyzzy [0-9a-f]+, took`, 1, 0},
		{"an expression", "1h", `xy+zzy|plugh`, 1, 0},
		{"a word that is nowhere", "24h", `\bplugh\b`, 0, 0},
		{"the last lines", "", "", 100, 2 * time.Second},
		{"many lines", "1h", "", 50_000, 0},
	} {
		arguments := map[string]string{}
		if c.since != "" {
			ago, err := time.ParseDuration(c.since)
			require.NoError(t, err)
			arguments["since"] = time.Now().Add(-ago).UTC().Format(time.RFC3339)
		}
		if c.grep != "" {
			arguments["grep"] = c.grep
		}
		if c.want > 100 {
			arguments["lines"] = strconv.Itoa(c.want)
		}
		// The best of three: what else the machine does is not counted.
		took := time.Hour
		for range 3 {
			began := time.Now()
			got, _, err := s.query(arguments)
			took = min(took, time.Since(began))
			require.NoError(t, err, c.name)
			require.Len(t, got, min(c.want, lines), c.name)
		}
		t.Logf("%s (%s): %s", c.name, strings.TrimSpace(c.since+" "+c.grep), took.Round(time.Millisecond))
		if c.bound > 0 {
			require.LessOrEqual(t, took, c.bound, c.name)
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	require.NoError(t, err)
	_, memory, _ := strings.Cut(string(status), "VmHWM:")
	memory, _, _ = strings.Cut(memory, "\n")
	t.Logf("VictoriaLogs has taken %s of memory at most", strings.TrimSpace(memory))
}
