package events

import (
	"slices"
	"strings"
	"time"
)

// Outcome is what came of a go test.
type Outcome struct {
	// Code is the exit code of go test, -1 when a signal ended it.
	Code int
	// CPU is that of go test and all that it waited for.
	CPU time.Duration
	// Skips are tests and parts of them.
	Skips []Skip
	// Passed are whole tests.
	Passed   []Test
	Failures []Failure
}

// Test is a whole test: its parts belong to it.
type Test struct{ Package, Name string }

// Skip is a test, or a part of one, that was skipped.
type Skip struct{ Package, Test, Reason string }

// Kind is what failed.
type Kind string

const (
	// Failed is one test: it failed, or ran when its package ended without a result.
	Failed Kind = "failed"
	// Unfinished are tests of a package that ended before they did, though not because of them.
	Unfinished Kind = "unfinished"
	// Broken is a package that failed without any test to blame: it does not build, or TestMain ended it.
	Broken Kind = "broken"
)

// Failure is one reason why go test failed.
type Failure struct {
	Kind    Kind
	Package string
	Tests   []string
	// Why are the first lines of what was said.
	Why []string
	// Log is all that was said.
	Log string
}

// state is how far a whole test came.
type state int

const (
	running state = iota
	// paused waits in t.Parallel.
	paused
	passed
	skipped
	failed
)

// failures say which tests a package that failed wants again. Each of its tests that did not pass is in one of them: a
// package whose second run passes has run as a whole.
func (p *pkg) failures(name string, declared func() ([]string, error)) []Failure {
	if p.broken != "" {
		return []Failure{{Kind: Broken, Package: name, Why: firstLines(p.build), Log: p.build + p.text(always)}}
	}
	var out []Failure
	blame := p.in(failed)
	if len(blame) == 0 {
		blame = p.in(running)
	}
	for _, test := range blame {
		out = append(out, Failure{Kind: Failed, Package: name, Tests: []string{test}, Why: p.why(test), Log: p.log(test)})
	}
	all, err := declared()
	if err != nil {
		return append(out, Failure{Kind: Broken, Package: name, Why: firstLines(err.Error()), Log: p.text(always)})
	}
	rest := slices.Concat(p.in(running), p.in(paused))
	for _, test := range all {
		if _, ok := p.states[test]; !ok {
			rest = append(rest, test)
		}
	}
	rest = slices.DeleteFunc(rest, func(test string) bool { return slices.Contains(blame, test) })
	switch {
	case len(blame) == 0:
		out = append(out, Failure{Kind: Broken, Package: name, Why: p.last(), Log: p.text(always)})
	case len(rest) > 0:
		out = append(out, Failure{Kind: Unfinished, Package: name, Tests: rest, Why: p.death(), Log: p.text(always)})
	}
	return out
}

// in are the tests that are in a state, in the order in which they began.
func (p *pkg) in(s state) (tests []string) {
	for _, test := range p.order {
		if p.states[test] == s {
			tests = append(tests, test)
		}
	}
	return tests
}

func always(string) bool { return true }

// text is what tests said that are wanted.
func (p *pkg) text(wanted func(test string) bool) string {
	var b strings.Builder
	for _, l := range p.lines {
		if wanted(l.test) {
			b.WriteString(l.text)
		}
	}
	return b.String()
}

// log is what a test, its parts and its package said, and how the package died: whichever test spoke last says that.
func (p *pkg) log(test string) string {
	dead := p.deathLine()
	var b strings.Builder
	for i, l := range p.lines {
		if l.test == "" || whole(l.test) == test || dead >= 0 && i >= dead {
			b.WriteString(l.text)
		}
	}
	return b.String()
}

// whole is the test that a part belongs to.
func whole(test string) string {
	name, _, _ := strings.Cut(test, "/")
	return name
}

// deathLine is where the runtime or the time limit ended the program, or -1. Programs that come to their end say FAIL
// or PASS after whatever their tests quote.
func (p *pkg) deathLine() int {
	for i, l := range slices.Backward(p.lines) {
		if l.test == "" && (l.text == "FAIL\n" || l.text == "PASS\n") {
			return -1
		}
		if strings.HasPrefix(l.text, "panic: ") || strings.HasPrefix(l.text, "fatal error: ") {
			return i
		}
	}
	return -1
}

// whyLines is how many lines say why a test failed.
const whyLines = 6

// death is why a package died, as far as it says.
func (p *pkg) death() []string {
	at := p.deathLine()
	if at < 0 {
		return p.last()
	}
	var b strings.Builder
	for _, l := range p.lines[at:] {
		if strings.HasPrefix(l.text, "goroutine ") {
			break
		}
		b.WriteString(l.text)
	}
	return firstLines(b.String())
}

// last are the last lines of a package.
func (p *pkg) last() []string {
	all := plain(p.text(always))
	return all[max(0, len(all)-whyLines):]
}

// why are the first lines of what a test said when it failed: why its package died, when that was because of it, else
// what the first part that failed logged.
func (p *pkg) why(test string) []string {
	at := p.deathLine()
	if at >= 0 && (p.states[test] == running || whole(p.lines[at].test) == test) {
		return p.death()
	}
	for _, name := range p.failed {
		if whole(name) != test {
			continue
		}
		if block := complaint(strings.SplitAfter(p.text(func(t string) bool { return t == name }), "\n")); block != "" {
			return firstLines(block)
		}
	}
	return firstLines(p.text(func(t string) bool { return whole(t) == test }))
}

// complaint is the entry of a test's log that says what failed. Events do not tell errors from notes. An assertion of
// testify has a trace; else it is the last entry, since a test ends with what is fatal to it.
func complaint(lines []string) (block string) {
	var blocks []string
	for _, l := range lines {
		switch n := len(blocks); {
		case logged.MatchString(l):
			blocks = append(blocks, l)
		case n > 0 && strings.HasPrefix(l, "        "):
			blocks[n-1] += l
		}
	}
	for _, b := range blocks {
		if strings.Contains(b, "\tError Trace:") {
			return b
		}
		block = b
	}
	return block
}

func firstLines(text string) []string {
	all := plain(text)
	return all[:min(len(all), whyLines)]
}

// plain are lines without those that only say where in the source or in the run it is.
func plain(text string) (lines []string) {
	for l := range strings.Lines(text) {
		l = strings.Join(strings.Fields(l), " ")
		label, _, _ := strings.Cut(l, ":")
		if l == "" || progress.MatchString(l) || place.MatchString(l) || label == "Error Trace" || label == "Test" ||
			strings.HasPrefix(l, "--- FAIL: ") {
			continue
		}
		lines = append(lines, l)
	}
	return lines
}
