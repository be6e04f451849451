// Package service has the types of a row of the list of services (package services): all that the builder and the agent
// have to know of a service. A row is data and small functions; whoever works on it walks the list and knows no service
// by its name.
package service

import (
	"spore/cluster/check"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/dataversion"
)

// Service is a row of the list. Only Name, Settings, Roles and Programs are never empty.
type Service struct {
	// Name is the service in cluster.yaml, and its file in services/ of the configuration.
	Name string
	// Roles are what nodes can be for it.
	Roles []Role
	// Programs are what its roles run, and what EveryNode names.
	Programs []Program
	// EveryNode names programs that run on every node while some node has a role of the service. They start when the
	// node has their secrets. A unit that is a template is started by another one of them.
	EveryNode []string
	// Settings makes empty settings of the service's own type.
	Settings func() spec.Settings
	// Check finds what is wrong with the settings, which are in k.Services; file is where they were read.
	Check func(k *check.Checker, file check.File)
	// Members finds what is wrong with how many nodes have its roles; listed is the place of its name in cluster.yaml.
	// Without that name it is not asked. What k.Services has of it may be nothing, where its file is broken or missing.
	Members func(k *check.Checker, listed check.Place)
	// NeedsRoles says that Members reports a service of which no node has a role; otherwise that is a warning.
	NeedsRoles bool
	// Nodes finds what is wrong with single nodes that have its roles, whether cluster.yaml lists it or not.
	Nodes func(k *check.Checker)
	// NodeFile finds what is wrong with what is meant for it in the file of a node, whether cluster.yaml lists it or not.
	NodeFile func(k *check.Checker, node int, f check.NodeFile)
	// Files are the files of the configuration folder that the settings, which s has, name. k.Files tells Check what is
	// wrong with each of them.
	Files func(s spec.Services) []string
	// Disks has, by the use of a disk that a node's file may say, the role whose nodes have such disks.
	Disks map[string]string
	// Choices has the closed lists of values of the settings, by Go type and key ("ACL.access"). The entries of a list are
	// meant where the key holds one.
	Choices map[string][]string
	// Port is the number that a key of the settings gives, for the rows of ports with a Setting; nil without any.
	Port func(s spec.Services, key string) int
	// Parts are what only some clusters have of it.
	Parts []Part
	// Authorities, Leaves and Secrets are what package pki makes for it. An authority and a secret is of the service that
	// has the row.
	Authorities []AuthorityRow
	Leaves      []LeafRow
	Secrets     []SecretRow
	// Words are words in braces that the texts of those rows, of any service, may have.
	Words map[string]Word
	// UserSecrets are the entries that the settings name for users, of which a row with OneUser makes one each.
	UserSecrets func(s spec.Services) []string
	// Renewal is how its programs take new certificates; one without a row is started again for whatever is new.
	Renewal []Renewal
	// Quorums are its programs whose members agree before one of them makes data anew.
	Quorums []Quorum
	// Data is what its programs keep on a node, and which of their versions read it; a service that keeps nothing has a
	// row that says so.
	Data []dataversion.Row
	// Live is what a running node takes at once of a new configuration.
	Live []Live
	// Slow is by how much the machines are slower than usual, as the settings say; nil where they say nothing of it. Time
	// limits of the whole node follow the largest.
	Slow func(s spec.Services) int
	// Memory is, by role, what a machine of a rehearsal is given.
	Memory map[string]Memory
	// Debian has what its Debian packages need besides their files.
	Debian []Debian
	// Environment has, by program, what its unit or a person may want of the settings, as variables; the rest is in the
	// rendered configuration. What a unit makes flags of is called as the flag is, behind the name of the program.
	Environment map[string]Variables
}

// Part is a part of a service by a name that Program.With knows besides those of services.
type Part struct {
	Name string
	// On tells whether the configuration asks for it; it counts only where the service itself is enabled.
	On func(c *facts.Cluster) bool
	// InEveryImage has every image with the service carry its programs, so that it can be asked for without another root.
	InEveryImage bool
}

// Variables are environment variables of a program. memory is the machine's in bytes, 0 where nobody has seen it yet.
type Variables func(c *facts.Cluster, n *facts.Node, memory uint64) map[string]string

// Word is a word in braces: all texts that it stands for on a node. One that stands for several stands alone in a text.
// It works where the service is off, too: other services may use it.
type Word func(c *facts.Cluster, n *facts.Node) []string

// Live is a row of what a running node takes of a new configuration.
type Live struct {
	// Path is a setting of the compiled configuration, such as services.dns.ttl, with all that is in it. One that ends
	// with a dot or a slash means what begins with it.
	Path string
	// Units are restarted where the node runs them.
	Units []string
	// Why is the reason to wait for a start instead; it is one on nodes with a role of the service alone.
	Why string
}

// Memory is how much memory in MiB a node is given for a role: what it took in tests, and room.
type Memory func(c *facts.Cluster, n *facts.Node) int

// MiB is a Memory that is the same everywhere.
func MiB(n int) Memory { return func(*facts.Cluster, *facts.Node) int { return n } }
