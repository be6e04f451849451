// Package master is this master of Kubernetes for what speaks to its etcd: who it is, how it connects, and how it says
// what it waits for.
package master

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"

	"spore/agent/detect"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/services/kubernetes"
	"spore/services/kubernetes/etcd/client"
	"spore/storage/atomicfile"
)

// program is the program whose secrets root's commands share.
const program = "etcd-members"

// Machine is a master, as what speaks to its etcd sees it.
type Machine struct {
	*node.Machine
	// said is what was waited for when that was said last.
	said string
}

// New is the machine whose file system begins at root.
func New(root paths.Root) *Machine { return &Machine{Machine: node.New("spore-etcd", root)} }

// Master is this node, which is a master of a cluster.
func (m *Machine) Master() (*facts.Cluster, *facts.Node, error) {
	id, err := m.Identity()
	if err != nil {
		return nil, nil, err
	}
	if !id.Known() {
		return nil, nil, detect.ErrUnmatched
	}
	c, err := m.Part.Cluster()
	if err != nil {
		return nil, nil, err
	}
	n, err := m.Part.Node(id.Node)
	if err != nil {
		return nil, nil, err
	}
	if kubernetes.Of(c.Services) == nil {
		return nil, nil, errors.New("this cluster has no Kubernetes")
	}
	return c, n, nil
}

// secret reads an entry of the bundle: what the unit was given, or, for root, what lies there for the program.
func (m *Machine) secret(ref string) ([]byte, error) {
	path := m.Root.At(filepath.Join(paths.Secrets, program, ref))
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		if given := filepath.Join(dir, "secret_"+ref); exists(given) {
			path = given
		}
	}
	data, err := atomicfile.ReadLimited(path, node.MaxSecret)
	if err != nil {
		return nil, fmt.Errorf("secret %s of this node: %w", ref, err)
	}
	return data, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Connect makes a client of etcd at the given endpoints; see package client.
func (m *Machine) Connect(c *facts.Cluster, endpoints ...string) (*clientv3.Client, error) {
	var id client.Identity
	var err error
	if id.Certificate, err = m.secret(client.Leaf + "-certificate"); err != nil {
		return nil, err
	}
	if id.Key, err = m.secret(client.Leaf + "-key"); err != nil {
		return nil, err
	}
	if id.Authorities, err = m.Part.Public("etcd.crt"); err != nil {
		return nil, err
	}
	return client.Connect(id, kubernetes.Of(c.Services).Slow(), endpoints...)
}
