package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// result is what came of one target.
type result struct {
	target
	execs, perSecond int64
	// fresh inputs are those that reached new code, known all that are kept of such.
	fresh, known int64
	took         time.Duration
	// input is the file with what broke the target; failure what go test said.
	input, failure string
}

func (r result) verdict() string {
	switch {
	case r.failure == "":
		return "ok"
	case r.input != "":
		return "broken by " + r.input
	default:
		return "failed"
	}
}

// minimize is how long go test makes one input smaller. Its own minute would be all of the time of a target with large inputs.
const minimize = "1s"

// fuzz runs one target.
func fuzz(ctx context.Context, t target, o options) result {
	args := []string{"test", "-run", "^$", "-fuzz", "^" + t.name + "$", "-fuzztime", o.each.String(), "-fuzzminimizetime", minimize}
	if o.workers > 0 {
		args = append(args, "-parallel", strconv.Itoa(o.workers))
	}
	cmd := exec.CommandContext(ctx, "go", append(args, t.pkg)...)
	cmd.Dir = t.module
	start := time.Now()
	text, err := cmd.CombinedOutput()
	r := read(string(text))
	r.target, r.took = t, time.Since(start)
	if err != nil && !endOfTime(string(text)) {
		r.failure = strings.TrimSpace(string(text))
	}
	if r.input != "" {
		r.input = filepath.Join(t.dir, r.input)
	}
	return r
}

var (
	progress = regexp.MustCompile(`(?m)^fuzz: elapsed: (\S+), execs: (\d+) \((\d+)/sec\), new interesting: (\d+) \(total: (\d+)\)`)
	written  = regexp.MustCompile(`(?m)^\s*Failing input written to (\S+)`)
)

// read takes the last line of progress, and where a failing input is, from what go test says.
func read(text string) result {
	var r result
	if all := progress.FindAllStringSubmatch(text, -1); len(all) > 0 {
		last := all[len(all)-1]
		for i, into := range []*int64{&r.execs, nil, &r.fresh, &r.known} {
			if into != nil {
				*into, _ = strconv.ParseInt(last[2+i], 10, 64) // the expression lets only digits through
			}
		}
		if d, err := time.ParseDuration(last[1]); err == nil && d > 0 {
			r.perSecond = int64(float64(r.execs) / d.Seconds())
		}
	}
	if m := written.FindStringSubmatch(text); m != nil {
		r.input = m[1]
	}
	return r
}

// endOfTime recognises a run that go test calls failed only because its time ended while a worker was busy
// (https://go.dev/issue/48591, https://go.dev/issue/56238): nothing but the end of the context is named, and no input.
func endOfTime(text string) bool {
	return strings.Contains(text, "    context deadline exceeded\n") && !written.MatchString(text) && !strings.Contains(text, "panic")
}

// table prints the results as a table of Markdown.
func table(w io.Writer, results []result) {
	fmt.Fprintln(w, "| package | target | inputs tried | a second | new | kept | result |")
	fmt.Fprintln(w, "|---|---|--:|--:|--:|--:|---|")
	var execs int64
	for _, r := range results {
		verdict := "ok"
		if r.failure != "" {
			verdict = "broken"
		}
		fmt.Fprintf(w, "| %s | %s | %d | %d | %d | %d | %s |\n", strings.TrimPrefix(r.pkg, "spore/"), r.name, r.execs, r.perSecond, r.fresh, r.known, verdict)
		execs += r.execs
	}
	fmt.Fprintf(w, "\n%d targets, %d inputs\n", len(results), execs)
}
