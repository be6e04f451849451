// Program bench measures what images cost to build and to boot, and writes docs/performance.md: our builder, Debian's
// mkosi and a floor that no builder gets under, in one run and in turn, as processor time of whole trees of processes.
// `make bench` runs it from the root of the project.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// bench is what all measurements share.
type bench struct {
	// work is the folder for everything that is kept and made; self is this program, spore the builder.
	work, self, spore string
	rounds            int
	// log takes what the commands say.
	log io.Writer
	// started is when the run began.
	started time.Time
}

// edit is the text of an edit. No run has made it before: what an earlier one has built is still in the caches.
func (b *bench) edit(round int) string {
	return fmt.Sprintf("run %d, round %d", b.started.UnixNano(), round)
}

// say tells a person what goes on.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%7.1f s  %s\n", time.Since(b.started).Seconds(), fmt.Sprintf(format, args...))
}

type flags struct {
	work, page, pictures, full, skip string
	rounds                           int
}

func main() {
	code, err := dispatch()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	os.Exit(code)
}

// dispatch does what this program was started for: by itself, for a subcommand, or by a person.
func dispatch() (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 {
		if do := subcommands[os.Args[1]]; do != nil {
			return do(ctx, os.Args[2:])
		}
	}
	var f flags
	flag.IntVar(&f.rounds, "rounds", 3, "how often everything is measured; the page has medians")
	flag.StringVar(&f.full, "full", "", "a configuration folder to measure besides examples/edge, such as configs")
	flag.StringVar(&f.skip, "skip", "", "what to leave out, with commas: mkosi, floor, builds, boots, scale, updates, site")
	flag.StringVar(&f.work, "work", "out/bench", "folder for caches, images and logs")
	flag.StringVar(&f.page, "page", "docs/performance.md", "the page to write")
	flag.StringVar(&f.pictures, "pictures", "docs/pictures", "folder for the pictures of the page")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: bench [-rounds N] [-full CONFIGS] [-skip LIST] [-work DIR] [-page FILE] [-pictures DIR]\n\n  bench -rounds 1 -skip mkosi,boots -page /tmp/performance.md")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 || f.rounds < 1 {
		flag.Usage()
		return 2, errors.New("-rounds is at least 1, and nothing follows the flags")
	}
	skip, err := parseSkip(f.skip)
	if err != nil {
		return 2, err
	}
	if err := measure(ctx, f, skip); err != nil {
		return 1, err
	}
	return 0, nil
}

// subcommands are the processes of this program that work for it, so that their cost is measured as that of any other.
var subcommands = map[string]func(ctx context.Context, args []string) (int, error){
	insideCommand: func(_ context.Context, args []string) (int, error) {
		if len(args) < 3 {
			return 2, errors.New("usage: bench inside TREE FOLDER COMMAND [ARGUMENT…]")
		}
		return inside(args[0], args[1], args[2:])
	},
	compilerCommand: func(_ context.Context, args []string) (int, error) { return runCompiler(args) },
	floorCommand: func(ctx context.Context, args []string) (int, error) {
		if len(args) != 1 {
			return 2, errors.New("usage: bench floor WORK.json")
		}
		return failed(runFloor(ctx, args[0]))
	},
	detectCommand: func(_ context.Context, args []string) (int, error) { return failed(runDetect(args)) },
	stageCommand:  func(_ context.Context, args []string) (int, error) { return failed(runStage(args)) },
	hashCommand:   func(_ context.Context, args []string) (int, error) { return failed(runHash(args)) },
}

func failed(err error) (int, error) {
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// parts are what can be left out.
var parts = []string{"mkosi", "floor", "builds", "boots", "scale", "updates", "site"}

func parseSkip(text string) (map[string]bool, error) {
	skip := map[string]bool{}
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		known := false
		for _, p := range parts {
			known = known || p == name
		}
		if !known {
			return nil, fmt.Errorf("cannot leave out %q; known are %s", name, strings.Join(parts, ", "))
		}
		skip[name] = true
	}
	return skip, nil
}

// measure does everything and writes the page.
func measure(ctx context.Context, f flags, skip map[string]bool) (err error) {
	b := &bench{rounds: f.rounds, started: time.Now()}
	if b.work, err = filepath.Abs(f.work); err != nil {
		return err
	}
	if err := os.MkdirAll(b.work, 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(b.work, "bench.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	b.log = log
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	p := &page{command: repeat(f), rounds: f.rounds, skipped: skip}
	if p.machine, err = describeMachine(ctx); err != nil {
		return err
	}
	b.spore = filepath.Join(b.work, "spore")
	if _, err := Run(ctx, log, nil, "", "go", "build", "-trimpath", "-o", b.spore, "./builder"); err != nil {
		return err
	}
	if err := b.fill(ctx, p, f, skip); err != nil {
		return fmt.Errorf("%w; what the commands said is in %s", err, log.Name())
	}
	if p.machine.LoadAfter, err = load(); err != nil {
		return err
	}
	if err := p.write(f.page, f.pictures); err != nil {
		return err
	}
	b.say("wrote %s", f.page)
	return nil
}

// fill measures what is not to be left out.
func (b *bench) fill(ctx context.Context, p *page, f flags, skip map[string]bool) error {
	edge, err := newOurs(ctx, b, "edge", "examples/edge")
	if err != nil {
		return err
	}
	var theirs *mkosi
	if !skip["mkosi"] {
		m, err := edge.manifest()
		if err != nil {
			return err
		}
		if theirs, err = newMkosi(ctx, b, m.Requested); err != nil {
			return fmt.Errorf("mkosi: %w; SKIP=mkosi does without", err)
		}
		p.machine.Mkosi = theirs.version
	}
	var contests []*contest
	keep := func(list ...*contest) error {
		contests = append(contests, list...)
		p.rows = rows(contests)
		return keepSamples(b, contests)
	}
	if !skip["builds"] {
		var floor measurement
		if !skip["floor"] {
			work, err := edge.floorWork(ctx)
			if err != nil {
				return err
			}
			floor = floorMeasurement(b, work)
		}
		list := buildContests(edge, theirs, floor)
		if err := hold(ctx, b, list, b.rounds); err != nil {
			return err
		}
		if err := keep(list...); err != nil {
			return err
		}
	}
	images := []*ours{edge}
	if f.full != "" {
		full, err := newOurs(ctx, b, "full", f.full)
		if err != nil {
			return err
		}
		images = append(images, full)
		if !skip["builds"] {
			cold, relink := fullContests(b, full)
			// The compiler works for minutes each time, and what is of interest is the memory.
			err := errors.Join(hold(ctx, b, []*contest{cold}, 1), hold(ctx, b, []*contest{relink}, b.rounds), keep(cold, relink))
			if err != nil {
				return err
			}
		}
	}
	if !skip["updates"] {
		if p.updates, err = b.updates(ctx, images); err != nil {
			return err
		}
	}
	if !skip["site"] {
		if p.site, err = b.site(ctx); err != nil {
			return err
		}
	}
	if !skip["boots"] {
		if err := b.boots(ctx, p, edge, theirs, keep); err != nil {
			return err
		}
	}
	if skip["scale"] {
		return nil
	}
	for _, n := range scaleSizes {
		point, err := scale(ctx, b, edge, n)
		if err != nil {
			return fmt.Errorf("%d nodes: %w", n, err)
		}
		b.say("%d nodes: validate %.2f, build %.2f, explain %.2f CPU-s, detect %v", n, point.Validate.CPU.Seconds(), point.Build.CPU.Seconds(), point.Explain.CPU.Seconds(), point.Detect)
		p.scale = append(p.scale, point)
	}
	return nil
}

// boots measures the boots, and draws one.
func (b *bench) boots(ctx context.Context, p *page, edge *ours, theirs *mkosi, keep func(...*contest) error) error {
	image := ""
	if theirs != nil {
		if err := theirs.rebuild(ctx); err != nil {
			return err
		}
		image = theirs.image()
	}
	s, err := newBoots(ctx, b, edge, image)
	if err != nil {
		return err
	}
	p.machine.Accel = s.accel.Name + ", -cpu " + s.accel.CPU
	list := bootContests(s)
	if err := hold(ctx, b, list, b.rounds); err != nil {
		return err
	}
	console, err := s.chart(ctx)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.work, "chart.console"), []byte(console), 0o644); err != nil {
		return err
	}
	p.spans = timeline(console)
	return keep(list...)
}

// repeat is the command that does the same again.
func repeat(f flags) string {
	words := []string{"make", "bench"}
	if f.rounds != 3 {
		words = append(words, fmt.Sprintf("ROUNDS=%d", f.rounds))
	}
	if f.full != "" {
		words = append(words, "FULL="+f.full)
	}
	if f.skip != "" {
		words = append(words, "SKIP="+f.skip)
	}
	return strings.Join(words, " ")
}
