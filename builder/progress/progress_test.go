package progress

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAStepIsOnePlainLineWithItsDuration(t *testing.T) {
	var out bytes.Buffer
	clock := time.Unix(0, 0)
	p := New(&out, func() time.Time { return clock })
	s := p.Step("packages")
	s.Update("1 of 2")
	clock = clock.Add(1500 * time.Millisecond)
	s.Note("%d cached", 2)
	s.Done()
	require.Equal(t, "   1.50 s  packages     2 cached\n", out.String())
}

func TestALogIsNeverSilentForLongWhileAStepSaysHowFarItIs(t *testing.T) {
	var out bytes.Buffer
	clock := time.Unix(0, 0)
	p := New(&out, func() time.Time { return clock })
	s := p.Step("programs")
	for second := range 40 {
		clock = time.Unix(int64(second), 0)
		s.Update("%d of 40", second)
	}
	s.Done()
	require.Equal(t, "programs … 15 of 40\nprograms … 30 of 40\n  39.00 s  programs\n", out.String())
}

func TestTheRunningLineFitsTheTerminal(t *testing.T) {
	var out bytes.Buffer
	clock := time.Unix(0, 0)
	p := New(&out, func() time.Time { return clock })
	p.terminal, p.columns = true, func() int { return 12 }
	s := p.Step("programs")
	clock = clock.Add(time.Second)
	s.Update("kube")
	s.Update("too early to be drawn")
	require.Equal(t, "\r\x1b[Kprograms …\r\x1b[Kprograms ……", out.String())
	require.Equal(t, "wide enough", cut("wide enough", 0))
	require.Equal(t, "wide enough", cut("wide enough", 12))
}

func TestABarIsDrawn(t *testing.T) {
	for done, want := range map[float64]string{
		-1: "[....................]", 0: "[....................]", 0.5: "[##########..........]", 1: "[####################]", 2: "[####################]",
	} {
		require.Equal(t, want, Bar(done), done)
	}
}

func TestASilentPrinterPrintsNothing(t *testing.T) {
	var p *Printer
	s := p.Step("x")
	s.Update("y")
	s.Done()
	p.Printf("z")
}
