package pods

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"spore/wire/journalexport"
)

// benchmarked is a reader of so many pods with two containers each, which have written so many lines each.
func benchmarked(b *testing.B, count, lines int) *reader {
	b.Helper()
	dir := b.TempDir()
	line := strings.Repeat(`{"level":"info","ts":"2026-11-26T12:00:00Z","msg":"request","path":"/api/v1/items"}`, 1)
	for i := range count {
		for _, name := range []string{"app", "side"} {
			folder := filepath.Join(dir, fmt.Sprintf("default_web-%d_0f6d3c52-9a6e-4f8f-9f0e-%012d", i, i), name)
			require.NoError(b, os.MkdirAll(folder, 0o755))
			var text strings.Builder
			for k := range lines {
				at := time.Date(2026, 11, 26, 12, 0, 0, k*1000+i, time.UTC)
				fmt.Fprintf(&text, "%s stdout F %s n=%d\n", at.Format(time.RFC3339Nano), line, k)
			}
			require.NoError(b, os.WriteFile(filepath.Join(folder, "0.log"), []byte(text.String()), 0o640))
		}
	}
	s := &Source{Dir: dir, State: b.TempDir(), Now: time.Now, Interval: time.Nanosecond, Say: func(string) {}}
	in, err := s.Open("1")
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, in.Close()) })
	return in.(*reader)
}

// BenchmarkIdle is what a look costs where nothing was written: 250 pods with 500 containers.
func BenchmarkIdle(b *testing.B) {
	r := benchmarked(b, 250, 10)
	for {
		batch, _ := r.read()
		if len(batch.Entries) == 0 {
			break
		}
		require.NoError(b, r.Done(batch))
	}
	time.Sleep(shortly) // Folders are looked at again for so long.
	r.read()
	before := processor(b)
	for b.Loop() {
		r.looked, r.scanned = time.Time{}, time.Time{}
		r.read()
	}
	b.ReportMetric(float64((processor(b)-before).Microseconds())/float64(b.N), "CPU-us/look")
}

// processor is the time of the processor that this process has taken.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLines is what 10,000 lines cost until they are compressed for the store, in the files of 20 containers.
func BenchmarkLines(b *testing.B) {
	out, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	require.NoError(b, err)
	sent, used := 0, time.Duration(0)
	for b.Loop() {
		b.StopTimer()
		r := benchmarked(b, 10, 500)
		b.StartTimer()
		before := processor(b)
		count := 0
		var data []byte
		for count < 10_000 {
			batch, _ := r.read()
			for _, e := range batch.Entries {
				data = journalexport.Append(data, e)
			}
			count += len(batch.Entries)
			require.NoError(b, r.Done(batch))
		}
		sent = len(out.EncodeAll(data, nil))
		used += processor(b) - before
	}
	b.ReportMetric(float64(used.Microseconds())/float64(b.N)/1000, "CPU-ms/10k")
	b.ReportMetric(float64(sent), "bytes/10k")
}
