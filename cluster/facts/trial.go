package facts

import "time"

// defaultTrial is how long the roles of a node may take to come up with a pushed configuration: pulling nothing, a control
// plane of three masters takes two minutes on slow disks.
const defaultTrial = 10 * time.Minute

// TrialBound is how long a node may take until its roles are up with a configuration that was pushed to it.
func (c *Cluster) TrialBound() time.Duration {
	bound := defaultTrial
	if c.TrialMinutes > 0 {
		bound = time.Duration(c.TrialMinutes) * time.Minute
	}
	return bound * time.Duration(c.Services.Kubernetes().Slow())
}
