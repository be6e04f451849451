package faults

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Draw chooses rows by a seed, as many as the budget of CPU time allows: rows are tried in an order by chance, and one
// that does not fit any more is left out. At least one row is drawn. Rows with a test of their own, and rows that boot
// no machine, are never drawn: each run has them anyway. Nor are those with Row.Soak. shared is what the machines of
// Row.Shares cost, once each. The answer is sorted.
func Draw[L any](rows []Row[L], seed uint64, budget time.Duration, shared map[string]time.Duration) []int {
	var able []int
	for i, r := range rows {
		if r.Own == "" && !r.Soak && (r.CPU > 0 || r.Shares != "") {
			able = append(able, i)
		}
	}
	rng := rand.New(rand.NewPCG(seed, 60))
	rng.Shuffle(len(able), func(i, j int) { able[i], able[j] = able[j], able[i] })
	var drawn []int
	on := map[string]bool{}
	for _, i := range able {
		cost := rows[i].CPU
		if s := rows[i].Shares; s != "" && !on[s] {
			cost += shared[s]
		}
		if cost > budget && len(drawn) > 0 {
			continue
		}
		budget -= cost
		on[rows[i].Shares] = true
		drawn = append(drawn, i)
	}
	slices.Sort(drawn)
	return drawn
}
