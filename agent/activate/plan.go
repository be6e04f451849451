// Package activate starts what a node's roles are. It decides which roles may start and enqueues their targets at
// systemd; it never waits for a job, since the caller may be ordered before it.
package activate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spore/agent/delivery"
	"spore/agent/detect"
	"spore/agent/secrets"
	"spore/agent/state"
	"spore/cluster/facts"
	"spore/services"
	"spore/services/service"
)

// Held is a role that does not start, and why.
type Held struct {
	Role   string `json:"role"`
	Reason string `json:"reason"`
}

// Input is what the decision depends on.
type Input struct {
	Cluster  *facts.Cluster
	Node     *facts.Node
	Identity detect.Identity
	State    state.Info
	// Have tells whether a secret is installed for a program.
	Have func(program, ref string) bool
	// Unit tells whether the image has a unit.
	Unit func(name string) bool
	// After are the units that a unit is to start after; nil, or of no unit, keeps the order of the node's roles.
	After func(unit string) []string
	// Serial is that of the node's bundle, 0 without one; BundleProblem says what is not as it should be with it.
	Serial        uint64
	BundleProblem string
}

// Plan returns the roles that may start, in the order in which they are to be enqueued, their targets in the same order,
// and the roles that are held.
func Plan(in Input) (start, targets []string, held []Held) {
	for _, name := range in.Node.Roles {
		if reason := in.reason(name); reason != "" {
			held = append(held, Held{name, reason})
			continue
		}
		start = append(start, name)
	}
	start = in.inOrder(start)
	for _, name := range start {
		role, _ := services.Of(in.Cluster).Lookup(name)
		targets = append(targets, role.Target)
	}
	return start, targets, held
}

// Units are the units of every node's programs that have their secrets.
func (in Input) Units() []string {
	var out []string
	for _, name := range services.EveryNode(in.Cluster) {
		program, _ := services.Of(in.Cluster).LookupProgram(name)
		if strings.Contains(program.Unit, "@.") { // Another unit starts it.
			continue
		}
		if in.Unit(program.Unit) && !slices.ContainsFunc(program.Secrets, func(ref string) bool { return !in.Have(name, ref) }) {
			out = append(out, program.Unit)
		}
	}
	return out
}

// reason says why a role does not start; empty when it does.
func (in Input) reason(name string) string {
	role, ok := services.Of(in.Cluster).Lookup(name)
	if !ok || !in.Unit(role.Target) {
		return "this image does not carry it; build one in which its service is enabled"
	}
	if in.State.Refused {
		return "its state is out of reach: " + in.State.Warning
	}
	missing := in.missing(role)
	if len(missing) == 0 {
		return ""
	}
	shown := strings.Join(missing[:min(len(missing), 5)], ", ")
	if len(missing) > 5 {
		shown += fmt.Sprintf(" and %d more", len(missing)-5)
	}
	return "missing secrets " + shown + ": " + in.whyMissing()
}

// whyMissing says why the node does not have its secrets, and what to do.
func (in Input) whyMissing() string {
	switch {
	case in.Serial > 0:
		why := fmt.Sprintf("bundle %d does not hold them; send a newer one with `spore bundle --node %s --make`", in.Serial, in.Node.Name)
		if in.BundleProblem != "" {
			why += "; " + in.BundleProblem
		}
		return why
	case len(in.Cluster.SigningKeys) == 0:
		return delivery.WithoutKeys
	case in.BundleProblem != "":
		return in.BundleProblem
	case in.Identity.Phase == 2 && in.Identity.ByNetworkOfCloud():
		return "the node was found by the host name or network of NoCloud alone, which proves nothing, and no bundle came with the machine"
	case in.Identity.Phase == 2:
		return "the node was found by DHCP alone, which proves nothing, and no bundle came with the machine"
	}
	return "no bundle for this node came with the machine"
}

// missing lists the secrets that the role's programs need and that are not installed.
func (in Input) missing(role service.Role) []string {
	var out []string
	for _, program := range services.RolePrograms(in.Cluster, role) {
		for _, ref := range needs(in.Cluster, role, program) {
			if !in.Have(program.Name, ref) && !slices.Contains(out, ref) {
				out = append(out, ref)
			}
		}
	}
	return out
}

// HaveIn tells whether a secret is installed for a program in dir.
func HaveIn(dir string) func(program, ref string) bool {
	return func(program, ref string) bool {
		_, err := os.Stat(filepath.Join(dir, program, ref))
		return err == nil
	}
}

// Secrets lists, by program, the entries of the bundle that the programs of every node and of the node's roles are
// given.
func Secrets(c *facts.Cluster, n *facts.Node) map[string][]string {
	out := map[string][]string{}
	for _, name := range services.EveryNode(c) {
		if program, _ := services.Of(c).LookupProgram(name); len(program.Secrets) > 0 {
			out[name] = slices.Clone(program.Secrets)
		}
	}
	for _, name := range n.Roles {
		role, _ := services.Of(c).Lookup(name)
		for _, program := range services.RolePrograms(c, role) {
			for _, ref := range needs(c, role, program) {
				if !slices.Contains(out[program.Name], ref) {
					out[program.Name] = append(out[program.Name], ref)
				}
			}
		}
	}
	return out
}

// needs lists what a program is given: its row's entries, and those that its service's settings name.
func needs(c *facts.Cluster, role service.Role, program service.Program) []string {
	if !program.NeedsSecrets {
		return program.Secrets
	}
	named := secrets.Refs(c.Services.Get(role.Service))
	if program.Named != nil {
		named = program.Named(c.Services)
	}
	return append(slices.Clone(program.Secrets), named...)
}

// UnitIn tells whether a unit lies in one of the directories.
func UnitIn(dirs ...string) func(string) bool {
	return func(name string) bool {
		for _, d := range dirs {
			if _, err := os.Stat(filepath.Join(d, name)); err == nil {
				return true
			}
		}
		return false
	}
}
