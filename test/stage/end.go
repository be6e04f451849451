package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spore/test/events"
	"spore/test/ledger"
)

// end runs once more what failed, and says what came of the run. Its last line is that of the skipped tests.
func end(ctx context.Context, out io.Writer, l ledger.Ledger, o options) (int, error) {
	began, err := l.Began()
	if err != nil {
		return 0, fmt.Errorf("when the run began: %w", err)
	}
	stages, stagesErr := l.Stages()
	failures, failuresErr := l.Failures()
	skips, skipsErr := l.Skips()
	if err := errors.Join(stagesErr, failuresErr, skipsErr); err != nil {
		return 0, err
	}
	if len(stages) == 0 {
		return 0, fmt.Errorf("no stage of the run has left a result in %s", string(l))
	}
	var deadline time.Time
	if o.limit > 0 {
		deadline = began.Add(o.limit)
	}
	var results []again
	if why := refuse(stages, failures, o.most); why == "" {
		results, err = rerunAll(ctx, out, failures, deadline)
		if err != nil {
			return 0, err
		}
	} else {
		for _, f := range failures {
			results = append(results, again{Failure: f, why: why})
		}
	}
	if err := keepFlaky(o.flaky, results, time.Now()); err != nil {
		return 0, err
	}
	details, last := ledger.Skipped(skips, os.Geteuid())
	text, red := verdict(stages, results)
	// The table stands near the end, where it is seen when only the last lines of a log are kept.
	fmt.Fprint(out, "\n", details, table(stages, results, time.Since(began)), text, last)
	if red {
		return 1, nil
	}
	return 0, nil
}

// keepFlaky adds a line for each test that passed in its second run only.
func keepFlaky(name string, results []again, now time.Time) error {
	var b strings.Builder
	for _, a := range results {
		if a.passed && a.Kind == events.Failed {
			fmt.Fprintf(&b, "- %s %s: %s\n", now.Format(time.DateOnly), a.Name(), strings.Join(a.Why, " "))
		}
	}
	if name == "" || b.Len() == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(b.String())
	return errors.Join(err, f.Close())
}

// row is the line of a stage with the names of what failed in it; good says that all of that passed in second runs.
func row(s ledger.Stage, failed []string, good bool) string {
	result := "ok"
	switch {
	case len(failed) > 0 && good && s.Code == 0:
		result = "ok in second runs: " + listed(failed)
	case len(failed) > 0 || s.Code != 0:
		result = strings.TrimSpace("FAILED " + listed(failed))
	}
	return times(s) + "  " + result + "\n"
}

// namesIn names what failed in a stage.
func namesIn(stage string, failures []ledger.Failure) (names []string) {
	for _, f := range failures {
		if f.Stage == stage {
			names = append(names, f.Name())
		}
	}
	return names
}

func times(s ledger.Stage) string {
	return fmt.Sprintf("%-28s %7.1f s wall %7.1f s CPU", s.Name, s.Wall.Seconds(), s.CPU.Seconds())
}

// table says where the time went.
func table(stages []ledger.Stage, results []again, elapsed time.Duration) string {
	var failures []ledger.Failure
	second := ledger.Stage{Name: "second runs"}
	passed, runs := 0, 0
	bad := map[string]bool{} // stages
	for _, a := range results {
		failures = append(failures, a.Failure)
		second.Wall += a.took.Wall
		second.CPU += a.took.CPU
		if a.log != "" {
			runs++
		}
		if a.passed {
			passed++
		} else {
			bad[a.Stage] = true
		}
	}
	var b strings.Builder
	b.WriteString("\nWhere the time went:\n")
	sum := ledger.Stage{Name: "sum", Wall: second.Wall, CPU: second.CPU}
	for _, s := range stages {
		b.WriteString(row(s, namesIn(s.Name, failures), !bad[s.Name]))
		sum.Wall += s.Wall
		sum.CPU += s.CPU
	}
	if runs > 0 {
		fmt.Fprintf(&b, "%s  %d of %d passed\n", times(second), passed, runs)
	}
	fmt.Fprintf(&b, "%s  in %.1f s from begin to end\n", times(sum), elapsed.Seconds())
	return b.String()
}

// verdict says what failed, what it said and where its logs are, and as its last line whether the run is red.
func verdict(stages []ledger.Stage, results []again) (text string, red bool) {
	var b strings.Builder
	var bad, lucky []string
	for _, s := range stages {
		if s.Code != 0 {
			bad = append(bad, s.Name)
		}
	}
	for _, a := range results {
		name, what := a.Name(), "failed"
		if a.Kind == events.Unfinished {
			what = fmt.Sprintf("(%s) did not come to their end", strings.Join(a.Tests, ", "))
		}
		fmt.Fprintf(&b, "%s %s in %s", name, what, a.Stage)
		switch {
		case a.passed:
			fmt.Fprintf(&b, ", and passed alone in %.1f s:\n", a.took.Wall.Seconds())
			lucky = append(lucky, name)
		case a.log != "":
			fmt.Fprintf(&b, ", and failed alone in %.1f s:\n", a.took.Wall.Seconds())
			bad = append(bad, name)
		case a.Kind == events.Broken:
			b.WriteString(" outside of its tests:\n")
			bad = append(bad, name)
		default:
			fmt.Fprintf(&b, " and was not run once more (%s):\n", a.why)
			bad = append(bad, name)
		}
		for _, line := range a.Why {
			fmt.Fprintf(&b, "    %s\n", line)
		}
		fmt.Fprintf(&b, "  first log:  %s\n", a.File)
		if a.log != "" {
			fmt.Fprintf(&b, "  second log: %s\n", a.log)
		}
	}
	switch {
	case len(bad) > 0:
		fmt.Fprintf(&b, "FAILED: %s\n", listed(bad))
	case len(lucky) > 0:
		fmt.Fprintf(&b, "passed, but only in a second run: %s\n", listed(lucky))
	default:
		b.WriteString("passed\n")
	}
	return b.String(), len(bad) > 0
}

// listed names each once: stages may have a test in common.
func listed(names []string) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}
