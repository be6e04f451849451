package chance

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARunHasItsOwnSeedUnlessOneIsGiven(t *testing.T) {
	next := uint32(0)
	random := func() uint32 { next++; return next }
	for text, want := range map[string]uint64{"20260115": 20260115, "0": 0, "18446744073709551615": 1<<64 - 1} {
		got, err := read(text, random)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Zero(t, next, "nothing is chosen where a seed is given")
	for want := range uint64(3) {
		got, err := read("", random)
		require.NoError(t, err)
		require.Equal(t, want+1, got, "a new one each time")
	}
	for _, text := range []string{"x", "-1", "1.5", "18446744073709551616"} {
		_, err := read(text, random)
		require.ErrorContains(t, err, Variable+` is "`+text+`": write a number`)
	}
}

// printed is a test that keeps what it prints.
type printed struct {
	*testing.T
	lines []string
}

func (p *printed) Logf(format string, args ...any) {
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}

func TestTheSeedIsPrintedAndTheSameThroughoutARun(t *testing.T) {
	p := &printed{T: t}
	first, second := Seed(p), Seed(p)
	require.Equal(t, first, second)
	line := fmt.Sprintf("SPORE_SEED=%d repeats this run", first)
	require.Equal(t, []string{line, line}, p.lines)
}
