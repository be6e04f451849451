// Package paths holds the places on a node that the agent's parts agree on. Everything under /run is of this boot only;
// what lasts is under /var/lib/spore.
package paths

import "path/filepath"

// Files and directories of the agent.
const (
	// Identity says which node the machine is (JSON, package detect).
	Identity = "/run/spore/identity.json"
	// PhaseTwo exists while only the network can say which node the machine is.
	PhaseTwo = "/run/spore/phase-two"
	// Probe exists when static addresses have to be probed before networkd uses them.
	Probe = "/run/spore/probe"
	// Conflicts lists addresses that another machine uses (JSON, package arp).
	Conflicts = "/run/spore/conflicts.json"
	// State says what /var is (JSON, package state).
	State = "/run/spore/state.json"
	// Repart holds the definitions for systemd-repart.
	Repart = "/run/spore/repart.d"
	// Secrets holds one file for each secret of the node's bundle; a directory of root alone.
	Secrets = "/run/spore/secrets"
	// BundleProblem says why a bundle was refused.
	BundleProblem = "/run/spore/bundle-problem"
	// Times holds one file for each step of the boot: seconds since boot at which it was done.
	Times = "/run/spore/times"
	// Status is the last status line.
	Status = "/run/spore/status.json"
	// Binding is the file on the state partition that says whose it is.
	Binding = "/var/lib/spore/state.json"
	// Clock holds the last time seen.
	Clock = "/var/lib/spore/clock"
	// ClusterConfig is where programs and people read the configuration.
	ClusterConfig = "/etc/cluster-config"
	// Environment holds one environment file for each service.
	Environment = "/etc/cluster-config/environment"
)

// Root is the directory that stands for /: "/" on a node, a temporary directory in tests.
type Root string

// At is where path lies under the root.
func (r Root) At(path string) string { return filepath.Join(string(r), path) }
