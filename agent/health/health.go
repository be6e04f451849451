// Package health says how this node is, as a list of conditions, each with a reason: what the node's API answers to GET
// /v1/health. It looks at what the agent has found out (the status line) and at little else, changes nothing, and needs
// no privileges.
package health

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"spore/agent/renewal"
	"spore/agent/status"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

// Input is what the conditions are made of.
type Input struct {
	Cluster *facts.Cluster
	Node    *facts.Node
	// Now is the node's time, Boot how long it has been up.
	Now time.Time
	Up  time.Duration
	// Line is the last status line, and LineProblem why there is none.
	Line        status.Line
	LineProblem string
	// AgentRuns tells whether spore-agent.service has a process: without it nobody writes the line.
	AgentRuns bool
	// CertificateEnds is when the certificate ends by which this node is known to others.
	CertificateEnds time.Time
	// Var is how full /var is.
	Var Space
	// Quotas are the directories of roles that are held to a size.
	Quotas []Quota
	// Addresses are the static addresses that the configuration gives to the node.
	Addresses []string
	// Quorums are the quorum services that the node is a member of.
	Quorums []Quorum
	// Snapshots are those of etcd on a master; nil elsewhere.
	Snapshots *Snapshots
	// Renewal is how far the node is with new certificates and authorities, and RenewalProblem why that is not known.
	Renewal        renewal.State
	RenewalProblem string
	// Endpoint is the virtual address of the Kubernetes API on a master; nil where there is none.
	Endpoint *Endpoint
	// Manifests are the Kubernetes objects of manifests/ on a master; nil where there are none.
	Manifests *Manifests
	// OwnRoles are the roles that the configuration has of its own and that the node has started.
	OwnRoles []OwnRole
	// Memory is that of the machine in bytes; 0 where it is not known.
	Memory uint64
}

// Space is how full a file system is.
type Space struct {
	// Bytes and Files have what there is, FreeBytes and FreeFiles what programs may still use. Files is 0 where the file
	// system has no table of files.
	Bytes, FreeBytes, Files, FreeFiles uint64
	// Problem says why it is not known.
	Problem string
}

// Quorum is a quorum service that the node is a member of.
type Quorum struct {
	Service, Unit string
	Members       []string
}

// Row makes one condition.
type Row struct {
	Name string
	// Of looks at the node. An empty state leaves the condition out: there is nothing that it could be said of.
	Of func(Input) (nodeapi.State, string)
}

// Rows is the table of conditions, in their order: each stands on those before it.
func Rows() []Row {
	return []Row{
		{"agent", agent},
		{"identity", identity},
		{"clock", clock},
		{"watchdog", watchdog},
		{"state", partition},
		{"space", space},
		{"quotas", quotas},
		{"disks", disks},
		{"network", network},
		{"secrets", secrets},
		{"certificate", certificate},
		{"renewal", renewed},
		{"configuration", configuration},
		{"roles", roles},
		{"quorums", quorums},
		{"snapshots", snapshots},
		{"endpoint", endpoint},
		{"manifests", manifests},
		{"memory", memory},
		{"own-roles", ownRoles},
		{"shell", shells},
		{"units", units},
		{"system", system},
	}
}

// Of says how the node is.
func Of(in Input) nodeapi.Health {
	h := nodeapi.Health{Cluster: in.Cluster.ID, Node: in.Node.Name, Healthy: true, Time: in.Now.UTC()}
	for _, row := range Rows() {
		is, reason := row.Of(in)
		if is == "" {
			continue
		}
		if reason == "" { // whoever asks takes no condition without one
			reason = "it is not said why"
		}
		h.Conditions = append(h.Conditions, nodeapi.Condition{Name: row.Name, State: is, Reason: reason})
		h.Healthy = h.Healthy && is != nodeapi.Failing
	}
	for _, q := range in.Quorums {
		h.Quorums = append(h.Quorums, Member(in.Line, q))
	}
	return h
}

// Member says how this node's member of a quorum is, by the status line.
func Member(l status.Line, q Quorum) nodeapi.Member {
	reason := Input{Line: l}.notServing(q)
	return nodeapi.Member{Service: q.Service, Of: q.Members, Serves: reason == "", Reason: reason}
}

func agent(in Input) (nodeapi.State, string) {
	switch {
	case in.LineProblem != "":
		return nodeapi.Failing, in.LineProblem
	case !in.AgentRuns:
		return nodeapi.Failing, "spore-agent.service does not run; what follows is what it said last"
	}
	return nodeapi.OK, "spore-agent runs"
}

func identity(in Input) (nodeapi.State, string) {
	l := in.Line
	switch {
	case l.Problem != "":
		return nodeapi.Failing, l.Problem
	case l.Matched == nil:
		return nodeapi.Failing, "the agent has not said yet which node this is"
	}
	return nodeapi.OK, fmt.Sprintf("%s by %s %s", l.Node, l.Matched.By, l.Matched.Value)
}

func partition(in Input) (nodeapi.State, string) {
	s := in.Line.State
	switch {
	case s == nil:
		return nodeapi.Warning, "it is not known what /var is"
	case s.Refused:
		return nodeapi.Failing, s.Warning
	case s.Warning != "":
		return nodeapi.Warning, s.Warning
	}
	return nodeapi.OK, strings.TrimSpace(s.Kind + " " + s.Device)
}

// What is left of a file system: little is both a share, in percent, and an amount, in bytes. A share alone would be
// much of a large disk, and an amount alone much of a small one.
const (
	lowShare, lowBytes     = 15, 4 << 30
	leastShare, leastBytes = 5, 1 << 30
)

func space(in Input) (nodeapi.State, string) {
	v := in.Var
	if v.Problem != "" {
		return nodeapi.Warning, v.Problem
	}
	left := share(v.FreeBytes, v.Bytes)
	reason := fmt.Sprintf("%d %% of /var is free (%d of %d MiB)", left, v.FreeBytes>>20, v.Bytes>>20)
	files := share(v.FreeFiles, v.Files)
	if files < lowShare {
		reason += fmt.Sprintf(", and room for %d %% of its files", files)
	}
	switch {
	case left < leastShare && v.FreeBytes < leastBytes || files < leastShare:
		return nodeapi.Failing, reason
	case left < lowShare && v.FreeBytes < lowBytes || files < lowShare:
		return nodeapi.Warning, reason
	}
	return nodeapi.OK, reason
}

// share is how many percent a part is.
func share(part, of uint64) uint64 {
	if of == 0 {
		return 100
	}
	return uint64(float64(part) / float64(of) * 100)
}

func disks(in Input) (nodeapi.State, string) {
	var bad []string
	for _, d := range in.Line.Disks {
		if d.Problem != "" {
			bad = append(bad, fmt.Sprintf("%s disk %s: %s", d.Use, d.Selector, d.Problem))
		}
	}
	switch {
	case len(bad) > 0:
		return nodeapi.Failing, strings.Join(bad, "; ")
	case len(in.Line.Disks) == 0:
		return "", ""
	}
	return nodeapi.OK, fmt.Sprintf("%d in use", len(in.Line.Disks))
}

func network(in Input) (nodeapi.State, string) {
	var bad []string
	for _, c := range in.Line.Conflicts {
		bad = append(bad, fmt.Sprintf("%s is used by %s", c.IP, c.MAC))
	}
	for _, a := range in.Addresses {
		taken := slices.ContainsFunc(bad, func(s string) bool { return strings.HasPrefix(s, a+" is used") })
		if !slices.Contains(in.Line.Addresses, a) && !taken {
			bad = append(bad, "the node does not have its address "+a)
		}
	}
	switch {
	case len(bad) > 0:
		return nodeapi.Failing, strings.Join(bad, "; ")
	case len(in.Line.Addresses) == 0:
		return nodeapi.Failing, "the node has no address"
	}
	return nodeapi.OK, strings.Join(in.Line.Addresses, ", ")
}

func secrets(in Input) (nodeapi.State, string) {
	b := in.Line.Bundle
	switch {
	case b == nil || b.Serial == 0 && b.Problem == "":
		return nodeapi.Failing, "the node has no bundle"
	case b.Serial == 0:
		return nodeapi.Failing, b.Problem
	case b.Problem != "":
		return nodeapi.Warning, fmt.Sprintf("bundle %d: %s", b.Serial, b.Problem)
	}
	return nodeapi.OK, fmt.Sprintf("bundle %d", b.Serial)
}

// soon is when an end is near that nobody has put off: nodes renew their certificates long before.
const soon = 14 * 24 * time.Hour

func certificate(in Input) (nodeapi.State, string) {
	ends := in.CertificateEnds
	left := ends.Sub(in.Now)
	switch {
	case ends.IsZero():
		return nodeapi.Failing, "the certificate of the node's agent cannot be read"
	case left <= 0:
		return nodeapi.Failing, "the certificate of the node's agent has ended at " + ends.UTC().Format(time.RFC3339)
	case left < soon:
		return nodeapi.Warning, "the certificate of the node's agent ends at " + ends.UTC().Format(time.RFC3339) + ", and was not renewed"
	}
	return nodeapi.OK, "until " + ends.UTC().Format(time.RFC3339)
}

func renewed(in Input) (nodeapi.State, string) {
	r := in.Renewal
	switch {
	case in.RenewalProblem != "":
		return nodeapi.Warning, in.RenewalProblem
	case r.Problem != "":
		return nodeapi.Warning, r.Problem
	case len(r.Pending) > 0:
		return nodeapi.Warning, "what is new was not taken yet by " + strings.Join(r.Names(), ", ")
	case r.Ends.IsZero():
		return "", "" // no bundle: secrets says so
	}
	return nodeapi.OK, "the first certificate ends at " + r.Ends.UTC().Format(time.RFC3339)
}

func configuration(in Input) (nodeapi.State, string) {
	c := in.Line.Configuration
	switch {
	case c == nil:
		return "", ""
	case c.Problem != "":
		return nodeapi.Warning, c.Problem
	case c.Trial:
		return nodeapi.Warning, fmt.Sprintf("pushed configuration %d is on trial: the node goes back to the one before unless its roles come up", c.Serial)
	case c.Staged != "" && !c.Live:
		return nodeapi.Warning, "the next start takes the pushed configuration " + c.Staged
	case c.Staged != "":
		return nodeapi.OK, "took the pushed configuration " + c.Staged + " as it ran; the next start shows whether it boots with it"
	case c.Serial != 0:
		return nodeapi.OK, fmt.Sprintf("pushed configuration %d", c.Serial)
	}
	return nodeapi.OK, "that of its image"
}

func roles(in Input) (nodeapi.State, string) {
	var bad []string
	for _, h := range in.Line.Held {
		bad = append(bad, h.Role+" is held: "+h.Reason)
	}
	switch {
	case len(bad) > 0:
		return nodeapi.Failing, strings.Join(bad, "; ")
	case len(in.Node.Roles) == 0:
		return nodeapi.OK, "the node has none"
	case len(in.Line.Roles) == 0:
		return nodeapi.Failing, "none was started yet"
	}
	return nodeapi.OK, strings.Join(in.Line.Roles, ", ")
}

func quorums(in Input) (nodeapi.State, string) {
	var bad, good []string
	known := map[string]bool{}
	for _, q := range in.Quorums {
		known[q.Service] = true
		if reason := in.notServing(q); reason != "" {
			bad = append(bad, q.Service+": "+reason)
		} else {
			good = append(good, q.Service)
		}
	}
	for _, service := range slices.Sorted(maps.Keys(in.Line.Waiting)) {
		if !known[service] {
			bad = append(bad, service+": "+in.Line.Waiting[service])
		}
	}
	switch {
	case len(bad) > 0:
		return nodeapi.Failing, strings.Join(bad, "; ")
	case len(good) == 0:
		return "", ""
	}
	return nodeapi.OK, "serves in those of " + strings.Join(good, ", ")
}

// notServing says why this node's member of a quorum does not serve; empty when it does.
func (in Input) notServing(q Quorum) string {
	if text := in.Line.Waiting[q.Service]; text != "" {
		return text
	}
	switch is := in.Line.Services[q.Unit]; is {
	case "active":
		return ""
	case "":
		return q.Unit + " was not started"
	default:
		return q.Unit + " is " + is
	}
}

func units(in Input) (nodeapi.State, string) {
	var bad, begun []string
	for _, unit := range in.Line.Failed {
		bad = append(bad, unit+" failed")
	}
	for _, unit := range slices.Sorted(maps.Keys(in.Line.Services)) {
		switch is := in.Line.Services[unit]; {
		case is == "active" || slices.Contains(in.Line.Failed, unit):
		case is == "activating" || is == "reloading":
			begun = append(begun, unit+" is "+is)
		case is == "inactive" && strings.HasSuffix(unit, ".service") && !in.settled():
			begun = append(begun, unit+" is not started yet")
		case is == "inactive":
			// What a condition of the unit leaves out, and what was done and is over.
		default:
			bad = append(bad, unit+" is "+is)
		}
	}
	switch {
	case len(bad) > 0:
		return nodeapi.Failing, strings.Join(append(bad, begun...), "; ")
	case len(begun) > 0:
		return nodeapi.Failing, strings.Join(begun, "; ")
	}
	return nodeapi.OK, fmt.Sprintf("%d watched, none failed", len(in.Line.Services))
}

// settled tells whether the boot is done.
func (in Input) settled() bool { return in.Line.System == "running" || in.Line.System == "degraded" }

func system(in Input) (nodeapi.State, string) {
	up := "up for " + in.Up.Truncate(time.Second).String()
	switch in.Line.System {
	case "running":
		return nodeapi.OK, "running, " + up
	case "degraded":
		return nodeapi.Failing, "degraded: a unit failed"
	case "":
		return nodeapi.Failing, "systemd was not asked yet"
	default:
		return nodeapi.Failing, in.Line.System + ", " + up
	}
}
