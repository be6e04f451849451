// Package facts is what a node is told about itself and its cluster: the compiled form of the configuration that the
// cluster part carries, so that no node ever parses the YAML of all the others.
//
// The builder writes it (package cluster compiles it), the agent reads it. Layout of the cluster part:
//
//	/cluster.yaml, /services/*.yaml, /nodes/*.yaml   the source, as the user wrote it
//	/compiled/cluster.json                           Cluster (package services reads it)
//	/firmware/dbx.auth                               the images that machines with Secure Boot start no more, where there are any
//	/compiled/nodes/NAME.json                        Node
//	/compiled/identity.index                         sorted identity index (package identity)
//	/manifests/**                                    the Kubernetes objects, as the user wrote them
//	/compiled/manifests.json                         those objects for the masters (Manifest), where there are any
//	/compiled/hosts                                  one line a node: address, FQDN, hostname (hosts(5))
//	/pki/*                                           certificates and public keys that the nodes trust
package facts

import "spore/cluster/spec"

// Paths inside the cluster part.
const (
	ClusterFile   = "compiled/cluster.json"
	RevokedFile   = "firmware/dbx.auth"
	NodeDir       = "compiled/nodes"
	IdentityIndex = "compiled/identity.index"
	HostsFile     = "compiled/hosts"
	ManifestsFile = "compiled/manifests.json"
)

// Cluster is what is the same on every node.
type Cluster struct {
	Name     string        `json:"name"`
	ID       string        `json:"id"`
	Domain   string        `json:"domain"`
	Network  spec.Network  `json:"network"`
	Services spec.Services `json:"services"`
	// Roles are those that the configuration has of its own; nil without any.
	Roles Roles `json:"roles,omitempty"`
	// Nodes is the number of nodes.
	Nodes int `json:"nodes"`
	// Members lists the node names of each role, sorted.
	Members map[string][]string `json:"members"`
	// TimeNodes are the nodes that serve the time, in the order in which they are asked.
	TimeNodes []TimeNode `json:"timeNodes,omitempty"`
	// TrialMinutes is that of cluster.yaml; see TrialBound of package services.
	TrialMinutes int `json:"trialMinutes,omitempty"`
	// TrialSettle is that of cluster.yaml; see TrialSettle of package services.
	TrialSettle int `json:"trialSettle,omitempty"`
	// Updates is that of cluster.yaml; nil has the node take nothing by itself.
	Updates *spec.Updates `json:"updates,omitempty"`
	// Enroll is that of cluster.yaml: the folder of a server that a machine without a bundle asks, with a slash at its end;
	// empty has machines that were started from a disk ask nobody.
	Enroll string `json:"enroll,omitempty"`
	// Withdrawn holds the serial numbers of the certificates that the nodes' API refuses, sorted.
	Withdrawn []string `json:"withdrawn,omitempty"`
	// LogRights is that of cluster.yaml; nil has operators and admins read all logs.
	LogRights *spec.LogRights `json:"logRights,omitempty"`
	// SigningKeys holds the Ed25519 public keys, in base64, of which one signs the cluster's bundles. With none, the
	// image was built without keys, and no bundle is taken.
	SigningKeys []string `json:"signingKeys,omitempty"`
}

// Roles are the roles that a configuration has of its own, with the list of services in which they have rows. Package
// services has the type (services.List) and reads them from JSON: a row speaks of a Cluster, so that this package
// cannot know it.
type Roles interface {
	// OwnNames are the names of the services that they are of.
	OwnNames() []string
}

// Node is what one node is told about itself.
type Node struct {
	Name     string   `json:"name"`
	Hostname string   `json:"hostname"`
	FQDN     string   `json:"fqdn"`
	MACs     []string `json:"macs,omitempty"`
	IPs      []string `json:"ips,omitempty"`
	Serial   string   `json:"serial,omitempty"`
	UUID     string   `json:"uuid,omitempty"`
	// Roles holds canonical role names, sorted.
	Roles []string `json:"roles"`
	// Interfaces is complete: defaults of cluster.yaml (addresses with prefix length, gateways) are filled in. Empty means
	// DHCP on every Ethernet card.
	Interfaces []spec.Interface  `json:"interfaces,omitempty"`
	Disks      []spec.Disk       `json:"disks,omitempty"`
	Rack       string            `json:"rack,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Taints     []string          `json:"taints,omitempty"`
	Sysctl     map[string]string `json:"sysctl,omitempty"`
	// State says how /var is encrypted; nil when it is not.
	State *spec.State `json:"state,omitempty"`
}
