// Package clusterhealth judges a whole cluster by what its nodes say of their health.
package clusterhealth

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"spore/fleet"
	"spore/wire/nodeapi"
)

// maxSkew is by how much a node's clock may differ from this machine's. A question takes a while, and counts as half of it.
const maxSkew = 5 * time.Second

// Cluster is how a whole cluster is: what --json prints.
type Cluster struct {
	Cluster string `json:"cluster"`
	Healthy bool   `json:"healthy"`
	// Conditions are those of the cluster, in an order as those of a node.
	Conditions []nodeapi.Condition `json:"conditions"`
	Nodes      []Node              `json:"nodes"`
}

// Node is how a node is, or why it does not answer.
type Node struct {
	Node    string          `json:"node"`
	Healthy bool            `json:"healthy"`
	Health  *nodeapi.Health `json:"health,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// Judge puts together what the nodes answered.
func Judge(cluster string, answers []fleet.Answer[nodeapi.Health]) Cluster {
	out := Cluster{Cluster: cluster, Nodes: []Node{}, Conditions: []nodeapi.Condition{answering(answers), conditions(answers), clocks(answers)}}
	out.Conditions = append(out.Conditions, quorums(answers)...)
	for _, a := range answers {
		n := Node{Node: a.Node.Name}
		if a.Err != nil {
			n.Error = a.Err.Error()
		} else {
			n.Health, n.Healthy = &a.Value, a.Value.Healthy
		}
		out.Nodes = append(out.Nodes, n)
	}
	out.Healthy = !slices.ContainsFunc(out.Conditions, func(c nodeapi.Condition) bool { return c.State == nodeapi.Failing })
	return out
}

func answering(answers []fleet.Answer[nodeapi.Health]) nodeapi.Condition {
	var silent []string
	for _, a := range answers {
		if a.Err != nil {
			silent = append(silent, a.Node.Name)
		}
	}
	c := nodeapi.Condition{Name: "answers", State: nodeapi.OK, Reason: fmt.Sprintf("%d of %d nodes answer", len(answers)-len(silent), len(answers))}
	if len(silent) > 0 {
		c.State = nodeapi.Failing
		c.Reason += "; not " + strings.Join(silent, ", ")
	}
	return c
}

func conditions(answers []fleet.Answer[nodeapi.Health]) nodeapi.Condition {
	var sick []string
	for _, a := range answers {
		if a.Err == nil && !a.Value.Healthy {
			sick = append(sick, a.Node.Name)
		}
	}
	if len(sick) > 0 {
		return nodeapi.Condition{Name: "nodes", State: nodeapi.Failing, Reason: strings.Join(sick, ", ") + ": not healthy"}
	}
	return nodeapi.Condition{Name: "nodes", State: nodeapi.OK, Reason: "those that answer are healthy"}
}

// clocks compares the nodes' clocks with this machine's.
func clocks(answers []fleet.Answer[nodeapi.Health]) nodeapi.Condition {
	var wrong []string
	for _, a := range answers {
		if a.Err != nil {
			continue
		}
		took := a.Answered.Sub(a.Asked)
		skew := a.Value.Time.Sub(a.Asked.Add(took / 2))
		if skew.Abs() > maxSkew+took/2 {
			by := "ahead of"
			if skew < 0 {
				by = "behind"
			}
			wrong = append(wrong, fmt.Sprintf("%s is %s %s this machine", a.Node.Name, skew.Abs().Round(time.Second), by))
		}
	}
	if len(wrong) > 0 {
		return nodeapi.Condition{Name: "clocks", State: nodeapi.Warning, Reason: strings.Join(wrong, "; ")}
	}
	return nodeapi.Condition{Name: "clocks", State: nodeapi.OK, Reason: fmt.Sprintf("within %s of this machine's, where a node answers", maxSkew)}
}

// quorums counts the members that serve, of those quorums that a node which answers is a member of.
func quorums(answers []fleet.Answer[nodeapi.Health]) []nodeapi.Condition {
	serving, of := map[string][]string{}, map[string][]string{}
	var services []string
	for _, a := range answers {
		if a.Err != nil {
			continue // What it said before it became silent is not how it is.
		}
		for _, m := range a.Value.Quorums {
			if !slices.Contains(services, m.Service) {
				services = append(services, m.Service)
			}
			if m.Serves {
				serving[m.Service] = append(serving[m.Service], a.Node.Name)
			}
			for _, name := range m.Of {
				if !slices.Contains(of[m.Service], name) {
					of[m.Service] = append(of[m.Service], name)
				}
			}
		}
	}
	slices.Sort(services)
	asked := map[string]bool{}
	for _, a := range answers {
		asked[a.Node.Name] = true
	}
	var out []nodeapi.Condition
	for _, s := range services {
		out = append(out, quorum(s, serving[s], of[s], asked))
	}
	return out
}

// quorum judges one: asked tells which nodes were asked at all.
func quorum(service string, serving, of []string, asked map[string]bool) nodeapi.Condition {
	c := nodeapi.Condition{Name: "quorum " + service, State: nodeapi.OK, Reason: fmt.Sprintf("%d of %d members serve", len(serving), len(of))}
	var others, unasked []string
	for _, name := range of {
		switch {
		case slices.Contains(serving, name):
		case asked[name]:
			others = append(others, name)
		default:
			unasked = append(unasked, name)
		}
	}
	slices.Sort(others)
	if len(others) > 0 {
		c.Reason += "; not " + strings.Join(others, ", ")
	}
	switch most := len(of)/2 + 1; {
	case len(unasked) > 0:
		c.Reason += fmt.Sprintf("; %d were not asked", len(unasked))
		if len(others) > 0 {
			c.State = nodeapi.Warning
		}
	case len(serving) < most:
		c.State = nodeapi.Failing
		c.Reason += fmt.Sprintf("; it needs %d to decide", most)
	case len(others) > 0:
		c.State = nodeapi.Warning
	}
	return c
}
