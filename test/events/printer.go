// Package events runs go test, prints what go test prints, and says what came of it: which tests were skipped, which
// passed, and which failed or never came to their end, with what they said. It follows go doc test2json.
//
// It keeps nothing and runs no test again; test/ledger and test/stage do.
package events

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// event is a line of go test -json (go doc test2json); that of a build names its package otherwise.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
}

// printer makes of events what go test prints, and the outcome.
type printer struct {
	out, log io.Writer
	// verbose prints everything as it comes, as -v does.
	verbose  bool
	packages map[string]*pkg
	// builds are what the compiler says, by ImportPath.
	builds map[string]string
	// declared names the tests of a package.
	declared func(pkg string) ([]string, error)
	outcome  Outcome
}

func newPrinter(out, log io.Writer, verbose bool) *printer {
	if log == nil {
		log = io.Discard
	}
	return &printer{out: out, log: log, verbose: verbose, packages: map[string]*pkg{}, builds: map[string]string{},
		declared: func(string) ([]string, error) { return nil, nil }}
}

// pkg is a package whose tests run.
type pkg struct {
	lines []line
	// good are its tests, and parts of them, that passed or were skipped; failed those that failed, inner ones first.
	good   map[string]bool
	failed []string
	// states are those of whole tests, order is that in which they began.
	states map[string]state
	order  []string
	// broken is the package that does not build, build what the compiler says.
	broken, build string
}

type line struct{ test, text string }

// read prints events until their end.
func (p *printer) read(r io.Reader) error {
	for lines := bufio.NewReader(r); ; {
		data, err := lines.ReadBytes('\n')
		if len(data) > 0 {
			p.line(data)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what go test says: %w", err)
		}
	}
}

func (p *printer) line(data []byte) {
	var e event
	if json.Unmarshal(data, &e) != nil || e.Action == "" {
		p.both(string(data)) // of go itself
		return
	}
	if e.Package == "" {
		p.builds[e.ImportPath] += e.Output
		p.both(e.Output) // of the compiler
		return
	}
	of := p.packages[e.Package]
	if of == nil {
		of = &pkg{good: map[string]bool{}, states: map[string]state{}}
		p.packages[e.Package] = of
	}
	switch {
	case e.Action == "output":
		of.lines = append(of.lines, line{e.Test, e.Output})
		fmt.Fprint(p.log, e.Output)
		if p.verbose {
			fmt.Fprint(p.out, e.Output)
		}
	case e.Test != "":
		p.test(of, e)
	case e.Action == "pass" || e.Action == "skip" || e.Action == "fail":
		if !p.verbose {
			of.print(p.out, e.Action == "fail")
		}
		of.broken, of.build = e.FailedBuild, p.builds[e.FailedBuild]
		p.end(e.Package, e.Action == "fail")
	}
}

func (p *printer) both(text string) {
	fmt.Fprint(p.log, text)
	fmt.Fprint(p.out, text)
}

// test takes note of how far a test or a part of one came.
func (p *printer) test(of *pkg, e event) {
	switch e.Action {
	case "run", "cont":
		of.state(e.Test, running)
	case "pause":
		of.state(e.Test, paused)
	case "pass":
		of.good[e.Test] = true
		of.state(e.Test, passed)
	case "skip":
		of.good[e.Test] = true
		of.state(e.Test, skipped)
		p.outcome.Skips = append(p.outcome.Skips, Skip{Package: e.Package, Test: e.Test, Reason: of.reason(e.Test)})
	case "fail":
		of.failed = append(of.failed, e.Test)
		of.state(e.Test, failed)
	}
}

func (p *pkg) state(test string, s state) {
	if strings.Contains(test, "/") {
		return
	}
	if _, ok := p.states[test]; !ok {
		p.order = append(p.order, test)
	}
	p.states[test] = s
}

// end takes the outcome of a package.
func (p *printer) end(name string, bad bool) {
	of := p.packages[name]
	for _, test := range of.in(passed) {
		p.outcome.Passed = append(p.outcome.Passed, Test{name, test})
	}
	if bad {
		failures := of.failures(name, func() ([]string, error) { return p.declared(name) })
		p.outcome.Failures = append(p.outcome.Failures, failures...)
	}
	delete(p.packages, name)
}

// exit takes the exit code of go test. It is 1 when a package failed; otherwise there are packages that go test did not
// come to, and nobody knows their names.
func (p *printer) exit(code int) {
	p.outcome.Code = code
	if code == 0 {
		return
	}
	open := len(p.packages)
	for _, name := range slices.Sorted(maps.Keys(p.packages)) {
		if !p.verbose {
			p.packages[name].print(p.out, true)
		}
		p.end(name, true)
	}
	if code != 1 || open > 0 || len(p.outcome.Failures) == 0 {
		why := fmt.Sprintf("go test ended with exit code %d before all packages had a result", code)
		p.outcome.Failures = append(p.outcome.Failures, Failure{Kind: Broken, Why: []string{why}})
	}
}

// logged is a line of t.Skip or t.Log; place is a further line of a trace.
var (
	logged = regexp.MustCompile(`^\s*\S+\.go:\d+: ?(.*)`)
	place  = regexp.MustCompile(`^\S+\.go:\d+$`)
)

// reason is what a test logged last.
func (p *pkg) reason(test string) (why string) {
	for _, l := range p.lines {
		if m := logged.FindStringSubmatch(l.text); l.test == test && m != nil {
			why = strings.TrimSpace(m[1])
		}
	}
	return why
}

// progress begins lines of a test that runs.
var progress = regexp.MustCompile(`^=== (RUN|PAUSE|CONT|NAME) `)

// print prints the last line of a package that passed, and of one that failed what is not of good tests.
func (p *pkg) print(out io.Writer, failed bool) {
	for i, l := range p.lines {
		last := i == len(p.lines)-1
		if last || failed && !p.good[l.test] && !progress.MatchString(l.text) {
			fmt.Fprint(out, l.text)
		}
	}
}
