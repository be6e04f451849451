package detect

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"spore/agent/nic"
	"spore/agent/nocloud"
	"spore/agent/wait"
	"spore/cluster/identity"
)

// wantsVolumes tells whether volumes of NoCloud are looked for, which costs a wait for udev. An explicit choice is made
// without one: so where the command line or SMBIOS chose, only a serial number that announces NoCloud is a reason. The
// choice of the ESP comes from a medium as well; in a virtual machine a volume may contradict it.
func (m Machine) wantsVolumes(f identity.Facts, serial string) bool {
	switch {
	case nocloud.Announced(serial):
		return true
	case strings.TrimSpace(f.Cmdline+f.SMBIOS) != "":
		return false
	}
	return strings.TrimSpace(f.ESP) == "" || m.Virtual
}

// noCloud reads what there is of NoCloud. In a virtual machine the drivers of storage controllers are loaded first, where
// one has none yet: the disc of a hypervisor is behind one that nothing else in this phase needs. A machine of metal has
// controllers that take longer to start than all of the boot, so there the drives count that are there.
func (m Machine) noCloud(ctx context.Context, serial string, volumes bool) nocloud.Found {
	announced := nocloud.Announced(serial)
	o := nocloud.Options{
		Source: nocloud.Source{Sys: m.Sys, Dev: m.Dev, Removable: !m.Virtual && !announced},
		Serial: serial, Credentials: m.Credentials, Volumes: volumes,
	}
	if volumes && (m.Virtual || announced) && m.FindDisks != nil && o.Source.Hidden() {
		m.FindDisks(ctx)
	}
	// Keys behind the mark may be all that there is.
	if volumes && announced && !strings.Contains(serial, ";") {
		err := wait.Until(ctx, wait.Condition{
			For: "the volume with the label CIDATA that the serial number announces", Bound: bound(m.VolumeBound, VolumeBound), Every: 250 * time.Millisecond,
			Say: m.Say, Met: func() bool {
				found, err := o.Source.Volumes()
				return err != nil || len(found) > 0
			},
		})
		if err != nil {
			m.Say(err.Error())
		}
	}
	found := nocloud.Find(o)
	if found.Problem != "" {
		m.Say("NoCloud: " + found.Problem)
	}
	return found
}

// takeCloud keeps what NoCloud said, with its network on the cards of this machine.
func (i *Identity) takeCloud(found nocloud.Found, cards []nic.Card) {
	if !found.Any() {
		return
	}
	if found.Network != nil {
		var said []string
		i.Network, said = found.Network.Interfaces(cards)
		found.NotTaken = append(slices.Clip(found.NotTaken), said...)
	}
	i.NoCloud, i.Seen.LocalHostname = &found, found.Hostname
}

// cloudEvidence is what NoCloud says of the network that may lead to a node. It proves no more than DHCP.
func (i Identity) cloudEvidence() (ips, hostnames []string) {
	for _, n := range i.Network {
		for _, a := range n.Addresses {
			if p, err := netip.ParsePrefix(a); err == nil {
				ips = append(ips, p.Addr().String())
			}
		}
	}
	if i.Seen.LocalHostname != "" {
		hostnames = append(hostnames, i.Seen.LocalHostname)
	}
	return ips, hostnames
}

// ByLocalHostname tells whether the host name that NoCloud gives, and no other, led to the node.
func (i Identity) ByLocalHostname() bool {
	same := func(name string) bool { return strings.EqualFold(name, i.Value) }
	return i.By == identity.ByHostname && same(i.Seen.LocalHostname) && !slices.ContainsFunc(i.Seen.Hostnames, same)
}

// ByNetworkOfCloud tells whether nothing but what NoCloud says of the network led to the node.
func (i Identity) ByNetworkOfCloud() bool {
	if i.ByLocalHostname() {
		return true
	}
	ips, _ := i.cloudEvidence()
	return i.By == identity.ByIP && slices.Contains(ips, i.Value) && !slices.Contains(i.Seen.IPs, i.Value)
}

// Resolvers are the nameservers and the search domain of NoCloud, for a cluster that names no nameservers.
func (i Identity) Resolvers() (addresses []string, search string) {
	if i.NoCloud == nil || i.NoCloud.Network == nil {
		return nil, ""
	}
	return slices.Clone(i.NoCloud.Network.Nameservers), i.NoCloud.Network.Search
}
