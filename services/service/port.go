package service

import (
	"fmt"
	"strconv"
)

// PortAPI is where every node's API listens.
const PortAPI = 8643

// Scope is at which addresses of a node a port is.
type Scope int

const (
	// Everywhere is every address, those of pods and of the loopback interface too.
	Everywhere Scope = iota
	// Node is one or all of the addresses by which others reach the node.
	Node
	// Loopback is 127.0.0.1.
	Loopback
)

// Overlaps tells whether some address is of both.
func (s Scope) Overlaps(other Scope) bool {
	return s == other || s == Everywhere || other == Everywhere
}

// Port is where a program waits for others: one port, or a range of which it takes what is free.
type Port struct {
	// Protocol is tcp or udp.
	Protocol string
	// First is the port, and Last the last one of a range; it is 0 for one port.
	First, Last int
	// At is at which addresses.
	At Scope
	// For is what is to be had there.
	For string
	// Setting is the setting that the number comes from, as SERVICE.KEY (Service.Port); First is then what it is by default.
	Setting string
	// Role is the role without which the program does not listen there.
	Role string
}

// TCP is a port of TCP at every address; what says what is to be had there.
func TCP(number int, what string) Port { return Port{Protocol: "tcp", First: number, For: what} }

// UDP is a port of UDP at every address.
func UDP(number int, what string) Port { return Port{Protocol: "udp", First: number, For: what} }

// On limits a port to some of the node's addresses.
func (p Port) On(s Scope) Port { p.At = s; return p }

// To makes a range of a port.
func (p Port) To(last int) Port { p.Last = last; return p }

// Set says which setting the number comes from.
func (p Port) Set(setting string) Port { p.Setting = setting; return p }

// Only limits a port to nodes with a role.
func (p Port) Only(role string) Port { p.Role = role; return p }

// IsRange tells a range of which the program takes what is free from a port that it has to have.
func (p Port) IsRange() bool { return p.Last != 0 }

// Has tells whether the program listens at a number, or may.
func (p Port) Has(number int) bool { return p.First <= number && number <= max(p.First, p.Last) }

// Meets tells whether another program can be kept from its port by this one, or this one by the other. Two ranges
// never meet: whoever comes second takes another port.
func (p Port) Meets(other Port) bool {
	if p.Protocol != other.Protocol || !p.At.Overlaps(other.At) || p.IsRange() && other.IsRange() {
		return false
	}
	return p.Has(other.First) || other.Has(p.First)
}

// String is the port as ss(8) would have it, without addresses that others reach.
func (p Port) String() string {
	numbers := strconv.Itoa(p.First)
	if p.IsRange() {
		numbers += "-" + strconv.Itoa(p.Last)
	}
	if p.At == Loopback {
		numbers = "127.0.0.1:" + numbers
	}
	return fmt.Sprintf("%s/%s", numbers, p.Protocol)
}

// MarshalText writes the same into JSON.
func (p Port) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
