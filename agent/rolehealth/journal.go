package rolehealth

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Journal finds lines of units since their start.
type Journal struct {
	// Program is the path of journalctl.
	Program string
	// Units is the directory in which systemd has a link invocation:UNIT to the id of each start (systemd.exec(5),
	// $INVOCATION_ID).
	Units string
	// Lines are those that were found before; nil remembers none.
	Lines *Lines
}

// Lines remembers for each unit the line that was found, so that a scrape every few seconds starts no journalctl for it,
// and reads no journal. Such a line stays the answer until the unit starts again, also when the journal no longer has it.
// Several may ask at a time.
type Lines struct {
	mu    sync.Mutex
	found map[string]remembered
}

// remembered is a line that matches an expression, of a unit's start by its id; empty where any start counts.
type remembered struct{ start, expression, line string }

// of is the line of a unit; empty where none was found of this start by this expression.
func (l *Lines) of(unit, start string, e *regexp.Regexp) string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.found[unit]; r.start == start && r.expression == e.String() {
		return r.line
	}
	return ""
}

func (l *Lines) keep(unit, start string, e *regexp.Regexp, line string) {
	if l == nil || line == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.found == nil {
		l.found = map[string]remembered{}
	}
	l.found[unit] = remembered{start, e.String(), line}
}

// maxLine bounds a line of the journal that is looked at, in bytes; of a longer one, the beginning is.
const maxLine = 16 << 10

// has looks for a line of units since their start that matches an expression. A journal that no longer has the start of
// a unit says nothing against it. The line of a triggered unit, which a timer, socket or path starts, may be of any
// start since the machine's. Where all are triggered, one that has not ended once yet says nothing against it either.
func (j Journal) has(ctx context.Context, units, triggered []string, expression string) (string, error) {
	e, err := regexp.Compile(expression)
	if err != nil {
		return "", fmt.Errorf("read the expression of health: %w", err)
	}
	lost, all, waits := false, true, ""
	for _, unit := range units {
		look := j.triggered
		if !slices.Contains(triggered, unit) {
			look, all = j.unit, false
		}
		found, err := look(ctx, unit, e)
		switch {
		case err != nil:
			return "", err
		case found.line != "":
			return fmt.Sprintf("%s has written %q", unit, Line(found.line)), nil
		}
		lost, waits = lost || found.lost, cmp.Or(waits, found.waits)
	}
	switch {
	case all && waits != "":
		return waits, nil
	case lost:
		return "the journal no longer has what its units wrote at their start", nil
	}
	return "", fmt.Errorf("no line of %s since the start matches %q", strings.Join(units, ", "), expression)
}

// found is a line of a unit, or that the journal no longer has the unit's start, or what is waited for.
type found struct {
	line  string
	lost  bool
	waits string
}

func (j Journal) unit(ctx context.Context, unit string, e *regexp.Regexp) (found, error) {
	start, err := os.Readlink(filepath.Join(j.Units, "invocation:"+unit))
	if errors.Is(err, os.ErrNotExist) { // It does not run now: it has done its work.
		line, err := j.first(ctx, e, "--boot", "--unit="+unit)
		return found{line: line}, err
	}
	if err != nil {
		return found{}, fmt.Errorf("look for the start of %s: %w", unit, err)
	}
	if line := j.Lines.of(unit, start, e); line != "" {
		return found{line: line}, nil
	}
	line, err := j.first(ctx, e, "_SYSTEMD_INVOCATION_ID="+start)
	j.Lines.keep(unit, start, e, line)
	if err != nil || line != "" {
		return found{line: line}, err
	}
	began, err := j.first(ctx, anything, "--lines=1", "INVOCATION_ID="+start) // what systemd says of the start
	return found{lost: began == ""}, err
}

// triggered looks at all starts of a unit since the machine's.
func (j Journal) triggered(ctx context.Context, unit string, e *regexp.Regexp) (found, error) {
	if line := j.Lines.of(unit, "", e); line != "" {
		return found{line: line}, nil
	}
	line, err := j.first(ctx, e, "--boot", "--unit="+unit)
	j.Lines.keep(unit, "", e, line)
	if err != nil || line != "" {
		return found{line: line}, err
	}
	if _, err := os.Lstat(filepath.Join(j.Units, "invocation:"+unit)); err == nil {
		return found{waits: unit + " does its work"}, nil
	}
	began, err := j.first(ctx, anything, "--boot", "--lines=1", "--unit="+unit) // what systemd says of a start, too
	if err != nil || began != "" {
		return found{}, err
	}
	return found{waits: unit + " has not been started yet"}, nil
}

var anything = regexp.MustCompile(`.`)

// first is the first line that matches; empty where there is none.
func (j Journal) first(ctx context.Context, e *regexp.Regexp, arguments ...string) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := append([]string{"--quiet", "--no-pager", "--all", "--output=cat"}, arguments...)
	cmd := exec.CommandContext(ctx, j.Program, all...)
	cmd.WaitDelay = Bound
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", fmt.Errorf("start journalctl: %w", err)
	}
	line, err := match(out, e)
	late := ctx.Err()
	cancel() // Nobody reads the rest.
	failed := cmd.Wait()
	switch {
	case line != "":
		return line, nil
	case late != nil:
		return "", fmt.Errorf("the journal was not read within %s", Bound)
	case err != nil:
		return "", fmt.Errorf("read journalctl: %w", err)
	case failed != nil && cmd.ProcessState.Exited() && cmd.ProcessState.ExitCode() > 1:
		return "", fmt.Errorf("journalctl: %w", failed)
	}
	return "", nil
}

// match reads lines until one matches.
func match(from io.Reader, e *regexp.Regexp) (string, error) {
	in := bufio.NewReaderSize(from, maxLine)
	rest := false
	for {
		line, err := in.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !long && !errors.Is(err, io.EOF) {
			return "", err
		}
		text := strings.TrimSuffix(string(line), "\n")
		if !rest && text != "" && e.MatchString(text) {
			return text, nil
		}
		if err != nil && !long {
			return "", nil
		}
		rest = long
	}
}
