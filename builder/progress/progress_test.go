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

func TestASilentPrinterPrintsNothing(t *testing.T) {
	var p *Printer
	s := p.Step("x")
	s.Update("y")
	s.Done()
	p.Printf("z")
}
