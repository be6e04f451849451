package check

import (
	"fmt"
	"net/netip"

	"spore/cluster/spec"
)

// Checker carries one run of the checks: what they look at, and what they found.
type Checker struct {
	Cluster *spec.Cluster
	// Services are the settings of the enabled services.
	Services spec.Services
	// File is cluster.yaml.
	File File
	// Strict makes every warning an error.
	Strict bool
	// Role returns the canonical name of a role, or nothing for one that there is not.
	Role func(name string) string
	// Report is what was found.
	Report Report

	// Subnets, Pods and ServiceNets are the networks of cluster.yaml that were valid.
	Subnets, Pods, ServiceNets []netip.Prefix
	// Owners says which node has an address, by its index.
	Owners map[netip.Addr]int
	// NodeFiles has the files of nodes/ by the names of the nodes that they are about.
	NodeFiles map[string]NodeFile
	// Files says what is wrong with the files of the folder that settings name (service.Service.Files), by path.
	Files map[string]error

	// compared counts the words that SuggestOf looked at.
	compared int
}

// Errorf reports what makes the configuration unusable.
func (k *Checker) Errorf(p Place, format string, args ...any) { k.add(Error, p, format, args...) }

// Warningf reports a risk.
func (k *Checker) Warningf(p Place, format string, args ...any) { k.add(Warning, p, format, args...) }

// Notef reports what is worth knowing.
func (k *Checker) Notef(p Place, format string, args ...any) { k.add(Note, p, format, args...) }

func (k *Checker) add(sev Severity, p Place, format string, args ...any) {
	line, column := p.File.At(p.Path...)
	if p.File.Faulty(line, column) {
		return
	}
	if sev == Warning && k.Strict {
		sev = Error
	}
	k.Report = append(k.Report, Problem{sev, p.File.Path(), line, column, fmt.Sprintf(format, args...)})
}

// MembersOf returns the indexes of the nodes with a role.
func (k *Checker) MembersOf(role string) []int {
	var out []int
	for i := range k.Cluster.Nodes {
		if k.HasRole(i, role) {
			out = append(out, i)
		}
	}
	return out
}

// ServerOf finds the node that has an address and a role.
func (k *Checker) ServerOf(a netip.Addr, role string) (int, bool) {
	i, ok := k.Owners[a]
	return i, ok && k.HasRole(i, role)
}

// NodeName is the name of a node by its index, for a message.
func (k *Checker) NodeName(i int) string { return Clip(k.Cluster.Nodes[i].Name) }

// HasRole reports whether a node has a role, under any of its names.
func (k *Checker) HasRole(node int, role string) bool {
	for _, name := range k.Cluster.Nodes[node].Roles {
		if k.Role(name) == role {
			return true
		}
	}
	return false
}
