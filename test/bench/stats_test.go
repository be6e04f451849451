package main

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"of none", nil, 0},
		{"of one", []float64{3}, 3},
		{"is the middle in any order", []float64{9, 1, 2}, 2},
		{"is between the two in the middle", []float64{4, 1, 9, 2}, 3},
		{"does not heed one that is far off", []float64{1, 1, 1, 1000, 1}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := append([]float64(nil), c.values...)
			require.Equal(t, c.want, median(c.values))
			require.Equal(t, before, c.values, "the values keep their order")
		})
	}
}

func TestMiddleTakesEachQuantityByItself(t *testing.T) {
	got := middle([]Usage{
		{CPU: 1 * time.Second, Wall: 30 * time.Second, Memory: 5, Apart: 2},
		{CPU: 3 * time.Second, Wall: 10 * time.Second, Memory: 9, Apart: 6},
		{CPU: 2 * time.Second, Wall: 20 * time.Second, Memory: 7, Apart: 4},
	})
	require.Equal(t, Usage{CPU: 2 * time.Second, Wall: 20 * time.Second, Memory: 9, Apart: 4}, got, "memory is the most of all")
}

func TestRatio(t *testing.T) {
	require.Equal(t, 1.5, ratio(3*time.Second, 2*time.Second))
	require.True(t, math.IsNaN(ratio(time.Second, 0)), "of what was not measured")
}

func TestGoals(t *testing.T) {
	for _, c := range []struct {
		name          string
		goal          Goal
		measured, met string
	}{
		{"below", secondsAtMost(250*time.Millisecond, 0.3), "0.25", "yes"},
		{"at the limit", secondsAtMost(300*time.Millisecond, 0.3), "0.30", "yes"},
		{"above", secondsAtMost(310*time.Millisecond, 0.3), "0.31", "**no**"},
		{"a ratio below", timesAtMost(time.Second, 5*time.Second, 0.25, "1/4", "mkosi"), "0.20", "yes"},
		{"a ratio above", timesAtMost(2*time.Second, 5*time.Second, 0.25, "1/4", "mkosi"), "0.40", "**no**"},
		{"a ratio to what did not take part", timesAtMost(time.Second, 0, 0.25, "1/4", "mkosi"), "–", "not measured"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.measured, c.goal.Measured())
			require.Equal(t, c.met, c.goal.Met())
		})
	}
	require.Equal(t, "≤ 1/4 × mkosi", timesAtMost(1, 1, 0.25, "1/4", "mkosi").Text)
	require.Equal(t, "≤ 0.3 CPU-s", secondsAtMost(1, 0.3).Text)
}

func TestNumbersHaveTheDigitsThatCount(t *testing.T) {
	for v, want := range map[float64]string{0.004: "0.00", 0.1: "0.10", 9.949: "9.95", 9.96: "10.0", 99.4: "99.4", 99.6: "100", 1234.5: "1234"} {
		require.Equal(t, want, number(v))
	}
}

func TestMemoryGoal(t *testing.T) {
	require.Equal(t, "not measured", memoryGoal(nil).Met())
	rows := []Row{{Ours: &Usage{Memory: 100 << 20}}, {Ours: &Usage{Memory: 310 << 20}}, {Mkosi: &Usage{Memory: 900 << 20}}, {Ours: &Usage{}}}
	require.Equal(t, "310", memoryGoal(rows).Measured(), "mkosi's is not ours")
	require.Equal(t, "**no**", memoryGoal(rows).Met())
	require.Equal(t, "yes", memoryGoal(rows[:1]).Met())
}
