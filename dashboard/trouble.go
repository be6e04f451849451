package dashboard

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
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
	names := strings.NewReplacer("DIR", dir, "%s", node)
	for _, r := range append(slices.Clone(remedies[condition]), "health DIR --all --node %s") {
		out = append(out, "spore "+names.Replace(r))
	}
	return out
}

// Troubles are all that is wrong, the worst first, and of the same kind the oldest.
func (v View) Troubles(dir string) []Trouble {
	var out []Trouble
	for _, n := range v.Nodes {
		out = append(out, n.Troubles(dir)...)
	}
	for _, c := range v.cluster().Conditions {
		// Of nodes that do not answer, or are not well, each has a row of its own.
		if level := levelOf(c.State); level > Fine && c.Name != "answers" && c.Name != "nodes" {
			out = append(out, Trouble{Level: level, Name: c.Name, Text: c.Reason, Do: []string{"spore health " + dir}})
		}
	}
	out = append(out, v.unreachable(dir)...)
	for _, alert := range v.alertTroubles(dir) {
		if !takes(out, alert) {
			out = append(out, alert)
		}
	}
	slices.SortStableFunc(out, func(a, b Trouble) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), a.Since.Compare(b.Since), strings.Compare(a.Node, b.Node))
	})
	return out
}

// takes has the row of a node that does not answer take what the alert about the same knows better: since when. It
// returns false where there is no such row, and the alert needs its own.
func takes(rows []Trouble, alert Trouble) bool {
	if alert.Name != metrics.NodeSilent || alert.Node == "" {
		return false
	}
	i := slices.IndexFunc(rows, func(t Trouble) bool { return t.Name == silentName && t.Node == alert.Node })
	if i < 0 {
		return false
	}
	if r := &rows[i]; alert.Since.Before(r.Since) {
		r.Since, r.First = alert.Since, false
	}
	return true
}

// Troubles are what is wrong with the node.
func (n Node) Troubles(dir string) []Trouble {
	var out []Trouble
	if n.Problem != nil {
		out = append(out, n.silent(dir))
	}
	for _, c := range n.Health.Conditions {
		if level := levelOf(c.State); level > Fine {
			since, text := n.Conditions[c.Name], c.Reason
			if n.Problem != nil {
				text = "it said last: " + text
			}
			out = append(out, Trouble{
				Level: level, Node: n.Name, Name: c.Name, Text: text, Since: since.Since, First: since.First, Do: remedy(dir, c.Name, n.Name),
			})
		}
	}
	return out
}

// unreachable says that nobody answers, which is rather the fault of the way there, or of the certificate, than of each
// node.
func (v View) unreachable(dir string) []Trouble {
	refused := 0
	for _, n := range v.Nodes {
		if n.Problem == nil {
			return nil
		}
		if refuses(n.Problem) {
			refused++
		}
	}
	switch {
	case len(v.Nodes) < 2: // The row of the node says it.
		return nil
	case v.from != "":
		return []Trouble{{
			Level: Critical, Name: "unreachable", Text: "no node answers " + v.from + ", which serves this page",
			Do: []string{"spore status " + dir, "spore health " + dir + " --node " + v.from, "spore dashboard " + dir},
		}}
	case refused == len(v.Nodes):
		return []Trouble{{
			Level: Critical, Name: "refused", Text: "no node takes the certificate of this page",
			Do: []string{"spore access " + dir, "stop spore dashboard by Ctrl-C, and start it again", "see whether the certificate was withdrawn, and whether the " +
				"clock of this machine is right"},
		}}
	}
	return []Trouble{{
		Level: Critical, Name: "unreachable", Text: "no node answers",
		Do: []string{"see whether this machine reaches the network of the nodes: its cable, its VPN, a firewall before port " + strconv.Itoa(nodeapi.Port),
			"start spore dashboard with --address where a node has another address from here", "spore status " + dir},
	}}
}

// refuses tells whether a node answers, and takes what it was shown for nobody's it knows. A certificate that was
// withdrawn is refused by TLS.
func refuses(problem error) bool {
	var refusal nodeapi.Refusal
	return errors.As(problem, &refusal) || strings.Contains(problem.Error(), "tls: ")
}

// silentName is what is wrong with a node that gives no answer.
const silentName = "silent"

// silent says why the node gives no answer. One that refuses has power and a network.
func (n Node) silent(dir string) Trouble {
	t := Trouble{Level: Critical, Node: n.Name, Since: n.Silent.Since, First: n.Silent.First}
	reason := strings.TrimPrefix(n.Problem.Error(), "no answer: ")
	ask := "spore status " + dir + " --node " + n.Name
	if refuses(n.Problem) {
		t.Name, t.Text = "refuses", "it does not tell how it is: "+reason
		t.Do = []string{ask, "see whether the certificate of this page still holds; spore access makes another one"}
		return t
	}
	t.Name, t.Text = silentName, "it does not answer: "+reason
	t.Do = []string{"see whether it has power and a network, and what its screen says", ask}
	return t
}

// alertTroubles are the alerts that fire, as far as somebody knows. What fired when somebody last knew does not go from
// the page because nobody knows any more.
func (v View) alertTroubles(dir string) []Trouble {
	var out []Trouble
	known := ""
	if v.AlertsProblem != nil {
		known = "last known: "
		out = append(out, Trouble{
			Level: Warning, Name: "alerts", Text: "it is not known which alerts fire: " + v.AlertsProblem.Error(), Do: []string{"spore alerts " + dir},
		})
	}
	if v.AlertsAt.IsZero() {
		return out
	}
	watched := false
	for _, a := range v.Alerts {
		name := a.Labels[machine.AlertName]
		watched = watched || name == metrics.Watchdog
		if a.State != machine.Fires || name == metrics.Watchdog {
			continue
		}
		t := Trouble{Level: Warning, Node: a.Labels[machine.AlertNode], Name: name, Text: known + cmp.Or(a.Summary, name), Since: a.Since}
		if a.Labels[machine.Severity] == "critical" {
			t.Level = Critical
		}
		if page := a.Page(); page != "" {
			t.Do = append(t.Do, "read "+page)
		}
		t.Do = append(t.Do, "spore alerts "+dir)
		out = append(out, t)
	}
	if !watched && v.AlertsProblem == nil {
		out = append(out, Trouble{
			Level: Critical, Name: metrics.Watchdog, Text: "the alert that always fires does not: alerts may be missing",
			Do: []string{"spore alerts " + dir},
		})
	}
	return out
}

// Level is the worst of what is wrong with the node.
func (n Node) Level() Level {
	if n.Problem != nil {
		return Critical // It is silent, or refuses.
	}
	worst := Fine
	for _, c := range n.Health.Conditions {
		worst = max(worst, levelOf(c.State))
	}
	return worst
}
