package template

import (
	"errors"
	"fmt"

	"spore/cluster/role/setting"
)

// Data is the dot of a template.
type Data struct {
	// Node is the machine that the file is for.
	Node Node
	// Cluster is what all nodes share.
	Cluster Cluster
	// Settings are those of services/NAME.yaml, with defaults; one that nobody wrote is empty.
	Settings map[string]any

	members map[string][]Member
}

// NewData returns the dot. settings are complete (setting.Complete); members has the nodes of each role, in the order
// of their names.
func NewData(n Node, c Cluster, settings map[string]any, members map[string][]Member) *Data {
	return &Data{n, c, settings, members}
}

// Members lists the nodes of a role in the order of their names; none is an empty list.
func (d *Data) Members(role string) ([]Member, error) {
	for _, m := range d.members[role] {
		if m.Address == "" {
			return nil, fmt.Errorf("node %s of role %s has no address in cluster.yaml; give it one under ips",
				m.Name, role)
		}
	}
	return d.members[role], nil
}

// Node is a node as its templates see it.
type Node struct {
	Name, Hostname, FQDN string
	// IPs and MACs are those of cluster.yaml.
	IPs, MACs []string
	// Addresses are those that the node has now.
	Addresses []string
	Roles     []string
	Rack      string
	Labels    map[string]string
	// Memory is the machine's.
	Memory setting.Size

	address string
}

// At returns the node with the address by which the others know it; empty where it is not known yet.
func (n Node) At(address string) Node { n.address = address; return n }

// Address is the address by which the others know the node.
func (n Node) Address() (string, error) {
	if n.address == "" {
		return "", errors.New("the node has no address yet")
	}
	return n.address, nil
}

// Cluster is the cluster as templates see it.
type Cluster struct {
	Name, ID, Domain                   string
	NodeSubnets, Gateways, Nameservers []string
	NTPServers                         []string
	// Nodes is the number of nodes.
	Nodes int
}

// Member is a node with a role. Its address is empty where nobody knows it.
type Member struct{ Name, Address string }
