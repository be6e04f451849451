package daemon

import (
	"cmp"
	"os"

	"spore/agent/bootinfo"
	"spore/agent/dhcplease"
	"spore/agent/systemfiles"
)

// resolvers writes resolv.conf from what NoCloud and DHCP said, for a cluster that names no nameservers.
func (a *agent) resolvers() {
	if a.cluster == nil || len(a.cluster.Network.Nameservers) > 0 {
		return
	}
	cards, err := a.m.Cards()
	if err != nil {
		a.m.Say(err.Error())
		return
	}
	in := systemfiles.Input{Root: a.m.Root, Cluster: a.cluster, Node: a.node, Identity: a.id, Part: bootinfo.ClusterDir}
	in.Resolvers, in.SearchDomain = a.id.Resolvers()
	leases := os.DirFS(a.m.Root.At("/run/systemd/netif/leases"))
	for _, c := range cards {
		if l, ok := dhcplease.Read(leases, c.Index); ok {
			in.Resolvers, in.SearchDomain = append(in.Resolvers, l.DNS...), cmp.Or(in.SearchDomain, l.Domain)
		}
	}
	if err := systemfiles.WriteResolvers(in); err != nil {
		a.m.Say(err.Error())
	}
}
