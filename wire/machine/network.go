package machine

// Network is how the machine is connected (verb net).
type Network struct {
	Links      []Link      `json:"links"`
	Routes     []Route     `json:"routes"`
	Neighbours []Neighbour `json:"neighbours"`
	// LLDP is what switches and routers say of themselves, and Warning why that is not known.
	LLDP    []Station `json:"lldp"`
	Warning string    `json:"warning,omitempty"`
	// DNS are the servers that names are asked of, and Search the domains that are tried.
	DNS    []string `json:"dns"`
	Search []string `json:"search,omitempty"`
	// Left says how many routes and neighbours were left out beyond the bound.
	Left int `json:"left,omitempty"`
}

// Link is a network interface.
type Link struct {
	Index int    `json:"index"`
	Name  string `json:"name"`
	// Kind is what made it: device for a card, else bond, vlan, bridge, veth and so on.
	Kind string `json:"kind"`
	MAC  string `json:"mac,omitempty"`
	// Permanent is the MAC that the card was made with.
	Permanent string `json:"permanent,omitempty"`
	// Up says that it was brought up, Carrier that something answers at the other end.
	Up      bool `json:"up"`
	Carrier bool `json:"carrier"`
	MTU     int  `json:"mtu"`
	// Speed is in Mbit/s, 0 when it is not known; Duplex is full, half or empty.
	Speed  int    `json:"speed,omitempty"`
	Duplex string `json:"duplex,omitempty"`
	// Master is the bond or bridge that it belongs to, Parent what a VLAN is on, VLAN its number.
	Master string `json:"master,omitempty"`
	Parent string `json:"parent,omitempty"`
	VLAN   int    `json:"vlan,omitempty"`
	// Mode is that of a bond, and Active the member that it uses, where it uses one.
	Mode   string `json:"mode,omitempty"`
	Active string `json:"active,omitempty"`
	// Addresses have their prefix lengths.
	Addresses []string `json:"addresses,omitempty"`
	Counters  Counters `json:"counters"`
}

// Counters count since the interface was made.
type Counters struct {
	ReceivedBytes   uint64 `json:"receivedBytes"`
	ReceivedPackets uint64 `json:"receivedPackets"`
	ReceivedErrors  uint64 `json:"receivedErrors"`
	ReceivedDropped uint64 `json:"receivedDropped"`
	SentBytes       uint64 `json:"sentBytes"`
	SentPackets     uint64 `json:"sentPackets"`
	SentErrors      uint64 `json:"sentErrors"`
	SentDropped     uint64 `json:"sentDropped"`
	// CarrierChanges counts how often the cable's other end came or went.
	CarrierChanges uint64 `json:"carrierChanges"`
}

// Route is one route of the main table.
type Route struct {
	// To is a prefix, 0.0.0.0/0 or ::/0 for everything.
	To string `json:"to"`
	// Via is the router, empty on the link itself; Kind is unicast, blackhole, unreachable and so on.
	Via    string `json:"via,omitempty"`
	Link   string `json:"link,omitempty"`
	Source string `json:"source,omitempty"`
	Metric int    `json:"metric,omitempty"`
	Kind   string `json:"kind"`
	// Protocol is who set it: kernel, boot, static, dhcp, ra, bird.
	Protocol string `json:"protocol"`
}

// Neighbour is a machine on a link, by ARP or Neighbour Discovery.
type Neighbour struct {
	IP   string `json:"ip"`
	MAC  string `json:"mac,omitempty"`
	Link string `json:"link"`
	// State is that of the kernel: reachable, stale, failed and so on.
	State string `json:"state"`
}

// Station is a machine that speaks LLDP (IEEE 802.1AB).
type Station struct {
	Link string `json:"link"`
	// Name and About are its own words.
	Name    string `json:"name,omitempty"`
	About   string `json:"about,omitempty"`
	Chassis string `json:"chassis"`
	Port    string `json:"port"`
	PortIs  string `json:"portIs,omitempty"`
	VLAN    int    `json:"vlan,omitempty"`
}

// Kinds of probes (verb probe).
const (
	Ping = "ping"
	DNS  = "dns"
	TCP  = "tcp"
)

// Bounds of probes.
const (
	MaxProbes     = 20
	DefaultProbes = 4
)

// Probe is one try (verb probe; each part of the result is one).
type Probe struct {
	Number int `json:"number"`
	// To is what was asked: an address, with a port for tcp and dns.
	To string `json:"to"`
	// Milliseconds is how long the answer took, where there was one.
	Milliseconds float64 `json:"milliseconds,omitempty"`
	// Answer is it in words, and Problem why there was none.
	Answer  string `json:"answer,omitempty"`
	Problem string `json:"problem,omitempty"`
}
