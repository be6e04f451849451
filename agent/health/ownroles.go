package health

import (
	"fmt"
	"slices"
	"strings"

	"spore/cluster/role"
	"spore/services"
	"spore/wire/nodeapi"
)

// OwnRole is a role that the configuration has of its own and that the node has started.
type OwnRole struct {
	Name string
	// Units are those that start with it, and Triggered those that a timer, socket or path of them starts now and then.
	Units, Triggered []string
	// Health is what the role answers, and Problem why it does not do its work; neither, where nobody asks it.
	Health, Problem string
}

// ownRoles holds each role to its units and to what its health says.
func ownRoles(in Input) (nodeapi.State, string) {
	var bad, good []string
	for _, r := range in.OwnRoles {
		why := in.notRunning(r)
		if why == "" {
			why = r.Problem
		}
		switch {
		case why != "":
			bad = append(bad, r.Name+": "+why)
		case r.Health != "":
			good = append(good, r.Name+" "+r.Health)
		default:
			good = append(good, r.Name+" runs")
		}
	}
	switch {
	case len(bad) > 0:
		return nodeapi.Failing, strings.Join(bad, "; ")
	case len(good) == 0:
		return "", ""
	}
	return nodeapi.OK, strings.Join(good, "; ")
}

// notRunning says which units of a role are not active, and which of those that start now and then have failed; empty
// where all is as it should be.
func (in Input) notRunning(r OwnRole) string {
	var out []string
	for _, unit := range r.Units {
		switch is := in.Line.Services[unit]; {
		case slices.Contains(in.Line.Failed, unit):
			out = append(out, unit+" failed")
		case is == "":
			out = append(out, unit+" was not started")
		case is != "active":
			out = append(out, fmt.Sprintf("%s is %s", unit, is))
		}
	}
	for _, unit := range r.Triggered {
		if slices.Contains(in.Line.Failed, unit) {
			out = append(out, unit+" failed")
		}
	}
	return strings.Join(out, ", ")
}

// memory never fails a node: its programs may do with less than their roles ask for, and say it themselves when they
// cannot.
func memory(in Input) (nodeapi.State, string) {
	var asked uint64
	var of []string
	for _, name := range in.Node.Roles {
		own, _ := services.Of(in.Cluster).Own(name)
		if d, ok := own.(*role.Definition); ok && d.Bytes() > 0 {
			asked += uint64(d.Bytes())
			of = append(of, name)
		}
	}
	switch {
	case len(of) == 0:
		return "", ""
	case in.Memory == 0:
		return nodeapi.Warning, "it is not known how much memory the machine has"
	}
	reason := fmt.Sprintf("%d MiB, and %d MiB are asked for by %s", in.Memory>>20, (asked+1<<20-1)>>20,
		strings.Join(of, ", "))
	if in.Memory < asked {
		return nodeapi.Warning, "the machine has less memory than its roles ask for: " + reason
	}
	return nodeapi.OK, reason
}
