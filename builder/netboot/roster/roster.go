// Package roster knows the nodes of an image, says which of them a machine is, and remembers the machines that asked, so that
// the operator can be shown those that nobody knows.
//
// It says who a machine is by the same index as the machine itself does later. Nothing secret hangs on it.
package roster

import (
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/squashfs"

	"spore/cluster/facts"
	"spore/cluster/identity"
	"spore/services"
)

// maxMachines bounds what is remembered; the one that was silent longest is forgotten first.
const maxMachines = 1024

// Machine is one that asked, and what it said of itself.
type Machine struct {
	MACs     []string `json:"macs,omitempty"`
	Serial   string   `json:"serial,omitempty"`
	UUID     string   `json:"uuid,omitempty"`
	Address  string   `json:"address,omitempty"`
	Hostname string   `json:"hostname,omitempty"`
	// Node is what it is; empty when it is none, and then Problem may say why.
	Node string `json:"node,omitempty"`
	// Why is the evidence, such as "mac 52:54:00:77:00:0b".
	Why     string `json:"why,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Did is what it did last, in words.
	Did string `json:"did,omitempty"`
	// First and Last are when it was heard of.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// Nodes is what an image says of its nodes.
type Nodes struct {
	Cluster facts.Cluster
	// All are the nodes, by name.
	All   []*facts.Node
	index *identity.Index
}

// Read reads the cluster part in a file.
func Read(name string) (*Nodes, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	part, err := squashfs.Read(file.New(f, true), info.Size(), 0, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: read the cluster part: %w", name, err)
	}
	n, err := readNodes(part)
	if err != nil {
		return nil, fmt.Errorf("%s: read the cluster part: %w", name, err)
	}
	return n, nil
}

func readNodes(part fs.FS) (*Nodes, error) {
	c, nodes, err := services.ReadPart(part)
	if err != nil {
		return nil, err
	}
	n := &Nodes{Cluster: *c}
	for i := range nodes {
		n.All = append(n.All, &nodes[i])
	}
	index, err := fs.ReadFile(part, facts.IdentityIndex)
	if err != nil {
		return nil, err
	}
	n.index, err = identity.FromBytes(index)
	return n, err
}

// Node returns a node by its name.
func (n *Nodes) Node(name string) (*facts.Node, error) {
	var names []string
	for _, node := range n.All {
		if node.Name == name {
			return node, nil
		}
		names = append(names, node.Name)
	}
	return nil, facts.NoNode("the image", name, names)
}

// identify fills in who a machine is. uuids are further forms that its UUID may have.
func (n *Nodes) identify(m *Machine, uuids []string) {
	f := identity.Facts{MACs: m.MACs, Serial: m.Serial, UUID: m.UUID}
	if _, err := netip.ParseAddr(m.Address); err == nil {
		f.IPs = []string{m.Address}
	}
	if m.Hostname != "" {
		f.Hostnames = []string{m.Hostname}
	}
	r, err := n.index.Match(f)
	for _, u := range uuids {
		if err != nil || r.Node != "" || r.Problem != "" {
			break
		}
		f.UUID = u
		r, err = n.index.Match(f)
	}
	m.Node, m.Problem, m.Why = r.Node, r.Problem, ""
	if err != nil {
		m.Problem = err.Error()
	}
	if r.Node != "" {
		m.Why = r.By + " " + r.Value
	}
}

// Roster is the nodes and the machines. It may be used from any goroutine.
type Roster struct {
	now func() time.Time

	mu       sync.Mutex
	nodes    *Nodes
	machines map[string]*Machine
}

// New returns a roster without machines.
func New(n *Nodes, now func() time.Time) *Roster {
	return &Roster{now: now, nodes: n, machines: map[string]*Machine{}}
}

// Nodes are the image's.
func (r *Roster) Nodes() *Nodes {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes
}

// Replace takes the nodes of another build. Machines are known again when they ask.
func (r *Roster) Replace(n *Nodes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = n
}

// Seen takes in what a machine says of itself and returns what is known of it then. fresh says that it is a machine, or a
// finding about one, that was not there before. uuids are further forms that its UUID may have.
func (r *Roster) Seen(said Machine, uuids ...string) (m Machine, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.find(said)
	if old == nil {
		fresh = true
		old = &Machine{First: r.now()}
	}
	before := old.Node + "\x00" + old.Problem
	merge(old, said)
	old.Last = r.now()
	r.nodes.identify(old, uuids)
	if len(old.MACs) > 0 {
		r.forget(old)
		r.machines[old.MACs[0]] = old
	}
	return old.clone(), fresh || before != old.Node+"\x00"+old.Problem
}

// find is the machine that has one of these cards.
func (r *Roster) find(said Machine) *Machine {
	for _, m := range r.machines {
		for _, mac := range said.MACs {
			if slices.Contains(m.MACs, mac) {
				return m
			}
		}
	}
	return nil
}

// forget makes room for a machine.
func (r *Roster) forget(keep *Machine) {
	for key, m := range r.machines {
		if m == keep {
			delete(r.machines, key)
		}
	}
	for len(r.machines) >= maxMachines {
		oldest := ""
		for key, m := range r.machines {
			if oldest == "" || m.Last.Before(r.machines[oldest].Last) {
				oldest = key
			}
		}
		delete(r.machines, oldest)
	}
}

// maxCards bounds the cards of one machine.
const maxCards = 16

func merge(m *Machine, said Machine) {
	for _, mac := range said.MACs {
		if len(m.MACs) < maxCards && !slices.Contains(m.MACs, mac) {
			m.MACs = append(m.MACs, mac)
		}
	}
	for _, f := range []struct {
		into *string
		from string
	}{{&m.Serial, said.Serial}, {&m.UUID, said.UUID}, {&m.Address, said.Address}, {&m.Hostname, said.Hostname}, {&m.Did, said.Did}} {
		if f.from != "" {
			*f.into = f.from
		}
	}
}

func (m *Machine) clone() Machine {
	out := *m
	out.MACs = slices.Clone(m.MACs)
	return out
}

// ByAddress is the machine that was last heard of at an address.
func (r *Roster) ByAddress(address string) (Machine, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found *Machine
	for _, m := range r.machines {
		if m.Address == address && (found == nil || found.Last.Before(m.Last)) {
			found = m
		}
	}
	if found == nil {
		return Machine{}, false
	}
	return found.clone(), true
}

// Machines are those that asked, in the order in which they came.
func (r *Roster) Machines() []Machine {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Machine
	for _, m := range r.machines {
		out = append(out, m.clone())
	}
	slices.SortFunc(out, func(a, b Machine) int {
		if c := a.First.Compare(b.First); c != 0 {
			return c
		}
		return slices.Compare(a.MACs, b.MACs)
	})
	return out
}

// Advice says what to add to cluster.yaml for a machine that does not match any node.
func (m Machine) Advice() string {
	switch {
	case m.Problem != "":
		return m.Problem
	case len(m.MACs) > 0:
		return fmt.Sprintf("add it to nodes in cluster.yaml, for example: {name: NAME, macs: [%q], roles: [ROLE]}", m.MACs[0])
	case m.Serial != "":
		return fmt.Sprintf("add it to nodes in cluster.yaml, for example: {name: NAME, serial: %q, roles: [ROLE]}", m.Serial)
	}
	return "it sent no MAC address and no serial number to recognise it by"
}
