package push

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Status is what of a node's status line matters here.
type Status struct {
	Node     string            `json:"node"`
	Roles    []string          `json:"roles"`
	System   string            `json:"system"`
	Failed   []string          `json:"failed"`
	Services map[string]string `json:"services"`
	Held     []struct {
		Role string `json:"role"`
	} `json:"held"`
	Configuration *struct {
		RootHash    string `json:"rootHash"`
		ClusterHash string `json:"clusterHash"`
		Serial      uint64 `json:"serial"`
		Trial       bool   `json:"trial"`
		Staged      string `json:"staged"`
		Other       string `json:"other"`
		Problem     string `json:"problem"`
	} `json:"configuration"`
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

// Answer is a node's answer to an update.
type Answer struct {
	Node        string `json:"node"`
	Serial      uint64 `json:"serial"`
	ClusterHash string `json:"clusterHash"`
	Entry       string `json:"entry"`
	Unchanged   bool   `json:"unchanged"`
	Note        string `json:"note"`
	// Live says that the running node took it at once, and Restarted which units were restarted for that; Waits is what has to
	// wait for the next start, and why.
	Live      bool     `json:"live"`
	Restarted []string `json:"restarted"`
	Waits     []string `json:"waits"`
	Reboot    bool     `json:"reboot"`
	Error     string   `json:"error"`
}

// effect says what became of it on a node that does not restart.
func (a Answer) effect() string {
	switch {
	case a.Live && len(a.Restarted) > 0:
		return "has it in effect, after a restart of " + strings.Join(a.Restarted, ", ")
	case a.Live:
		return "has it in effect; no program had to be restarted"
	case len(a.Waits) > 0:
		return "has it on its disk, and takes it at its next start (--reboot), because of " + strings.Join(a.Waits, "; ")
	}
	return "has it on its disk, and takes it at its next start"
}

// Target is a node of a roll-out.
type Target struct {
	Name  string
	Roles []string
}

// Rollout brings an update to nodes, one after the other.
type Rollout struct {
	// Nodes are those that get it, All those of the cluster.
	Nodes, All []Target
	// ClusterHash is what they are to run.
	ClusterHash string
	// Reboot restarts each node and goes on only when it is up with the update.
	Reboot bool
	// Bound is how long a node may take to come back and to be up.
	Bound time.Duration
	// Every is how often a node is asked meanwhile.
	Every time.Duration
	// Without names nodes that may be away while others with their roles are restarted.
	Without []string
	// Ask asks a node for its status, Send sends it the update.
	Ask  func(ctx context.Context, node string) (Status, error)
	Send func(ctx context.Context, node string) (Answer, error)
	// Say is told what goes on.
	Say func(node, text string)
}

// Run does it. It ends with the first node that does not take the update, or goes back: what is wrong with one is likely to be
// wrong with all.
func (r Rollout) Run(ctx context.Context) ([]Answer, error) {
	var out []Answer
	for _, n := range r.Nodes {
		if r.Reboot {
			if err := r.othersAreUp(ctx, n); err != nil {
				return out, fmt.Errorf("%s is not restarted: %w", n.Name, err)
			}
		}
		a, err := r.Send(ctx, n.Name)
		if err == nil && a.Error != "" {
			err = errors.New(a.Error)
		}
		if err != nil {
			return out, fmt.Errorf("%s: %w", n.Name, err)
		}
		out = append(out, a)
		switch {
		case a.Unchanged:
			r.Say(n.Name, "runs this configuration already")
			continue
		case !r.Reboot:
			r.Say(n.Name, a.effect())
			continue
		}
		r.Say(n.Name, "restarts with it")
		if err := r.await(ctx, n); err != nil {
			return out, fmt.Errorf("%s: %w", n.Name, err)
		}
		r.Say(n.Name, "is up with it")
	}
	return out, nil
}

// othersAreUp makes sure that the node can be spared: those that do the same, and may form a quorum with it, are up.
func (r Rollout) othersAreUp(ctx context.Context, n Target) error {
	for _, other := range r.All {
		if other.Name == n.Name || slices.Contains(r.Without, other.Name) || !slices.ContainsFunc(other.Roles, func(role string) bool { return slices.Contains(n.Roles, role) }) {
			continue
		}
		s, err := r.Ask(ctx, other.Name)
		if err != nil {
			return fmt.Errorf("%s, which has a role of it too, does not answer (--without %s continues anyway): %w", other.Name, other.Name, err)
		}
		if text := s.NotUp(); text != "" {
			return fmt.Errorf("%s, which has a role of it too, is not up (--without %s continues anyway): %s", other.Name, other.Name, text)
		}
	}
	return nil
}

// await waits until the node runs the update and is done with its trial.
func (r Rollout) await(ctx context.Context, n Target) error {
	ctx, cancel := context.WithTimeout(ctx, r.Bound)
	defer cancel()
	tick := time.NewTicker(r.Every)
	defer tick.Stop()
	last := "it has not answered since"
	for {
		s, err := r.Ask(ctx, n.Name)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				last = err.Error()
			}
		case s.Configuration == nil:
			last = "it does not say which configuration runs"
		case strings.EqualFold(s.Configuration.ClusterHash, r.ClusterHash) && !s.Configuration.Trial:
			return nil
		case strings.EqualFold(s.Configuration.ClusterHash, r.ClusterHash):
			last = "it is on trial: " + s.NotUp()
		case s.Configuration.Problem != "" && s.Configuration.Staged == "":
			return errors.New(s.Configuration.Problem)
		default:
			last = "it has not restarted yet"
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited %s for it to be up with the configuration: %s", r.Bound, last)
		}
	}
}
