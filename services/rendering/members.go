package rendering

import (
	"errors"
	"fmt"
	"net/netip"
)

// Address is the address by which the others know this node: the first of cluster.yaml, else the one that it has.
func Address(in Input) (netip.Addr, error) {
	for _, s := range in.Node.IPs {
		if a, err := netip.ParseAddr(s); err == nil {
			return a.Unmap(), nil
		}
	}
	if own := Bindable(in.Addresses); len(own) > 0 {
		return own[0], nil
	}
	return netip.Addr{}, errors.New("the node has no address yet")
}

// Member is a node of a role with the address that the cluster's hosts file has for it.
type Member struct {
	Name string
	Addr netip.Addr
}

// Members lists the nodes of a role in the order of their names. A node without an address in the hosts file has one
// by DHCP, which only itself can know.
func Members(in Input, role string) ([]Member, error) {
	hosts, err := NewHostTable(in.Hosts, in.Cluster.Domain)
	if err != nil {
		return nil, err
	}
	var out []Member
	for _, name := range in.Cluster.Members[role] {
		addrs := hosts.Addresses(Absolute(name, in.Cluster.Domain))
		if name == in.Node.Name && len(addrs) == 0 {
			own, err := Address(in)
			if err != nil {
				return nil, err
			}
			addrs = []netip.Addr{own}
		}
		if len(addrs) == 0 {
			return nil, fmt.Errorf("node %s of role %s has no address in cluster.yaml; give it one under ips", name, role)
		}
		out = append(out, Member{name, addrs[0]})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no node has the role %s", role)
	}
	return out, nil
}
