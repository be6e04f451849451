package xz

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	fallback "github.com/mikelolasagasti/xz"
	"github.com/stretchr/testify/require"
	ulikunitz "github.com/ulikunitz/xz"
	"golang.org/x/sys/unix"
)

// BenchmarkDecoders compares the decoders on the .xz file that SPORE_XZ names, such as the data.tar.xz of a package.
func BenchmarkDecoders(b *testing.B) {
	name := os.Getenv("SPORE_XZ")
	if name == "" {
		b.Skip("SPORE_XZ names no file")
	}
	packed, err := os.ReadFile(name)
	require.NoError(b, err)
	for _, d := range []struct {
		name string
		open func(io.Reader) (io.Reader, error)
	}{
		{"spore", func(r io.Reader) (io.Reader, error) { return NewReader(r, Options{}) }},
		{"mikelolasagasti", func(r io.Reader) (io.Reader, error) { return fallback.NewReader(r, 0) }},
		{"ulikunitz", func(r io.Reader) (io.Reader, error) { return ulikunitz.NewReader(r) }},
	} {
		b.Run(d.name, func(b *testing.B) {
			best := time.Duration(1 << 62)
			for b.Loop() {
				start := processorTime()
				r, err := d.open(bytes.NewReader(packed))
				require.NoError(b, err)
				n, err := io.Copy(io.Discard, r)
				require.NoError(b, err)
				b.SetBytes(n)
				best = min(best, processorTime()-start)
			}
			b.ReportMetric(best.Seconds()*1000, "best-cpu-ms")
		})
	}
}

// processorTime is what this process has used of the processors. The clock says little on a machine that others use too.
func processorTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
