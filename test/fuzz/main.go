// Program fuzz runs every fuzz target of the modules given to it, each for a stated time, and prints what came of them. With
// -keep it takes what Go's fuzzer found interesting into testdata, where go test replays it.
//
//	go run ./test/fuzz -time 60s
//	go run ./test/fuzz -time 10s -run 'builder/(apt|deb)' -report table.md
//	go run ./test/fuzz -keep 32
//
// It exits with 1 when an input breaks a target, after all the others have had their time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"time"
)

func main() {
	var o options
	flag.DurationVar(&o.each, "time", time.Minute, "how long each target runs")
	flag.DurationVar(&o.total, "total", 0, "how long all of them run together at most; each then gets its part (default: no limit)")
	flag.IntVar(&o.workers, "parallel", 0, "workers of a target (default: what go test takes)")
	flag.IntVar(&o.keep, "keep", 0, "run nothing; keep up to so many interesting inputs of each target in testdata")
	flag.StringVar(&o.report, "report", "", "write the table to this file as well")
	run := flag.String("run", "", "only targets that match: PACKAGE.NAME")
	flag.Parse()
	var err error
	if o.match, err = regexp.Compile(*run); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz: -run:", err)
		os.Exit(2)
	}
	if o.modules = flag.Args(); len(o.modules) == 0 {
		o.modules = []string{".", "payloads/spore-rbd"}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := work(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

// options say what is run and for how long.
type options struct {
	modules     []string
	match       *regexp.Regexp
	each, total time.Duration
	workers     int
	keep        int
	report      string
}

func work(ctx context.Context, out io.Writer, o options) error {
	var targets []target
	for _, m := range o.modules {
		found, err := list(ctx, m, o.match)
		if err != nil {
			return fmt.Errorf("list the fuzz targets of %s: %w", m, err)
		}
		targets = append(targets, found...)
	}
	if len(targets) == 0 {
		return errors.New("no target matches")
	}
	if o.keep > 0 {
		return keepAll(ctx, out, targets, o.keep)
	}
	if part := o.total / time.Duration(len(targets)); part > 0 && part < o.each {
		o.each = part
	}
	var results []result
	broken := 0
	for i, t := range targets {
		r := fuzz(ctx, t, o)
		if ctx.Err() != nil {
			return errors.New("stopped")
		}
		fmt.Fprintf(out, "%3d/%d  %-60s %12d execs  %s\n", i+1, len(targets), t, r.execs, r.verdict())
		if r.failure != "" {
			broken++
			fmt.Fprintln(out, r.failure)
		}
		results = append(results, r)
	}
	fmt.Fprintln(out)
	table(out, results)
	if o.report != "" {
		f, err := os.Create(o.report)
		if err != nil {
			return err
		}
		table(f, results)
		if err := f.Close(); err != nil {
			return err
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d of %d targets broke; the inputs are named above, and go test replays them", broken, len(targets))
	}
	return nil
}
