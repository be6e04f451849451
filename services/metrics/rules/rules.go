// Package rules reads rules of alerts in the format of Prometheus, as vmalert takes them: what comes with an image
// (package shipped), and what a plant has of its own in services/alerts/*.yaml of the configuration folder. It refuses
// what vmalert would refuse on the node, what has no bound, and what the way of alerts to people needs and is missing.
//
// It takes alerts alone. Recording rules, other types of sources, headers and templates of files are left out.
// Expressions are checked by the parser of VictoriaMetrics; only the builder links this package.
package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"spore/cluster/yamlfile"
	"spore/services/metrics/rules/shipped"
)

// Bounds of what a plant has of its own.
const (
	// MaxFile bounds a file in bytes, MaxFiles how many there are, and maxAlerts the alerts of all files.
	MaxFile   = 256 << 10
	MaxFiles  = 64
	maxAlerts = 1000
	maxGroups = 50
	maxRules  = 100
	// maxExpr bounds an expression, and maxText the text of a label or an annotation, in bytes.
	maxExpr   = 4 << 10
	maxText   = 1 << 10
	maxLabels = 16
	// minInterval and maxInterval bound how often a group is looked at, maxFor how long an alert waits.
	minInterval = 5 * time.Second
	maxInterval = time.Hour
	maxFor      = 31 * 24 * time.Hour
)

// Severities are those that an alert can have.
var Severities = []string{"critical", "warning", "info"}

// Group is a set of rules that are looked at together.
type Group struct {
	Name string
	// Interval is how often; 0 is as often as usual.
	Interval time.Duration
	Rules    []Rule
}

// Rule is an alert.
type Rule struct {
	// Alert is its name, Line where it begins, counted from 1.
	Alert string
	Line  int
	// Expr is true where it fires, in MetricsQL. For is how long it has to be true before, Keep how long it goes on after.
	Expr      string
	For, Keep time.Duration
	// Labels have the severity; Annotations have the summary, and are templates.
	Labels, Annotations map[string]string
}

// Severity is one of Severities.
func (r Rule) Severity() string { return r.Labels["severity"] }

// Problem is what is wrong with a file.
type Problem struct {
	File string
	yamlfile.Fault
}

func (p Problem) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// Problems are all that is wrong, in the order of the lines. It is the error of Parse and of All.
type Problems []Problem

func (p Problems) Error() string {
	texts := make([]string, len(p))
	for i := range p {
		texts[i] = p[i].Error()
	}
	return strings.Join(texts, "\n")
}

// Parse reads a file of a plant's own rules. The error is of the type Problems and has everything that is wrong. Names
// of alerts that come with the image are refused.
func Parse(name string, data []byte) ([]Group, error) {
	return parse(name, data, shipped.Names())
}

// Shipped are the groups of rules that come with the image, file by file.
func Shipped() ([]Group, error) {
	var out []Group
	for _, file := range shipped.Files() {
		groups, err := parse(file, shipped.Read(file), nil)
		if err != nil {
			return nil, fmt.Errorf("internal error: %w", err)
		}
		out = append(out, groups...)
	}
	return out, nil
}

// All reads all files of a plant's own rules, by their names. An alert may be in one of them.
func All(files map[string][]byte) (map[string][]Group, error) {
	var problems Problems
	out := map[string][]Group{}
	where := map[string]string{}
	for i, file := range slices.Sorted(maps.Keys(files)) {
		if i == MaxFiles {
			problems = append(problems, Problem{file, yamlfile.Fault{Line: 1, Column: 1, Message: fmt.Sprintf(
				"there are %d files of alerts; at most %d are possible: put alerts together into one", len(files), MaxFiles)}})
			break
		}
		groups, err := Parse(file, files[file])
		if p, ok := err.(Problems); ok {
			problems = append(problems, p...)
		}
		out[file] = groups
		for _, g := range groups {
			for _, r := range g.Rules {
				here := fmt.Sprintf("%s:%d", file, r.Line)
				if before := where[r.Alert]; before != "" && !strings.HasPrefix(before, file+":") {
					problems = append(problems, Problem{file, yamlfile.Fault{Line: r.Line, Column: 1, Message: fmt.Sprintf(
						"the alert %s is in %s, too; give it another name", r.Alert, before)}})
				}
				where[r.Alert] = here
				if len(where) == maxAlerts+1 {
					problems = append(problems, Problem{file, yamlfile.Fault{Line: r.Line, Column: 1, Message: fmt.Sprintf(
						"there are more than %d alerts in all files; remove some", maxAlerts)}})
				}
			}
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return out, nil
}
