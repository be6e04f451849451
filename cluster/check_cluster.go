package cluster

import (
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/identity"
	"spore/services"
)

// maxTrial bounds trialMinutes to a day.
const maxTrial = 24 * 60

func (k *checker) checkCluster() {
	src, c := k.c.cluster, k.Cluster
	if src.Has("name") {
		k.Label(check.In(src, "name"), "the cluster's name", c.Name)
	}
	if src.Has("id") {
		if _, err := identity.Normalize(identity.UUID, c.ID); err != nil {
			k.Errorf(check.In(src, "id"), "the cluster id %q is not a unique UUID; write the output of uuidgen once, and never change it", check.Clip(c.ID))
		}
	}
	if src.Has("domain") {
		switch {
		case !check.IsDomain(c.Domain):
			k.Errorf(check.In(src, "domain"), "the domain %q is not a DNS name; write labels of lower-case letters, digits and - with dots between, such as plant.example", check.Clip(c.Domain))
		case c.Domain == "local" || strings.HasSuffix(c.Domain, ".local"):
			k.Warningf(check.In(src, "domain"), "the domain %q ends in .local, which belongs to multicast DNS (RFC 6762): machines will ask the wire instead of the DNS server; choose another", c.Domain)
		}
	}
	k.checkServiceList()
	k.checkState(src, c.State)
	k.Between(check.In(src, "trialMinutes"), "trialMinutes", c.TrialMinutes, 0, maxTrial)
	if src.Has("nodes") && len(c.Nodes) == 0 {
		k.Errorf(check.In(src, "nodes"), "there are no nodes; list at least one with its name and roles")
	}
}

func (k *checker) checkServiceList() {
	src := k.c.cluster
	if src.Faulty(src.At("services")) {
		return
	}
	seen := k.Unique()
	for i, name := range k.Cluster.Services {
		p := check.In(src, "services", i)
		if !k.OneOf(p, "the service", name, services.Names()) || !seen.Add(p, "the service", name, "remove one") {
			continue
		}
		if k.c.services[name] == nil {
			k.Errorf(p, "the service %q has no settings; write %s/%s.yaml (an empty file takes the defaults, if there are any)", name, servicesDir, name)
		}
	}
	for _, name := range services.Names() {
		if s := k.c.services[name]; s != nil && !slices.Contains(k.Cluster.Services, name) {
			k.Warningf(check.In(s), "the service %q is not in services of cluster.yaml, so this file does nothing; add it there or remove the file", name)
		}
	}
}
