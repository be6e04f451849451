// Package kubecluster gives tests a Kubernetes cluster as far as it exists before any machine is booted: the facts of a
// configuration, a tree of keys for it, each node's bundle, and what spore-agent renders of them.
package kubecluster

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"time"

	"spore/agent/formation"
	"spore/agent/render"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/bundle"
	"spore/services"
	"spore/services/kubernetes/etcd/origin"
	kubernetesnode "spore/services/kubernetes/node"
	"spore/services/rendering"
)

// Cluster is a configuration with keys.
type Cluster struct {
	// Shared is what all nodes know, Nodes what each knows of itself.
	Shared facts.Cluster
	Nodes  []facts.Node
	// Tree holds the keys.
	Tree *pki.Tree

	hosts   []byte
	bundles map[string]map[string]string
}

// Load reads a folder of configuration and makes keys for it.
func Load(dir string) (*Cluster, error) {
	config, report := cluster.LoadDir(dir)
	if err := report.Err(); err != nil {
		return nil, err
	}
	compiled, err := cluster.Compile(config)
	if err != nil {
		return nil, err
	}
	c := &Cluster{hosts: compiled[facts.HostsFile], bundles: map[string]map[string]string{}}
	c.Shared, c.Nodes = cluster.Facts(config)
	c.Tree = pki.New(&c.Shared)
	now := time.Now()
	if _, err := c.Tree.Update(&c.Shared, c.Nodes, pki.Options{Now: now, Random: rand.Reader}); err != nil {
		return nil, err
	}
	keys, err := c.Tree.Public().SigningKeys()
	if err != nil {
		return nil, err
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		data, err := c.Tree.BundleFor(&c.Shared, n, now)
		if err != nil {
			return nil, err
		}
		b, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: c.Shared.ID, Node: n.Name, Keys: keys})
		if err != nil {
			return nil, err
		}
		c.bundles[n.Name] = b.Secrets
	}
	return c, nil
}

// Node is the first node with a role.
func (c *Cluster) Node(role string) (*facts.Node, error) {
	for i := range c.Nodes {
		if slices.Contains(c.Nodes[i].Roles, role) {
			return &c.Nodes[i], nil
		}
	}
	return nil, fmt.Errorf("no node has the role %s", role)
}

// Public is a file of the public half of the keys, such as etcd.crt.
func (c *Cluster) Public(name string) ([]byte, error) {
	data, ok := c.Tree.Public().Files()[path.Join(pki.PublicDir, name)]
	if !ok {
		return nil, fmt.Errorf("the public half of the keys has no %s", name)
	}
	return data, nil
}

// Secret is an entry of a node's bundle that a program is given.
func (c *Cluster) Secret(node, program, ref string) ([]byte, error) {
	row, ok := services.Ours().LookupProgram(program)
	if !ok {
		return nil, fmt.Errorf("%s is not a program", program)
	}
	secret, ok := c.bundles[node][ref]
	if !ok || !slices.Contains(row.Secrets, ref) {
		return nil, fmt.Errorf("the secret %s of %s is not given to %s", ref, node, program)
	}
	return []byte(secret), nil
}

// Render is what a program's unit does on a node, in the runtime directory dir; secrets lie where its unit has them.
func (c *Cluster) Render(n *facts.Node, program, dir string) (map[string]rendering.File, error) {
	row, ok := services.Ours().LookupProgram(program)
	if !ok {
		return nil, fmt.Errorf("%s is not a program", program)
	}
	var own []netip.Addr
	for _, ip := range n.IPs {
		a, err := netip.ParseAddr(ip)
		if err != nil {
			return nil, err
		}
		own = append(own, a)
	}
	return render.Render(program, rendering.Input{
		Cluster: &c.Shared, Node: n, Hosts: bytes.NewReader(c.hosts), Addresses: own, Dir: dir,
		Secret:     func(ref string) ([]byte, error) { return c.Secret(n.Name, program, ref) },
		SecretPath: func(ref string) string { return "/run/credentials/" + row.Unit + "/secret_" + ref },
		Authority:  c.Public,
		// A node of its own kind: the others of the cluster are not there.
		State: func(string) (any, error) {
			peer, err := kubernetesnode.EtcdPeer(n, own)
			return &origin.Origin{Kind: formation.Form, Token: c.Shared.ID, Members: map[string][]string{n.Name: {peer}}}, err
		},
	})
}
