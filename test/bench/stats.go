package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// median is the middle of the values, or the mean of the two in the middle; 0 of none.
func median[T ~int64 | ~float64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	s := slices.Clone(values)
	slices.SortFunc(s, cmp.Compare[T])
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// middle is the median of each quantity by itself, and the largest memory.
func middle(list []Usage) Usage {
	var u Usage
	each := func(of func(Usage) time.Duration) time.Duration {
		values := make([]time.Duration, len(list))
		for i, v := range list {
			values[i] = of(v)
		}
		return median(values)
	}
	u.CPU = each(func(v Usage) time.Duration { return v.CPU })
	u.Wall = each(func(v Usage) time.Duration { return v.Wall })
	u.Apart = each(func(v Usage) time.Duration { return v.Apart })
	for _, v := range list {
		u.Memory = max(u.Memory, v.Memory)
	}
	return u
}

// ratio is a/b; not a number where b is nothing.
func ratio(a, b time.Duration) float64 {
	if b <= 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}

// Goal is something that a measurement is to be at most.
type Goal struct {
	// Text says it with its limit. Value and Limit are compared; a Value that is not a number is one that was not measured.
	Text         string
	Value, Limit float64
}

// Met is yes, no or, where nothing was measured, not measured.
func (g Goal) Met() string {
	switch {
	case math.IsNaN(g.Value):
		return "not measured"
	case g.Value <= g.Limit:
		return "yes"
	}
	return "**no**"
}

// Measured is the value as the table shows it.
func (g Goal) Measured() string {
	if math.IsNaN(g.Value) {
		return "–"
	}
	return number(g.Value)
}

// number has two digits that count, and no more than two behind the point.
func number(v float64) string {
	switch {
	case math.Abs(v) >= 99.5:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 9.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// secondsAtMost is a goal for processor time.
func secondsAtMost(d time.Duration, limit float64) Goal {
	return Goal{Text: fmt.Sprintf("≤ %g CPU-s", limit), Value: d.Seconds(), Limit: limit}
}

// timesAtMost is a goal for a ratio. fraction is the limit as people say it, such as 1/3.
func timesAtMost(a, b time.Duration, limit float64, fraction, of string) Goal {
	return Goal{Text: fmt.Sprintf("≤ %s × %s", fraction, of), Value: ratio(a, b), Limit: limit}
}
