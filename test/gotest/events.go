package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// event is a line of go test -json (go doc test2json); that of a build names its package otherwise.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// printer makes of events what go test prints.
type printer struct {
	out io.Writer
	// verbose prints everything as it comes, as -v does.
	verbose  bool
	packages map[string]*pkg
	skips    []skip
}

// pkg is a package whose tests run.
type pkg struct {
	lines []line
	// good are its tests that passed or were skipped.
	good map[string]bool
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
		_, _ = p.out.Write(data) // of go itself
		return
	}
	if e.Package == "" {
		fmt.Fprint(p.out, e.Output) // of the compiler
		return
	}
	of := p.packages[e.Package]
	if of == nil {
		of = &pkg{good: map[string]bool{}}
		p.packages[e.Package] = of
	}
	switch {
	case e.Action == "output":
		of.lines = append(of.lines, line{e.Test, e.Output})
		if p.verbose {
			fmt.Fprint(p.out, e.Output)
		}
	case e.Test != "" && (e.Action == "pass" || e.Action == "skip"):
		of.good[e.Test] = true
		if e.Action == "skip" {
			p.skips = append(p.skips, skip{Package: e.Package, Test: e.Test, Reason: of.reason(e.Test)})
		}
	case e.Test == "" && (e.Action == "pass" || e.Action == "skip" || e.Action == "fail"):
		if !p.verbose {
			of.print(p.out, e.Action == "fail")
		}
		delete(p.packages, e.Package)
	}
}

// logged is a line of t.Skip or t.Log.
var logged = regexp.MustCompile(`^\s*\S+\.go:\d+: (.*)`)

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
