package nvcounter

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// memory is a TPM that loses its power after a number of steps.
type memory struct {
	id    string
	count uint64
	steps int
	fails bool
}

func (m *memory) ID() string { return m.id }

func (m *memory) Count() (uint64, error) {
	if m.fails {
		return 0, errors.New("no answer")
	}
	return m.count, nil
}

func (m *memory) Increment() error {
	if m.steps == 0 {
		return errors.New("no power")
	}
	m.steps--
	m.count++
	return nil
}

func tpm(count uint64) *memory { return &memory{id: "a", count: count, steps: math.MaxInt} }

// take is what a node does with a serial.
func take(t *testing.T, d *memory, b *Bound, serial uint64) *Bound {
	t.Helper()
	next, err := Bind(d, b, serial)
	require.NoError(t, err)
	require.NoError(t, Reach(d, next, serial))
	return &next
}

func floor(t *testing.T, d *memory, b *Bound) uint64 {
	t.Helper()
	got, err := Floor(d, b)
	require.NoError(t, err)
	return got
}

func TestAnOlderRecordIsFoundOut(t *testing.T) {
	d := tpm(1000) // Other programs had counters before.
	first := take(t, d, nil, 5)
	require.EqualValues(t, 1000, d.count, "the first use wears nothing out")
	require.EqualValues(t, 5, floor(t, d, first))
	second := take(t, d, first, 6)
	third := take(t, d, second, 9)
	require.EqualValues(t, 1004, d.count, "one step a serial")
	for _, older := range []*Bound{first, second, third} {
		require.EqualValues(t, 9, floor(t, d, older), "whichever copy it is")
	}
	require.EqualValues(t, 9, floor(t, d, take(t, d, third, 9)))
	require.EqualValues(t, 1004, d.count, "what was taken before is not counted again")
}

func TestAFarSerialIsOneStep(t *testing.T) {
	d := tpm(10)
	first := take(t, d, nil, 5)
	far := take(t, d, first, 5000)
	require.EqualValues(t, 11, d.count)
	require.EqualValues(t, 5000, floor(t, d, far))
	require.EqualValues(t, 6, floor(t, d, first), "an older copy knows less, and that something came after it")
	require.EqualValues(t, 5001, floor(t, d, take(t, d, far, 5001)))
}

func TestACutBetweenTheRecordAndTheCounter(t *testing.T) {
	for name, serial := range map[string]uint64{"near": 9, "far": 5000} {
		for steps := range 5 {
			t.Run(name, func(t *testing.T) {
				d := tpm(10)
				first := take(t, d, nil, 5)
				next, err := Bind(d, first, serial)
				require.NoError(t, err)
				d.steps = steps
				_ = Reach(d, next, serial)
				require.LessOrEqual(t, floor(t, d, &next), serial, "the node takes again what it was to take")
				d.steps = math.MaxInt
				again, err := Bind(d, &next, serial)
				require.NoError(t, err)
				require.Equal(t, next, again)
				require.NoError(t, Reach(d, again, serial))
				require.Equal(t, serial, floor(t, d, &again))
			})
		}
	}
}

func TestWhoMovesTheCounterMakesTheNodeRefuseMore(t *testing.T) {
	d := tpm(10)
	b := take(t, d, nil, 5)
	d.count = 500 // Removed and made again, or cleared, where another program had counted to 499.
	require.EqualValues(t, 495, floor(t, d, b))
	forced := take(t, d, b, 6)
	require.EqualValues(t, 500, d.count)
	require.EqualValues(t, 6, floor(t, d, forced), "the operator's word binds it anew")
	require.EqualValues(t, 495, floor(t, d, b), "and an older copy still knows less")
}

func TestAnotherTPMKnowsNothing(t *testing.T) {
	b := take(t, tpm(10), nil, 5)
	other := tpm(70_000)
	other.id = "b"
	require.Zero(t, floor(t, other, b), "the board was replaced")
	require.Zero(t, floor(t, other, nil))
	require.EqualValues(t, 6, floor(t, other, take(t, other, b, 6)))
}

func TestACounterThatGoesBack(t *testing.T) {
	d := tpm(1000)
	b := take(t, d, nil, 5)
	d.count = 1 // No TPM should, and the record counts then.
	require.Zero(t, floor(t, d, b))
	require.EqualValues(t, 6, floor(t, d, take(t, d, b, 6)))
}

func TestATPMThatDoesNotAnswer(t *testing.T) {
	d := tpm(1)
	b := take(t, d, nil, 5)
	d.fails = true
	_, err := Floor(d, b)
	require.ErrorContains(t, err, "no answer")
	_, err = Bind(d, b, 6)
	require.ErrorContains(t, err, "no answer")
	require.ErrorContains(t, Reach(d, *b, 6), "no answer")
	d.fails, d.steps = false, 0
	require.ErrorContains(t, Reach(d, *b, 6), "no power")
	require.ErrorContains(t, Reach(d, *b, 600), "too far")
}
