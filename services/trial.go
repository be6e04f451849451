package services

import (
	"time"

	"spore/cluster/facts"
)

// defaultTrial is how long the roles of a node may take to come up with a pushed configuration: pulling nothing, a
// control plane of three masters takes two minutes on slow disks.
const defaultTrial = 10 * time.Minute

// TrialBound is how long a node may take until its roles are up with what was pushed to it.
func TrialBound(c *facts.Cluster) time.Duration {
	bound := defaultTrial
	if c.TrialMinutes > 0 {
		bound = time.Duration(c.TrialMinutes) * time.Minute
	}
	return bound * time.Duration(slow(c))
}

// defaultSettle is how long a node has to be up with another root or kernel: what leaks, wears out or is killed after
// minutes shows within it.
const defaultSettle = 10 * time.Minute

// TrialSettle is how long everything has to be up without a break with another root or kernel that was pushed to a
// node. The time until it is up (TrialBound) comes before. It is time of the clock: slower machines need no more of it.
func TrialSettle(c *facts.Cluster) time.Duration {
	if c.TrialSettle > 0 {
		return time.Duration(c.TrialSettle) * time.Minute
	}
	return defaultSettle
}

// slow is by how much the machines are slower than usual: the largest factor that the settings of a service say, at
// least 1.
func slow(c *facts.Cluster) int {
	out := 1
	for _, s := range Of(c).all {
		if s.Slow != nil && c.Services.Has(s.Name) {
			out = max(out, s.Slow(c.Services))
		}
	}
	return out
}
