package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"spore/test/chance"
	"spore/test/events"
	"spore/test/ledger"
)

// resultsVariable names the folder where tests leave tables and consoles.
const resultsVariable = "SPORE_RESULTS"

// options are those of the end of a run.
type options struct {
	// limit is how long a run may take from its begin, with second runs; 0 is without a limit. CI has one of its own,
	// and nobody sees what failed when that ends the run.
	limit time.Duration
	// most is how many tests may fail for a second run: more of them lost no race.
	most int
	// flaky is the file of tests that passed in a second run only.
	flaky string
}

// leastTime is what a second run needs to be worth its begin.
const leastTime = time.Minute

// again is what came of a failure after all stages.
type again struct {
	ledger.Failure
	passed bool
	// log is of the second run. It is empty when there was none, and why says the reason.
	log, why string
	took     ledger.Stage
}

// refuse says why nothing of a run has a second run, or nothing.
func refuse(stages []ledger.Stage, failures []ledger.Failure, most int) string {
	for _, s := range stages {
		if s.Code != 0 {
			return s.Name + " failed, which no test can make good"
		}
	}
	tests := map[events.Test]bool{} // stages may have one in common
	for _, f := range failures {
		switch f.Kind {
		case events.Broken:
			return f.Name() + " failed outside of its tests"
		case events.Failed:
			tests[events.Test{Package: f.Package, Name: f.Tests[0]}] = true
		}
	}
	if len(tests) > most {
		return fmt.Sprintf("%d tests failed: this is not a race", len(tests))
	}
	return ""
}

// rerunAll runs what failed once more, one after the other: first the tests that failed, then those that never came to
// their end, those of a package together, since nothing is said against them.
func rerunAll(ctx context.Context, out io.Writer, failures []ledger.Failure, deadline time.Time) ([]again, error) {
	order := slices.Clone(failures)
	slices.SortStableFunc(order, func(a, b ledger.Failure) int { return rank(a) - rank(b) })
	var all []again
	for _, f := range order {
		timeout, ok := allowed(f.Args.Timeout, deadline, time.Now())
		switch {
		case ctx.Err() != nil:
			all = append(all, again{Failure: f, why: "interrupted"})
		case !ok:
			all = append(all, again{Failure: f, why: "no time was left for a second run"})
		default:
			a, err := rerun(out, f, timeout)
			if err != nil {
				return all, fmt.Errorf("run %s once more: %w", f.Name(), err)
			}
			all = append(all, a)
		}
	}
	return all, nil
}

func rank(f ledger.Failure) int {
	if f.Kind == events.Failed {
		return 0
	}
	return 1
}

// allowed is the time limit of a second run: that of its stage, but not beyond the deadline, if there is one.
func allowed(timeout time.Duration, deadline, now time.Time) (time.Duration, bool) {
	if deadline.IsZero() {
		return timeout, true
	}
	left := deadline.Sub(now).Truncate(time.Second)
	if timeout == 0 || timeout > left {
		timeout = left
	}
	return timeout, left >= leastTime
}

// rerun runs the tests of a failure once more, with the machine to themselves.
func rerun(out io.Writer, f ledger.Failure, timeout time.Duration) (a again, err error) {
	fmt.Fprintf(out, "== once more, alone: %s\n", f.Name())
	a = again{Failure: f, log: f.Beside(".second.log")}
	log, err := os.Create(a.log)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	env, err := environment(f)
	if err != nil {
		return a, err
	}
	start := time.Now()
	o, err := events.Run(out, log, env, f.Args.Of(f.Package, f.Tests, timeout))
	if err != nil {
		return a, err
	}
	a.passed = o.Code == 0 && allPassed(f, o)
	a.took = ledger.Stage{Name: f.Name(), Wall: time.Since(start), CPU: o.CPU}
	if !a.passed {
		a.took.Code = 1
	}
	fmt.Fprint(out, row(a.took, nil, false))
	return a, nil
}

// allPassed wants every test by its name: go test is content with none. A test that failed has to pass; of those that
// never came to their end some may be skipped.
func allPassed(f ledger.Failure, o events.Outcome) bool {
	for _, test := range f.Tests {
		skipped := f.Kind == events.Unfinished && slices.ContainsFunc(o.Skips,
			func(s events.Skip) bool { return s.Package == f.Package && s.Test == test })
		if !skipped && !slices.Contains(o.Passed, events.Test{Package: f.Package, Name: test}) {
			return false
		}
	}
	return true
}

// seed is what test/chance prints.
var seed = regexp.MustCompile(chance.Variable + `=\d+\b`)

// environment is that of the first run. Consoles and tables go beside the log, as those of the first run are evidence;
// a seed is that of the first run, as what fails by its seed is no race.
func environment(f ledger.Failure) ([]string, error) {
	env := append(os.Environ(), f.Env...)
	if slices.ContainsFunc(f.Env, func(v string) bool { return strings.HasPrefix(v, resultsVariable+"=") }) {
		results := f.Beside(".results")
		if err := os.MkdirAll(results, 0o755); err != nil {
			return nil, err
		}
		env = append(env, resultsVariable+"="+results)
	}
	log, err := os.ReadFile(f.File)
	if err != nil {
		return nil, err
	}
	if found := seed.Find(log); found != nil {
		env = append(env, string(found))
	}
	return env, nil
}
