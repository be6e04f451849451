package machine

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// The labels of an alert that its name, its node (or whatever the metric is of), and how bad it is are in.
const (
	AlertName = "alertname"
	AlertNode = "instance"
	Severity  = "severity"
)

// Watchdog is the alert that always fires: where it does not, others may be missing.
const Watchdog = "Watchdog"

// What an alert does.
const (
	// Fires is an alert that is sent to people.
	Fires = "fires"
	// Silenced is one that nobody is told of for a while, because a person wants it so.
	Silenced = "silenced"
	// HeldBack is one that nobody is told of because another alert that explains it fires (Alertmanager, inhibition).
	HeldBack = "held back"
)

// Alert is one alert that fires now (verb alerts; each part of the result is a list).
type Alert struct {
	// Labels are its labels; see AlertName, AlertNode and Severity.
	Labels map[string]string `json:"labels"`
	// State is Fires, Silenced or HeldBack, and Since is when it began to fire.
	State string    `json:"state"`
	Since time.Time `json:"since"`
	// Silences are those that match it now.
	Silences []Silence `json:"silences,omitempty"`
	// Summary and Description say in words what is wrong, and Runbook where to read what to do: a section such as
	// alerts#nodesilent, which is one of docs/alerts.md, or an address of the plant.
	Summary     string `json:"summary,omitempty"`
	Description string `json:"description,omitempty"`
	Runbook     string `json:"runbook,omitempty"`
}

// Page is where to read what to do about the alert: a section of the documentation is named with its file.
func (a Alert) Page() string {
	if section, ok := strings.CutPrefix(a.Runbook, "alerts#"); ok {
		return "docs/alerts.md#" + section
	}
	return a.Runbook
}

// Silence has nobody told of alerts for a while (verbs alerts-silences and alerts-silence; each part of the result is a
// list).
type Silence struct {
	// ID is a UUID.
	ID string `json:"id"`
	// Pending is true of a silence that has yet to begin.
	Pending bool `json:"pending,omitempty"`
	// Matchers are what an alert's labels are held to; all of them have to match.
	Matchers []Matcher `json:"matchers,omitempty"`
	// By is who made it, and Comment is why.
	By      string    `json:"by,omitempty"`
	Comment string    `json:"comment,omitempty"`
	Begins  time.Time `json:"begins,omitzero"`
	Ends    time.Time `json:"ends,omitzero"`
}

// Matcher is a condition for a label.
type Matcher struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Operator is =, !=, =~ or !~ (PromQL, instant vector selectors).
	Operator string `json:"operator"`
}

// severities are the known ones, the worst first.
var severities = []string{"critical", "warning", "info"}

// Worse orders alerts: by what they do, how bad they are and how long they have fired. Watchdog comes first, so that
// none is so far down that it is left out.
func Worse(x, y Alert) int {
	rank := func(a Alert) int {
		if a.Labels[AlertName] == Watchdog {
			return -1
		}
		at := slices.Index(severities, a.Labels[Severity])
		if at < 0 {
			at = len(severities)
		}
		if a.State != Fires {
			at += len(severities) + 1
		}
		return at
	}
	return cmp.Or(
		cmp.Compare(rank(x), rank(y)), x.Since.Compare(y.Since),
		strings.Compare(x.Labels[AlertName], y.Labels[AlertName]), strings.Compare(x.Labels[AlertNode], y.Labels[AlertNode]),
	)
}
