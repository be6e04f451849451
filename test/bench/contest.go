package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"
)

// coldRow is the row from whose processor time the compiler's is taken out.
const coldRow = "cold: packages cached, nothing else"

// measurement does a piece of work once; rounds count from 1.
type measurement func(ctx context.Context, round int) (Usage, error)

// contest is a row whose contenders are measured in turn.
type contest struct {
	what               string
	ours, mkosi, floor measurement
	// goals are made of the medians, and a contender that did not take part is nothing.
	goals func(ours, mkosi, floor Usage) []Goal

	Samples map[string][]Usage
}

// hold measures each contest once in each round, its contenders one after the other: what slows the machine down for minutes
// slows all of them.
func hold(ctx context.Context, b *bench, contests []*contest, rounds int) error {
	for round := 1; round <= rounds; round++ {
		for _, c := range contests {
			for _, m := range []struct {
				name string
				run  measurement
			}{{"spore", c.ours}, {"floor", c.floor}, {"mkosi", c.mkosi}} {
				if m.run == nil {
					continue
				}
				u, err := m.run(ctx, round)
				if err != nil {
					return fmt.Errorf("%s: %s, round %d: %w", c.what, m.name, round, err)
				}
				if c.Samples == nil {
					c.Samples = map[string][]Usage{}
				}
				c.Samples[m.name] = append(c.Samples[m.name], u)
				b.say("round %d: %s: %s %.2f CPU-s, %.2f s, %s MiB", round, c.what, m.name, u.CPU.Seconds(), u.Wall.Seconds(), mebibytes(u.Memory))
			}
		}
	}
	return nil
}

// rows are the medians of contests.
func rows(contests []*contest) []Row {
	var out []Row
	for _, c := range contests {
		of := func(name string) *Usage {
			if len(c.Samples[name]) == 0 {
				return nil
			}
			u := middle(c.Samples[name])
			return &u
		}
		r := Row{What: c.what, Ours: of("spore"), Mkosi: of("mkosi"), Floor: of("floor")}
		if c.goals != nil {
			r.Goals = c.goals(value(r.Ours), value(r.Mkosi), value(r.Floor))
		}
		out = append(out, r)
	}
	return out
}

func value(u *Usage) Usage {
	if u == nil {
		return Usage{}
	}
	return *u
}

// keepSamples writes every measurement to a file beside the caches.
func keepSamples(b *bench, contests []*contest) error {
	all := map[string]map[string][]Usage{}
	for _, c := range contests {
		all[c.what] = c.Samples
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.work, "samples.json"), append(text, '\n'), 0o644)
}

// within is the goal of so many seconds for ours.
func within(limit float64) func(ours, mkosi, floor Usage) []Goal {
	return func(ours, _, _ Usage) []Goal { return []Goal{secondsAtMost(ours.CPU, limit)} }
}

// buildContests are the rows of the small image. The order matters: what is unchanged is built from what the last round left,
// and the edits after it start from there.
func buildContests(o *ours, m *mkosi, floor measurement) []*contest {
	cold := &contest{what: coldRow, ours: o.cold, floor: floor, goals: coldGoals}
	list := []*contest{
		cold,
		{what: "nothing changed", ours: o.unchanged, goals: within(0.1)},
		{what: "`cluster.yaml` changed", ours: o.warm(o.editCluster), goals: within(0.3)},
		{what: "one file of `overlay/` changed", ours: o.warm(o.editOverlay), goals: within(1)},
		{what: "a package added", ours: o.added, goals: within(1.5)},
		{what: "of the cold build: scripts of packages replayed", ours: o.replay, goals: func(ours, _, _ Usage) []Goal {
			return []Goal{timesAtMost(ours.CPU, middle(cold.Samples["spore"]).CPU, 0.1, "1/10", "cold")}
		}},
	}
	if m == nil {
		return list
	}
	for i, run := range []measurement{
		m.cold, m.warm(func(int) error { return nil }), m.warm(m.editFile("cluster.yaml")), m.warm(m.editFile("bench")), m.added,
	} {
		list[i].mkosi = run
	}
	return list
}

func coldGoals(ours, mkosi, floor Usage) []Goal {
	return []Goal{timesAtMost(ours.CPU, floor.CPU, 1.5, "1.5", "floor"), timesAtMost(ours.CPU, mkosi.CPU, 0.25, "1/4", "mkosi")}
}

// floorMeasurement runs the floor as a process of its own.
func floorMeasurement(b *bench, work string) measurement {
	return func(ctx context.Context, _ int) (Usage, error) {
		u, err := Run(ctx, b.log, nil, "", b.self, floorCommand, work)
		if err != nil {
			return u, err
		}
		text, err := os.ReadFile(work + apartSuffix)
		if err != nil {
			return u, err
		}
		u.Apart, err = addDurations(string(text))
		return u, err
	}
}

// fullContests are the rows of the image with everything. The relink may take what a copy of the image does besides its goal.
func fullContests(b *bench, o *ours) (cold, relink *contest) {
	cold = &contest{what: "full image: cold", ours: o.cold}
	relink = &contest{what: "full image: one file of `overlay/` changed", ours: func(ctx context.Context, round int) (Usage, error) {
		if _, err := o.unchanged(ctx, round); err != nil {
			return Usage{}, err
		}
		return o.warm(o.editOverlay)(ctx, round)
	}}
	relink.floor = func(ctx context.Context, _ int) (Usage, error) {
		to := filepath.Join(o.dir, "copy.img")
		defer os.Remove(to)
		return Run(ctx, b.log, nil, "", "cp", "--sparse=always", "--reflink=never", o.image(), to)
	}
	relink.goals = func(ours, _, copying Usage) []Goal {
		limit := 3 + copying.CPU.Seconds()
		return []Goal{{Text: fmt.Sprintf("≤ 3 CPU-s and a copy of the image (%s)", number(copying.CPU.Seconds())), Value: ours.CPU.Seconds(), Limit: limit}}
	}
	return cold, relink
}

// bootContests are the rows of the boots. Ours boots twice in a round, the second time from what the first has left; mkosi's
// image keeps nothing, so that all its boots are first ones.
func bootContests(s *boots) []*contest {
	var next Usage
	list := []*contest{
		{
			what: "first boot, kernel's first line to roles active",
			ours: func(ctx context.Context, _ int) (first Usage, err error) {
				first, next, err = s.oursTwice(ctx)
				return first, err
			},
			goals: func(ours, mkosi, _ Usage) []Goal {
				return []Goal{timesAtMost(ours.CPU, mkosi.CPU, 1.0/3, "1/3", "mkosi")}
			},
		},
		{what: "next boot", ours: func(context.Context, int) (Usage, error) { return next, nil }},
	}
	if s.mkosi != "" {
		list[0].mkosi = func(ctx context.Context, _ int) (Usage, error) { return s.theirs(ctx) }
	}
	return list
}

// memoryGoal is about the largest process of ours in any row.
func memoryGoal(list []Row) Goal {
	const limit = 300
	peak := math.NaN()
	for _, r := range list {
		if r.Ours != nil && r.Ours.Memory > 0 {
			peak = math.Max(float64(r.Ours.Memory)/(1<<20), zeroIfNaN(peak))
		}
	}
	return Goal{Text: fmt.Sprintf("≤ %d MiB", limit), Value: peak, Limit: limit}
}

func zeroIfNaN(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// compilerTime is the median of what the go command took in a row, which its processor time does not count.
func compilerTime(list []Row, what string) time.Duration {
	for _, r := range list {
		if r.What == what && r.Ours != nil {
			return r.Ours.Apart
		}
	}
	return 0
}
