package cluster

import (
	"slices"
	"strings"

	"spore/cluster/identity"
	"spore/services"
)

// maxTrial bounds trialMinutes to a day.
const maxTrial = 24 * 60

func (k *checker) checkCluster() {
	src, c := k.c.cluster, &k.c.Cluster
	if src.has("name") {
		k.label(in(src, "name"), "the cluster's name", c.Name)
	}
	if src.has("id") {
		if _, err := identity.Normalize(identity.UUID, c.ID); err != nil {
			k.errorf(in(src, "id"), "the cluster id %q is no UUID of its own; write the output of uuidgen, once and for ever", clip(c.ID))
		}
	}
	if src.has("domain") {
		switch {
		case !isDomain(c.Domain):
			k.errorf(in(src, "domain"), "the domain %q is not a DNS name; write labels of lower-case letters, digits and - with dots between, such as plant.example", clip(c.Domain))
		case c.Domain == "local" || strings.HasSuffix(c.Domain, ".local"):
			k.warningf(in(src, "domain"), "the domain %q ends in .local, which belongs to multicast DNS (RFC 6762): machines will ask the wire instead of the DNS server; choose another", c.Domain)
		}
	}
	k.checkServiceList()
	k.checkState(src, c.State)
	k.between(in(src, "trialMinutes"), "trialMinutes", c.TrialMinutes, 0, maxTrial)
	if src.has("nodes") && len(c.Nodes) == 0 {
		k.errorf(in(src, "nodes"), "there are no nodes; list at least one with its name and roles")
	}
}

func (k *checker) checkServiceList() {
	src := k.c.cluster
	if src.faulty(src.at("services")) {
		return
	}
	seen := k.unique()
	for i, name := range k.c.Cluster.Services {
		p := in(src, "services", i)
		if !k.oneOf(p, "the service", name, services.Names()) || !seen.add(p, "the service", name, "remove one") {
			continue
		}
		if k.c.services[name] == nil {
			k.errorf(p, "the service %q has no settings; write %s/%s.yaml (an empty file takes the defaults, where there are some)", name, servicesDir, name)
		}
	}
	for _, name := range services.Names() {
		if s := k.c.services[name]; s != nil && !slices.Contains(k.c.Cluster.Services, name) {
			k.warningf(in(s), "the service %q is not in services of cluster.yaml, so this file does nothing; add it there or remove the file", name)
		}
	}
}
