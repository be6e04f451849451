package services

import (
	"time"

	"spore/cluster/facts"
)

// defaultTrial is how long the roles of a node may take to come up with a pushed configuration: pulling nothing, a control
// plane of three masters takes two minutes on slow disks.
const defaultTrial = 10 * time.Minute

// TrialBound is how long a node may take until its roles are up with a configuration that was pushed to it.
func TrialBound(c *facts.Cluster) time.Duration {
	bound := defaultTrial
	if c.TrialMinutes > 0 {
		bound = time.Duration(c.TrialMinutes) * time.Minute
	}
	return bound * time.Duration(slow(c))
}

// slow is by how much the machines are slower than usual: the largest factor that the settings of a service say, at least 1.
func slow(c *facts.Cluster) int {
	out := 1
	for _, s := range All() {
		if s.Slow != nil && c.Services.Has(s.Name) {
			out = max(out, s.Slow(c.Services))
		}
	}
	return out
}
