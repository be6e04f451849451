// Package ready judges whether a rehearsed node is up, as its user understands it: its system runs, its roles have
// started, no unit has failed, its own health is good, and Kubernetes takes it for Ready where it runs pods.
//
// It takes what others have seen and heard, and says what is missing. It watches no console and starts nothing; the
// only thing that it asks itself is the Kubernetes API (Kubernetes), because no node's health says what that holds of
// it.
package ready

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"spore/builder/vm"
	"spore/cluster/facts"
	"spore/services"
	"spore/wire/nodeapi"
)

// Lack is one thing that is missing, and why.
type Lack struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
}

func (l Lack) String() string { return l.What + ": " + l.Reason }

// ByStatus is what a node lacks by the last status line of its present boot; there was none yet where s is nil.
func ByStatus(c *facts.Cluster, n *facts.Node, s *vm.Status) []Lack {
	switch {
	case s == nil:
		return []Lack{{"status", "the node has not said anything yet"}}
	case s.Problem != "":
		return []Lack{{"identity", s.Problem}}
	case s.Node != n.Name:
		return []Lack{{"identity", fmt.Sprintf("the machine is %q", s.Node)}}
	}
	var out []Lack
	lacks := func(what, format string, args ...any) { out = append(out, Lack{what, fmt.Sprintf(format, args...)}) }
	if s.System != "running" {
		lacks("system", "it is %s", cmp.Or(s.System, "unknown"))
	}
	known := slices.Clone(s.Roles)
	for _, h := range s.Held {
		lacks("role "+h.Role, "held: %s", h.Reason)
		known = append(known, h.Role)
	}
	for _, role := range n.Roles {
		if !slices.Contains(known, role) {
			lacks("role "+role, "it was not started")
		}
	}
	for _, service := range slices.Sorted(maps.Keys(s.Waiting)) {
		lacks("service "+service, "%s", s.Waiting[service])
	}
	for _, target := range services.NodeTargets(c, n) {
		if is := s.Services[target]; is != "active" {
			lacks("unit "+target, "it is %s", cmp.Or(is, "unknown"))
		}
	}
	for _, unit := range s.Failed {
		lacks("unit "+unit, "it has failed")
	}
	for _, unit := range slices.Sorted(maps.Keys(s.Services)) {
		// A unit that is inactive in a system that runs was left out by a condition, or is done.
		is := s.Services[unit]
		said := strings.HasSuffix(unit, ".target") || slices.Contains(s.Failed, unit)
		if !said && is != "active" && is != "inactive" {
			lacks("unit "+unit, "it is %s", cmp.Or(is, "unknown"))
		}
	}
	return out
}

// ByHealth is what a node lacks by its own health.
func ByHealth(h nodeapi.Health) []Lack {
	var out []Lack
	for _, c := range h.Conditions {
		if c.State == nodeapi.Failing {
			out = append(out, Lack{"health " + nodeapi.Harmless(c.Name), nodeapi.Harmless(c.Reason)})
		}
	}
	return out
}
