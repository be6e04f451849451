//go:build e2e

package services

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What TestARareWordIsFoundInAStoreOfLogs has in its store: lines as 200 nodes with 20 units each write them, as many
// an hour as make a hundred million in a day.
const (
	rareNodes, rareUnits = 200, 20
	rareStep             = 864 * time.Microsecond
	rareHour             = int(time.Hour / rareStep)
	// rareChunk is how many lines are written node after node, and unit after unit: what all have said in some minutes.
	// The fewer lines of a stream come together, the more the store has to put together later.
	rareChunk, rarePosts = 2000 * rareNodes, 20
	// rareWord is in one line of each hour.
	rareWord = "xyzzy"
)

// rareLines writes lines as agent/logs/take writes those of a journal, but for the time, quicker than by that.
type rareLines struct {
	source *rand.Rand
	// fixed is what all lines of a unit of a node have in common, by node and unit.
	fixed [rareNodes][rareUnits]string
}

func newRareLines(seed uint64) *rareLines {
	r := &rareLines{source: rand.New(rand.NewPCG(seed, 7))}
	for n := range rareNodes {
		for u := range rareUnits {
			r.fixed[n][u] = fmt.Sprintf(`,"cluster":"plant","node":"node-%03d","role":"worker","_SPORE_SOURCE":"journal","_SYSTEMD_UNIT":"unit-%02d.service",`+
				`"SYSLOG_IDENTIFIER":"unit-%02d","SYSLOG_FACILITY":"3","_PID":"%d","_UID":"0","_GID":"0","_COMM":"unit-%02d","_EXE":"/usr/bin/unit-%02d",`+
				`"_CMDLINE":"/usr/bin/unit-%02d --config /run/unit/config.yaml","_CAP_EFFECTIVE":"0","_SYSTEMD_CGROUP":"/system.slice/unit-%02d.service",`+
				`"_SYSTEMD_SLICE":"system.slice","_BOOT_ID":"%032x","_MACHINE_ID":"%032x","_HOSTNAME":"node-%03d","_TRANSPORT":"stdout"`,
				n, u, u, 1000+u*7+n, u, u, u, u, n*31, n*37, n)
		}
	}
	return r
}

// append writes line i of a node.
func (r *rareLines) append(b []byte, node, i int, at time.Time, word string) []byte {
	number := func(most int, base int) { b = strconv.AppendInt(b, int64(r.source.IntN(most)), base) }
	unit := i % rareUnits
	b = append(b, `{"_time":"`...)
	b = strconv.AppendInt(b, at.UnixNano(), 10)
	b = append(b, `","_msg":"accepted connection `...)
	b = strconv.AppendInt(b, int64(i), 10)
	b = append(b, ` from 10.77.`...)
	number(256, 10)
	b = append(b, '.')
	number(256, 10)
	b = append(b, ':')
	number(65536, 10)
	b = append(append(append(b, ` for `...), word...), ' ')
	b = strconv.AppendUint(b, r.source.Uint64(), 16)
	b = append(b, `, took `...)
	number(100_000, 10)
	b = append(b, ` µs","PRIORITY":"`...)
	b = strconv.AppendInt(b, int64(3+r.source.IntN(4)), 10)
	b = append(append(b, '"'), r.fixed[node][unit]...)
	// s and b of a cursor are the same for a node, i counts, and m and t are times (sd_journal_get_cursor(3)).
	b = append(b, `,"__CURSOR":"s=5d1f0c6a9b7e4f2a8c3d6e1b0a9f7`...)
	b = strconv.AppendInt(b, int64(100+node), 10)
	b = append(b, `;i=`...)
	b = strconv.AppendInt(b, int64(i), 16)
	b = append(b, `;b=0c2a7b9e4d1f4c5b9a8e7d6c5b4a3`...)
	b = strconv.AppendInt(b, int64(100+node), 10)
	b = append(b, `;m=`...)
	b = strconv.AppendInt(b, int64(i)*1000, 16)
	b = append(b, `;t=`...)
	b = strconv.AppendInt(b, at.UnixMicro(), 16)
	b = append(b, `;x=`...)
	b = strconv.AppendUint(b, r.source.Uint64(), 16)
	return append(b, "\"}\n"...)
}

// fill has as many lines in a store as nodes have written up to now, in the order of time, or as many of them as there
// is time for. It returns how many there are, and the time of the last.
func (s *askedStore) fill(most int, long time.Duration) (lines int, last time.Time) {
	s.t.Helper()
	const writers = 2
	now := time.Now().UTC()
	began := now.Add(-rareStep * time.Duration(most))
	type request struct{ first, node, nodes int }
	requests := make(chan request)
	var work sync.WaitGroup
	for w := range writers {
		work.Go(func() {
			made, b := newRareLines(uint64(w)), []byte(nil)
			for r := range requests {
				b = b[:0]
				for node := r.node; node < r.node+r.nodes; node++ {
					for unit := range rareUnits {
						for i := r.first + node + unit*rareNodes; i < r.first+rareChunk; i += rareNodes * rareUnits {
							word := "job"
							if i%rareHour == rareHour/20 {
								word = rareWord
							}
							b = made.append(b, node, i/rareNodes, began.Add(time.Duration(i)*rareStep), word)
						}
					}
				}
				s.post(askedStreams, bytes.NewReader(b))
			}
		})
	}
	for ; lines < most && time.Since(now) < long; lines += rareChunk {
		for part := range rarePosts {
			requests <- request{lines, part * rareNodes / rarePosts, rareNodes / rarePosts}
		}
		if done := lines + rareChunk; done%(10*rareChunk) == 0 {
			s.t.Logf("%d lines after %s", done, time.Since(now).Round(time.Second))
		}
	}
	close(requests)
	work.Wait()
	s.post("/internal/force_flush", nil)
	return lines, began.Add(time.Duration(lines-1) * rareStep)
}

// rareBound is how long a search for a rare word in the last hour may take.
const rareBound = 2 * time.Second

// A rare word in the last hour is found within two seconds in a store with 100 million lines of a day. The last hour
// has 4.2 million of them. The short count has few.
func TestARareWordIsFoundInAStoreOfLogs(t *testing.T) {
	most, long := rareChunk, 10*time.Minute
	if soaks() {
		most, long = 100_000_000, 3*time.Hour
	}
	for name, set := range map[string]func(string) error{
		"SPORE_LINES": func(v string) (err error) { most, err = strconv.Atoi(v); return err },
		"SPORE_LONG":  func(v string) (err error) { long, err = time.ParseDuration(v); return err },
	} {
		if v := os.Getenv(name); v != "" {
			require.NoError(t, set(v), name)
		}
	}
	s := newAskedStore(t)
	began := time.Now()
	lines, last := s.fill(most, long)
	fed := time.Since(began)
	processor, _ := (&metricsStore{t: t, cmd: s.cmd}).used()
	size := s.size()
	t.Logf("%d lines, written in %s with %s of processors of VictoriaLogs; they fill %d MiB, %.1f bytes a line", lines,
		fed.Round(time.Second), processor.Round(time.Second), size>>20, float64(size)/float64(lines))
	for _, c := range []struct {
		name  string
		since time.Duration
		grep  string
		want  int
		bound time.Duration
	}{
		{"a whole word", time.Hour, `\b` + rareWord + `\b`, 1, rareBound},
		{"a part of a word", time.Hour, rareWord[:4], 1, 0},
		{"whole words with others", time.Hour, `for ` + rareWord + ` [0-9a-f]+, took`, 1, 0},
		{"an expression", time.Hour, `xy+zzy|plugh`, 1, 0},
		{"a word that is nowhere", 24 * time.Hour, `\bplugh\b`, 0, 0},
		{"the last lines", 0, "", 100, 2 * time.Second},
		{"many lines", time.Hour, "", 5_000, 0},
	} {
		arguments := map[string]string{"until": last.Format(time.RFC3339Nano)}
		if c.since > 0 {
			arguments["since"] = last.Add(time.Nanosecond - c.since).Format(time.RFC3339Nano)
		}
		if c.grep != "" {
			arguments["grep"] = c.grep
		}
		if c.want > 100 {
			arguments["lines"] = strconv.Itoa(c.want)
		}
		// The best of three: what else the machine does is not counted.
		took, cost := time.Hour, time.Hour
		for range 3 {
			before, _ := (&metricsStore{t: t, cmd: s.cmd}).used()
			began := time.Now()
			got, _, err := s.query(arguments)
			took = min(took, time.Since(began))
			after, _ := (&metricsStore{t: t, cmd: s.cmd}).used()
			cost = min(cost, after-before)
			require.NoError(t, err, c.name)
			require.Equal(t, c.want, len(got), c.name)
		}
		t.Logf("%s (%s %s): %s, with %s of processors", c.name, c.since, c.grep, took.Round(time.Millisecond), cost)
		if c.bound > 0 {
			// A search that has the cores for itself takes no longer than its processor time.
			require.LessOrEqual(t, min(took, cost), c.bound, c.name)
		}
	}
	_, memory := (&metricsStore{t: t, cmd: s.cmd}).used()
	t.Logf("VictoriaLogs has taken %d MiB of memory at most", memory>>20)
	load, err := os.ReadFile("/proc/loadavg")
	require.NoError(t, err)
	t.Logf("load of the machine: %s", strings.TrimSpace(string(load)))
	require.GreaterOrEqual(t, lines, most, "there was not the time for all lines")
}

// size is what the files of a store fill, in bytes.
func (s *askedStore) size() (bytes int64) {
	s.t.Helper()
	require.NoError(s.t, filepath.WalkDir(s.data, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // It puts files together.
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		bytes += info.Size()
		return nil
	}))
	return bytes
}
