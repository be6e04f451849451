package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// Level is how bad something is.
type Level int

// Levels. What is critical does not work; a warning works and wants to be looked at.
const (
	Fine Level = iota
	Warning
	Critical
)

// String is the level in a word.
func (l Level) String() string { return [...]string{"ok", "warning", "critical"}[l] }

// Trouble is something that is wrong.
type Trouble struct {
	Level Level
	// Node is where; empty for the whole cluster.
	Node string
	// Name is what is wrong in a word, and Text in a sentence.
	Name, Text string
	// Since is when it began, as far as it is known; First says that it was so when somebody looked first.
	Since time.Time
	First bool
	// Do are commands and pages that help, in this order.
	Do []string
}

// levelOf is how bad a condition is.
func levelOf(s nodeapi.State) Level {
	switch s {
	case nodeapi.Failing:
		return Critical
	case nodeapi.Warning:
		return Warning
	}
	return Fine
}

// remedies say for a condition of a node what to look at next; each is behind `spore`, and %s is the node.
var remedies = map[string][]string{
	"agent":         {"logs DIR %s spore-agent", "reboot DIR --node %s"},
	"clock":         {"status DIR --node %s --json", "logs DIR %s systemd-timesyncd"},
	"space":         {"clean DIR --node %s", "disks DIR --node %s"},
	"quotas":        {"disks DIR --node %s"},
	"state":         {"logs DIR %s spore-state", "disks DIR --node %s"},
	"disks":         {"disks DIR --node %s"},
	"network":       {"net DIR %s"},
	"secrets":       {"pki bundle DIR --node %s"},
	"certificate":   {"pki renew DIR"},
	"renewal":       {"pki renew DIR"},
	"configuration": {"push DIR --node %s"},
	"snapshots":     {"snapshots DIR"},
	"shell":         {"shell DIR %s --replay"},
	"memory":        {"top DIR --node %s"},
}

// remedy are the commands for a condition of a node.
func remedy(dir, condition, node string) []string {
	out := []string{}
	for _, r := range append(slices.Clone(remedies[condition]), "health DIR --all --node %s") {
		text := strings.ReplaceAll(r, "DIR", dir)
		if strings.Contains(text, "%s") {
			text = fmt.Sprintf(text, node)
		}
		out = append(out, "spore "+text)
	}
	return out
}

// Troubles are all that is wrong, the worst first, and of the same kind the oldest.
func (v View) Troubles(dir string) []Trouble {
	var out []Trouble
	for _, n := range v.Nodes {
		out = append(out, n.Troubles(dir)...)
	}
	for _, c := range v.Cluster.Conditions {
		// Of nodes that do not answer, or are not well, each has a row of its own.
		if level := levelOf(c.State); level > Fine && c.Name != "answers" && c.Name != "nodes" {
			out = append(out, Trouble{Level: level, Name: c.Name, Text: c.Reason, Do: []string{"spore health " + dir}})
		}
	}
	out = append(out, v.alertTroubles(dir)...)
	slices.SortStableFunc(out, func(a, b Trouble) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), a.Since.Compare(b.Since), strings.Compare(a.Node, b.Node))
	})
	return out
}

// Troubles are what is wrong with the node.
func (n Node) Troubles(dir string) []Trouble {
	var out []Trouble
	if n.Problem != nil {
		out = append(out, Trouble{
			Level: Critical, Node: n.Name, Name: "silent", Text: "it does not answer: " + strings.TrimPrefix(n.Problem.Error(), "no answer: "), Since: n.Since, First: n.Answered.IsZero(),
			Do: []string{"see whether it has power and a network, and what its screen says", "spore status " + dir + " --node " + n.Name},
		})
	}
	for _, c := range n.Health.Conditions {
		if level := levelOf(c.State); level > Fine {
			since := n.Conditions[c.Name]
			out = append(out, Trouble{
				Level: level, Node: n.Name, Name: c.Name, Text: c.Reason, Since: since.Since, First: since.First, Do: remedy(dir, c.Name, n.Name),
			})
		}
	}
	return out
}

func (v View) alertTroubles(dir string) []Trouble {
	if v.AlertsProblem != nil {
		return []Trouble{{
			Level: Warning, Name: "alerts", Text: "it is not known which alerts fire: " + v.AlertsProblem.Error(), Do: []string{"spore alerts " + dir},
		}}
	}
	if v.AlertsAt.IsZero() {
		return nil
	}
	var out []Trouble
	watched := false
	for _, a := range v.Alerts {
		name := a.Labels[machine.AlertName]
		watched = watched || name == metrics.Watchdog
		if a.State != machine.Fires || name == metrics.Watchdog {
			continue
		}
		t := Trouble{Level: Warning, Node: a.Labels[machine.AlertNode], Name: name, Text: cmp.Or(a.Summary, name), Since: a.Since}
		if a.Labels[machine.Severity] == "critical" {
			t.Level = Critical
		}
		if a.Runbook != "" {
			t.Do = append(t.Do, "read docs/"+strings.Replace(a.Runbook, "#", ".md#", 1))
		}
		t.Do = append(t.Do, "spore alerts "+dir)
		out = append(out, t)
	}
	if !watched {
		out = append(out, Trouble{
			Level: Critical, Name: metrics.Watchdog, Text: "the alert that always fires does not: alerts may be missing",
			Do: []string{"spore alerts " + dir},
		})
	}
	return out
}

// Level is the worst of what is wrong with the node.
func (n Node) Level() Level {
	worst := Fine
	for _, t := range n.Troubles("") {
		worst = max(worst, t.Level)
	}
	return worst
}
