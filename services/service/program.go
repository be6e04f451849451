package service

import (
	"strings"

	"spore/cluster/spec"
)

// Role is one row of the contract between cluster.yaml and the image.
type Role struct {
	// Name is the canonical name.
	Name string
	// Aliases are other spellings that cluster.yaml may use.
	Aliases []string
	// Target is the systemd target that the agent starts.
	Target string
	// Service is the entry of cluster.yaml's services list that the role belongs to.
	Service string
	// StandIn is the role whose nodes do what this one is for while no node has it; empty when nobody does.
	StandIn string
	// RunsPods says that containers of others run on its nodes, with interfaces and processes of their own.
	RunsPods bool
	// Programs names what the target runs, each a row of Programs.
	Programs []string
}

// Program is one service program of the image.
type Program struct {
	// Name is the program's name and the argument of `spore-agent render`.
	Name string `json:"name"`
	// Unit is its systemd service. Of a template NAME@.service another program starts one for each disk of the node.
	Unit string `json:"unit"`
	// Packages are Debian packages that carry it.
	Packages []string `json:"packages,omitempty"`
	// Payloads are entries of payloads/ that carry it.
	Payloads []string `json:"payloads,omitempty"`
	// Own are programs of this source tree, agent/NAME, that it needs besides the agent.
	Own []string `json:"own,omitempty"`
	// Ports are all that it listens at, on loopback too. Two programs that one node may run never meet at a port
	// whose number is fixed here; the package cluster holds those whose numbers are settings to that.
	Ports []Port `json:"ports,omitempty"`
	// User is the account that it runs as.
	User string `json:"user"`
	// Secrets are the entries of the node's bundle that it is given.
	Secrets []string `json:"secrets,omitempty"`
	// NeedsSecrets gives it those entries, too, that its service's settings name. A role is held back until its programs
	// have what they are to be given.
	NeedsSecrets bool `json:"needsSecrets"`
	// Named picks those of the settings' entries that it uses, of a service whose programs use different ones; nil
	// gives it all.
	Named func(s spec.Services) []string `json:"-"`
	// With is a service that the program is for, besides that of its role, or a part of a service (Part): without
	// it, the role has no such program.
	With string `json:"with,omitempty"`
}

// WaitsForSecrets tells whether a role is held back until this program has its secrets.
func (p Program) WaitsForSecrets() bool { return p.NeedsSecrets || len(p.Secrets) > 0 }

// Pairs names the bundle entries of certificates, a chain and a key each. A name that ends in -key is an entry of its
// own.
func Pairs(names ...string) []string {
	var out []string
	for _, name := range names {
		if strings.HasSuffix(name, "-key") {
			out = append(out, name)
			continue
		}
		out = append(out, name+"-certificate", name+"-key")
	}
	return out
}
