package spec

// NodeFile is the file configs/nodes/NAME.yaml: what is particular to the node of this name.
type NodeFile struct {
	// Node is the name of the node in cluster.yaml that this file is about.
	Node string `yaml:"node" json:"node"`
	// Interfaces describes the network. Empty: the first MAC of the node gets its addresses, or DHCP where it has none.
	Interfaces []Interface `yaml:"interfaces,omitempty" json:"interfaces,omitempty"`
	// Disks names disks by unambiguous selectors and says what they are for.
	Disks []Disk `yaml:"disks,omitempty" json:"disks,omitempty"`
	// State says how the node keeps its /var, in place of what cluster.yaml says.
	State *State `yaml:"state,omitempty" json:"state,omitempty"`
	// Rack is the place where the machine stands; Kafka puts the copies of a partition into different racks.
	Rack string `yaml:"rack,omitempty" json:"rack,omitempty"`
	// Labels are Kubernetes node labels.
	Labels map[string]string `yaml:"labels,omitempty" json:"labels,omitempty"`
	// Taints are Kubernetes taints in the form key=value:Effect.
	Taints []string `yaml:"taints,omitempty" json:"taints,omitempty"`
	// Sysctl holds kernel parameters by their dotted names.
	Sysctl map[string]string `yaml:"sysctl,omitempty" json:"sysctl,omitempty"`
}

// Interface is one network interface. A physical one is selected by MAC, never by kernel name; a bond or a VLAN is made
// and gets Name.
type Interface struct {
	// MAC selects a physical card by its permanent hardware address.
	MAC string `yaml:"mac,omitempty" json:"mac,omitempty"`
	// Name is the name of a bond or VLAN that is made, at most 15 characters.
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
	// Addresses holds static addresses with prefix length.
	Addresses []string `yaml:"addresses,omitempty" json:"addresses,omitempty"`
	// DHCP asks for addresses by DHCPv4.
	DHCP bool `yaml:"dhcp,omitempty" json:"dhcp,omitempty"`
	// Gateways holds default routers by this interface; the cluster's gateways when empty and Addresses lie in their
	// subnet.
	Gateways []string `yaml:"gateways,omitempty" json:"gateways,omitempty"`
	// MTU is the maximum transmission unit in bytes; 0 leaves the driver's.
	MTU int `yaml:"mtu,omitempty" json:"mtu,omitempty"`
	// Bond makes this interface a bond of the named cards.
	Bond *Bond `yaml:"bond,omitempty" json:"bond,omitempty"`
	// VLAN makes this interface an 802.1Q VLAN on another one.
	VLAN *VLAN `yaml:"vlan,omitempty" json:"vlan,omitempty"`
}

// Bond joins physical cards.
type Bond struct {
	// Members holds the permanent MACs of the cards.
	Members []string `yaml:"members" json:"members"`
	// Mode is a Linux bonding mode: active-backup (default), 802.3ad, balance-rr, balance-xor, balance-tlb, balance-alb.
	Mode string `yaml:"mode,omitempty" json:"mode,omitempty"`
}

// VLAN is an 802.1Q tag on a parent interface.
type VLAN struct {
	// ID is the VLAN identifier, 1 to 4094.
	ID int `yaml:"id" json:"id"`
	// Parent is the MAC of a physical card or the name of a bond.
	Parent string `yaml:"parent" json:"parent"`
}

// Disk gives a disk a use.
type Disk struct {
	// Use is state (the /var partition), osd (a Ceph OSD), kafka (log directories), metrics or logs (data of the
	// store).
	Use string `yaml:"use" json:"use"`
	// Selector says which disk.
	Selector DiskSelector `yaml:"selector" json:"selector"`
	// Encrypt encrypts an osd disk (LUKS2) with a key that the bundles of all nodes with OSDs hold. It is decided when the
	// disk is first used.
	Encrypt bool `yaml:"encrypt,omitempty" json:"encrypt,omitempty"`
}

// DiskSelector names one disk. Exactly one field is set.
type DiskSelector struct {
	// Serial is the serial number that the disk reports.
	Serial string `yaml:"serial,omitempty" json:"serial,omitempty"`
	// WWN is the World Wide Name, such as 0x5000c500a1b2c3d4 or nvme eui./uuid. forms, as udev's ID_WWN has it.
	WWN string `yaml:"wwn,omitempty" json:"wwn,omitempty"`
	// ByID is a name under /dev/disk/by-id.
	ByID string `yaml:"byID,omitempty" json:"byID,omitempty"`
}

// Word is the selector as the command line and the credential spore.install have it: a serial number, wwn:WWN or id:NAME.
func (s DiskSelector) Word() string {
	switch {
	case s.WWN != "":
		return "wwn:" + s.WWN
	case s.ByID != "":
		return "id:" + s.ByID
	}
	return s.Serial
}
