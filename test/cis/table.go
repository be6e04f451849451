package cis

import (
	"errors"
	"fmt"
	"strings"
)

// Line is what became of one check.
type Line struct {
	ID, Text string
	Result   Result
	Reason   string
}

// Evaluate goes through the list. A check without a row is an error, and so is a row without a check, and one that fails
// without a reason.
func Evaluate(l List, e Evidence) ([]Line, error) {
	byID := map[string]row{}
	for _, r := range rows {
		if _, twice := byID[r.id]; twice {
			return nil, fmt.Errorf("check %s has two rows", r.id)
		}
		byID[r.id] = r
	}
	var out []Line
	for _, c := range l.Checks {
		r, ok := byID[c.ID]
		if !ok {
			return nil, fmt.Errorf("check %s of %s has no row", c.ID, l.Edition)
		}
		delete(byID, c.ID)
		line, err := r.evaluate(c, e)
		if err != nil {
			return nil, fmt.Errorf("check %s (%s): %w", c.ID, r.text, err)
		}
		out = append(out, line)
	}
	for id := range byID {
		return nil, fmt.Errorf("%s has no check %s", l.Edition, id)
	}
	return out, nil
}

func (r row) evaluate(c Check, e Evidence) (Line, error) {
	line := Line{ID: r.id, Text: r.text, Result: Pass}
	if r.applies != nil {
		if err := r.applies(e); err != nil {
			line.Result, line.Reason = NotApplicable, err.Error()
			return line, nil
		}
		return line, errors.New("it applies now, and nothing looks at it; give its row a condition")
	}
	if r.found == nil && r.judge == nil {
		return line, errors.New("its row has no condition")
	}
	if r.found != nil {
		ok, err := line.hold(c, r, e)
		if err != nil {
			return line, err
		}
		if !ok {
			line.Result = Fail
		}
	}
	if r.judge != nil && line.Result == Pass {
		if err := r.judge(e); err != nil {
			line.Result, line.Reason = Fail, err.Error()
		}
	}
	if line.Result == Fail {
		if r.why == "" {
			return line, fmt.Errorf("it fails for no reason: %s", line.Reason)
		}
		if r.given != nil {
			if err := r.given(e); err != nil {
				return line, fmt.Errorf("it fails (%s), and the reason does not hold: %w", line.Reason, err)
			}
		}
		line.Reason += ": " + r.why
	}
	if line.Reason == "" {
		line.Reason = r.seen
	}
	if line.Reason == "" {
		return line, errors.New("there is nothing to say about it; say in its row what is seen")
	}
	return line, nil
}

// hold holds the list's condition against all that was found, and says what was found.
func (l *Line) hold(c Check, r row, e Evidence) (bool, error) {
	all, err := r.found(e)
	if err != nil {
		return false, err
	}
	for _, f := range all {
		ok, err := c.holds(f)
		if err != nil {
			return false, err
		}
		l.Reason = mentioned(c, f)
		if !ok {
			if f.of != "" {
				l.Reason = "`" + f.of + "` has " + l.Reason
			}
			return false, nil
		}
	}
	return true, nil
}

// Table is the page for docs/.
func Table(l List, lines []Line) string {
	var b strings.Builder
	count := map[Result]int{}
	for _, line := range lines {
		count[line.Result]++
	}
	fmt.Fprintf(&b, `# Kubernetes against the CIS benchmark

The checks are those of the CIS Kubernetes Benchmark, as kube-bench %s has them (%s). The package
`+"`test/cis`"+` makes this table and holds it: the conditions are held against the flags, configuration files, file modes
and objects of a master and a worker with the settings by default, and in the end-to-end test against running nodes.

%d checks: %d pass, %d fail, %d are not applicable.

| check | asks for | result | reason |
|---|---|---|---|
`, l.Version, l.Edition, len(lines), count[Pass], count[Fail], count[NotApplicable])
	for _, line := range lines {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", line.ID, line.Text, line.Result, strings.ReplaceAll(line.Reason, "|", `\|`))
	}
	return b.String()
}
