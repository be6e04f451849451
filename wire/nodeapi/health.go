package nodeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spore/wire/shell"
)

// Bounds of answers, in bytes, and of the conditions of a node.
const (
	MaxStatus     = 1 << 20
	MaxHealth     = 1 << 20
	maxConditions = 200
)

// State is how a condition is.
type State string

// States.
const (
	OK      State = "ok"
	Warning State = "warning" // works, and wants to be looked at
	Failing State = "failing" // does not work
)

// Condition is one thing that must hold for a node to be healthy.
type Condition struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Reason says why it is so; it is never empty.
	Reason string `json:"reason"`
}

// Member is how this node's member of a quorum is.
type Member struct {
	// Service is the quorum's, such as kafka.
	Service string `json:"service"`
	// Of lists the members that the node's configuration has.
	Of []string `json:"of"`
	// Serves is true when it is one of a quorum, and Reason says why it is not.
	Serves bool   `json:"serves"`
	Reason string `json:"reason,omitempty"`
	// Leaving is true when it would serve, and is about to leave for a while.
	Leaving bool `json:"leaving,omitempty"`
}

// Health is what a node answers to GET /v1/health.
type Health struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// Healthy is true when no condition is failing.
	Healthy bool `json:"healthy"`
	// Time is that of the node's clock.
	Time time.Time `json:"time"`
	// Conditions are in an order: each stands on those before it, so that the first that fails is where to begin.
	Conditions []Condition `json:"conditions"`
	// Quorums are those that the node is a member of.
	Quorums []Member `json:"quorums,omitempty"`
}

// ParseHealth reads the answer of a node of a cluster. Whatever is not as it must be is an error.
func ParseHealth(data []byte, cluster, node string) (Health, error) {
	var h Health
	if err := json.Unmarshal(data, &h); err != nil {
		return Health{}, fmt.Errorf("its answer is malformed: %w", err)
	}
	if h.Cluster != cluster || h.Node != node {
		return Health{}, fmt.Errorf("it answers for %.64q of cluster %.64q", h.Node, h.Cluster)
	}
	if len(h.Conditions) == 0 || len(h.Conditions) > maxConditions {
		return Health{}, fmt.Errorf("its answer has %d conditions, and there must be 1 to %d", len(h.Conditions), maxConditions)
	}
	healthy := true
	for _, c := range h.Conditions {
		switch c.State {
		case OK, Warning:
		case Failing:
			healthy = false
		default:
			return Health{}, fmt.Errorf("its condition %.64q is %.64q, which this version does not know", c.Name, c.State)
		}
		if c.Name == "" || c.Reason == "" {
			return Health{}, errors.New("its answer has a condition without name or reason")
		}
	}
	if healthy != h.Healthy {
		return Health{}, errors.New("its answer contradicts itself")
	}
	return h, nil
}

// ParseMember reads what a node answers to GET /v1/quorum/SERVICE.
func ParseMember(data []byte, service string) (Member, error) {
	var m Member
	if err := json.Unmarshal(data, &m); err != nil {
		return Member{}, fmt.Errorf("its answer is malformed: %w", err)
	}
	switch {
	case m.Service != service:
		return Member{}, fmt.Errorf("it answers for %.64q", m.Service)
	case m.Serves != (m.Reason == ""):
		return Member{}, errors.New("its answer contradicts itself")
	}
	return m, nil
}

// Status is what people are shown of a node's status line; the line has more.
type Status struct {
	// Spore is the version of the form.
	Spore   int    `json:"spore"`
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// System is what `systemctl is-system-running` says on the node.
	System   string            `json:"system"`
	Roles    []string          `json:"roles"`
	Held     []Held            `json:"held"`
	Services map[string]string `json:"services"`
	Failed   []string          `json:"failed"`
	// Waiting says for which other nodes the start of a service waits.
	Waiting   map[string]string `json:"waiting"`
	Problem   string            `json:"problem"`
	Addresses []string          `json:"addresses"`
	// NoCloud is what a hypervisor told the machine; nil where it told nothing.
	NoCloud *NoCloud `json:"nocloud"`
	// Configuration says what runs; nil on a machine that does not say so.
	Configuration *Configuration `json:"configuration"`
	// Updates is what came of the node's last look for updates; nil where it takes nothing by itself.
	Updates *Updates `json:"updates"`
	// Watchdog is the hardware watchdog; nil on a machine that has none.
	Watchdog *Watchdog `json:"watchdog"`
	// Shells are the emergency shells that were open on it and that nobody has acknowledged.
	Shells []shell.Session `json:"shells"`
	// BootID is the kernel's name for this boot: another one after each restart. It is empty where the machine does not
	// say so.
	BootID string `json:"bootID"`
	// BuildTime is that of the image that runs, in Unix seconds; 0 where the machine does not say so.
	BuildTime int64 `json:"buildTime"`
	// Versions are those of its programs that keep data, by the name of the data; none where the machine does not say
	// so.
	Versions map[string]string `json:"versions"`
	// Times holds seconds since this start of the machine by step: kernel, stage1, detect, network, activated, running.
	// Steps that are still to come are missing.
	Times map[string]float64 `json:"times"`
}

// NoCloud says where facts of a hypervisor came from (cloud-init's NoCloud), and what of them was left.
type NoCloud struct {
	From []string `json:"from"`
	// NotTaken names the keys that a node does not take, such as "user-data: packages".
	NotTaken []string `json:"notTaken"`
	// Problem says why nothing was taken; empty where something was.
	Problem string `json:"problem"`
}

// Version names the image that runs: the beginning of its root hash, and when it was built.
func (s Status) Version() string {
	if s.Configuration == nil {
		return ""
	}
	return Version(s.Configuration.RootHash, s.BuildTime)
}

// Version names an image by its root hash and its build time in Unix seconds, which may be 0 where it is not known.
func Version(rootHash string, buildTime int64) string {
	text := fmt.Sprintf("%.12s", rootHash)
	if buildTime > 0 {
		text += time.Unix(buildTime, 0).UTC().Format(" of 2006-01-02 15:04")
	}
	return text
}

// Configuration is which system a node runs: its root and its cluster part, and what else is on its disk.
type Configuration struct {
	// RootHash and ClusterHash are verity root hashes in hexadecimal.
	RootHash    string `json:"rootHash"`
	ClusterHash string `json:"clusterHash"`
	// Serial is that of the update that runs; 0 when the image brought it.
	Serial uint64 `json:"serial"`
	// Trial says that it has yet to show that the node's roles come up with it.
	Trial bool `json:"trial"`
	// Staged is the cluster hash of what the next start takes, Other that of the entry beside the one that runs.
	// StagedRoot and OtherRoot are their root hashes where they have another root than what runs. Live says that the
	// running node took what is staged already.
	Staged     string `json:"staged"`
	StagedRoot string `json:"stagedRoot"`
	Other      string `json:"other"`
	OtherRoot  string `json:"otherRoot"`
	Live       bool   `json:"live"`
	// Loader says what is to be known of a new boot loader: that it is to be tried, or why it was not taken.
	Loader string `json:"loader"`
	// Problem says that the node went back, and why.
	Problem string `json:"problem"`
}

// Updates is what came of a look for updates.
type Updates struct {
	// At is when, From where.
	At   time.Time `json:"at"`
	From string    `json:"from"`
	// Problem says why nothing came of it; empty when the node runs or has staged what was there.
	Problem string `json:"problem"`
}

// Watchdog is the timer that restarts a machine that hangs.
type Watchdog struct {
	// Identity is how its driver calls it, Seconds how long the machine may hang.
	Identity string `json:"identity"`
	Seconds  int    `json:"seconds"`
	// Held says that the timer runs, HasReset that it has restarted the machine before this start.
	Held     bool `json:"held"`
	HasReset bool `json:"hasReset"`
}

// NotUp says what of the node's roles is not up; empty when all is.
func (s Status) NotUp() string {
	var out []string
	for _, h := range s.Held {
		out = append(out, "role "+h.Role+" is held")
	}
	for unit, state := range s.Services {
		if state != "active" && state != "inactive" {
			out = append(out, unit+" is "+state)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// Held is a role that does not start, and why.
type Held struct {
	Role   string `json:"role"`
	Reason string `json:"reason"`
}

// ParseStatus reads the status line of a node of the cluster with that name.
func ParseStatus(data []byte, cluster, node string) (Status, error) {
	var s Status
	if err := json.Unmarshal(data, &s); err != nil {
		return Status{}, fmt.Errorf("its status line is malformed: %w", err)
	}
	if s.Spore != 1 {
		return Status{}, fmt.Errorf("its status line has the form %d, which this version does not know", s.Spore)
	}
	if s.Cluster != cluster || s.Node != node {
		return Status{}, fmt.Errorf("its status line belongs to %.64q of cluster %.64q", s.Node, s.Cluster)
	}
	return s, nil
}
