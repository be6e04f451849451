// Package rendering is what services render the configuration of their programs from: what the node was told, where it is, and
// helpers that several of them need. Package agent/render runs the functions.
package rendering

import (
	"io"
	"io/fs"
	"net/netip"

	"spore/cluster/facts"
)

// Func makes the configuration files of one program, by their paths below Input.Dir. The same input gives the same bytes.
type Func func(in Input) (map[string]File, error)

// Kept reads what the node keeps of a program, below the root of its file system; Input.State returns it.
type Kept func(root string) (any, error)

// Before is done as the program's user before its configuration is written. authority is Input.Authority; removed lists the
// files that it removed.
type Before func(root string, authority func(name string) ([]byte, error)) (removed []string, err error)

// File is one file of a program's configuration.
type File struct {
	Data []byte
	Mode fs.FileMode
}

// Input is all that a configuration may depend on.
type Input struct {
	Cluster *facts.Cluster
	Node    *facts.Node
	// Hosts is the hosts file of the cluster part: address, FQDN and further names of every node.
	Hosts io.Reader
	// Addresses are the node's own addresses as they are now: the configured ones, or those of the DHCP lease.
	Addresses []netip.Addr
	// Memory is the machine's memory in bytes.
	Memory uint64
	// Dir is the directory that the files will lie in, such as /run/mosquitto.
	Dir string
	// Secret returns a secret of the node's bundle.
	Secret func(ref string) ([]byte, error)
	// Authority returns a file of public keys or certificates that every node has, such as kubernetes-client.crt.
	Authority func(name string) ([]byte, error)
	// State returns what the node keeps of a program, in the service's own type; nil, and nil from it, where nothing is known.
	State func(program string) (any, error)
	// SecretPath is the file of a secret of the node's bundle, as the program will see it.
	SecretPath func(ref string) string
}
