// Package spec holds the Go form of every file that a user edits: cluster.yaml, services/*.yaml, nodes/*.yaml and
// image.yaml.
//
// The types carry YAML and JSON tags and the defaults of empty values: no parsing, no checks, no imports. Package
// cluster loads and validates them, the JSON Schemas are generated from them, and the node reads them back as JSON from
// the cluster part.
package spec

// Cluster is the file configs/cluster.yaml: the network, the services and the nodes of the cluster.
type Cluster struct {
	// Name is a DNS label that people use for the cluster.
	Name string `yaml:"name" json:"name"`
	// ID is the cluster's UUID (RFC 9562). State partitions, machine ids and secrets are bound to it; it never changes.
	ID string `yaml:"id" json:"id"`
	// Domain is the DNS domain under which the nodes are named.
	Domain string `yaml:"domain" json:"domain"`
	// Network is what all nodes share.
	Network Network `yaml:"network" json:"network"`
	// TrialMinutes is how long after the start of its kernel a node may take until its roles are up with what was pushed
	// to it, before it goes back to what it had before, at most 1440; 10 when 0. slowMachine of kubernetes.yaml lengthens
	// it.
	TrialMinutes int `yaml:"trialMinutes,omitempty" json:"trialMinutes,omitempty"`
	// TrialSettle is for how many minutes a node has to be up without a break with another root or kernel that was pushed
	// to it, before it stays with it, at most 1440; 10 when 0. With another configuration alone, 20 seconds are enough.
	TrialSettle int `yaml:"trialSettle,omitempty" json:"trialSettle,omitempty"`
	// Updates has nodes look for updates by themselves; without it they take what is pushed to them alone.
	Updates *Updates `yaml:"updates,omitempty" json:"updates,omitempty"`
	// Enroll is where the operator's `spore serve` answers, such as http://10.77.0.2:8080/. A machine that was started from a
	// disk or stick and has no bundle of secrets asks there, and `spore approve` gives it one. Without it, such a machine
	// asks nobody. A machine that was booted from the network asks the server that it was booted from.
	Enroll string `yaml:"enroll,omitempty" json:"enroll,omitempty"`
	// Withdrawn lists the certificates of people and nodes that the nodes' API refuses, though they have not ended.
	Withdrawn []Withdrawn `yaml:"withdrawn,omitempty" json:"withdrawn,omitempty"`
	// LogRights says who may read those logs that not everybody may; without it, operators and admins may.
	LogRights *LogRights `yaml:"logRights,omitempty" json:"logRights,omitempty"`
	// Services lists the enabled services by name, those of roles/NAME.yaml too; each has its settings in
	// services/NAME.yaml.
	Services []string `yaml:"services" json:"services"`
	// State says how nodes keep their /var; a node's own file may say otherwise.
	State *State `yaml:"state,omitempty" json:"state,omitempty"`
	// Nodes lists the machines.
	Nodes []Node `yaml:"nodes" json:"nodes,omitempty"`
}

// Updates is where nodes look for updates. What they find waits for their next start.
type Updates struct {
	// From holds the addresses of folders that `spore push --output` made, http or https. The first one that answers
	// counts, the others are asked for what it lacks.
	From []string `yaml:"from" json:"from"`
	// Every is the time between two looks in minutes, from 1 to 10080, which is a week; 60 when 0.
	Every int `yaml:"every,omitempty" json:"every,omitempty"`
}

// Withdrawn is a certificate that the nodes' API refuses.
type Withdrawn struct {
	// Serial is its serial number in lower-case hexadecimal, as `spore access` prints it.
	Serial string `yaml:"serial" json:"serial"`
	// User is the person whose certificate it was, for whoever reads the list.
	User string `yaml:"user,omitempty" json:"user,omitempty"`
	// Why says why, for whoever reads the list.
	Why string `yaml:"why,omitempty" json:"why,omitempty"`
}

// MaxWithdrawn is how many certificates can be withdrawn at a time.
const MaxWithdrawn = 10_000

// LogRights is who may read logs that tell more than the others do: the arguments of programs, and what applications
// write. Each list has the words reader, operator and admin, for all who have that right or a higher one, and names of
// people as in `spore access`. An admin may always.
type LogRights struct {
	// Audit is for the audit records of the kernel and the audit log of Kubernetes; operator when left out.
	Audit []string `yaml:"audit,omitempty" json:"audit,omitempty"`
	// Pods is for what containers of pods write; operator when left out.
	Pods []string `yaml:"pods,omitempty" json:"pods,omitempty"`
}

// defaultLogRights stands for a list that was left out.
const defaultLogRights = "operator"

// ForAudit is who may read audit logs.
func (l *LogRights) ForAudit() []string {
	if l == nil || len(l.Audit) == 0 {
		return []string{defaultLogRights}
	}
	return l.Audit
}

// ForPods is who may read the logs of pods.
func (l *LogRights) ForPods() []string {
	if l == nil || len(l.Pods) == 0 {
		return []string{defaultLogRights}
	}
	return l.Pods
}

// MaxLogRights is how many entries a list of LogRights has at most.
const MaxLogRights = 1000

// MaxUpdatesEvery bounds Updates.Every in minutes, and DefaultUpdatesEvery is what 0 stands for.
const (
	MaxUpdatesEvery     = 7 * 24 * 60
	DefaultUpdatesEvery = 60
)

// Network is the addressing that the nodes share.
type Network struct {
	// NodeSubnets holds the CIDR prefixes that node addresses come from, at most one for each address family.
	NodeSubnets []string `yaml:"nodeSubnets" json:"nodeSubnets"`
	// Gateways holds the default routers, at most one for each address family.
	Gateways []string `yaml:"gateways,omitempty" json:"gateways,omitempty"`
	// Nameservers holds the resolvers of the nodes, in order.
	Nameservers []string `yaml:"nameservers,omitempty" json:"nameservers,omitempty"`
	// NTPServers holds names or addresses of the time servers.
	NTPServers []string `yaml:"ntpServers,omitempty" json:"ntpServers,omitempty"`
	// PodCIDRs holds the prefixes that pod addresses come from.
	PodCIDRs []string `yaml:"podCIDRs,omitempty" json:"podCIDRs,omitempty"`
	// ServiceCIDRs holds the prefixes that Kubernetes service addresses come from.
	ServiceCIDRs []string `yaml:"serviceCIDRs,omitempty" json:"serviceCIDRs,omitempty"`
	// ControlPlaneEndpoint is the virtual address (VIP) of the Kubernetes API.
	ControlPlaneEndpoint string `yaml:"controlPlaneEndpoint,omitempty" json:"controlPlaneEndpoint,omitempty"`
}

// Node is one machine in cluster.yaml: how it is recognised and what it does.
type Node struct {
	// Name is the node's DNS label, unique in the cluster.
	Name string `yaml:"name" json:"name"`
	// Hostname is the DNS label that the machine calls itself; the same as Name when empty.
	Hostname string `yaml:"hostname,omitempty" json:"hostname,omitempty"`
	// MACs holds permanent hardware addresses of its network cards.
	MACs []string `yaml:"macs,omitempty" json:"macs,omitempty"`
	// IPs holds its addresses, without prefix length. They lie in a node subnet.
	IPs []string `yaml:"ips,omitempty" json:"ips,omitempty"`
	// Serial is the system serial number that SMBIOS type 1 reports.
	Serial string `yaml:"serial,omitempty" json:"serial,omitempty"`
	// UUID is the system UUID that SMBIOS type 1 reports.
	UUID string `yaml:"uuid,omitempty" json:"uuid,omitempty"`
	// Roles names what the node does: roles of Spore's services, and those of roles/NAME.yaml.
	Roles []string `yaml:"roles" json:"roles"`
}
