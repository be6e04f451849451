package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"

	"spore/agent/atomicfile"
	"spore/agent/clusterpart"
	"spore/agent/detect"
	"spore/agent/etcd/client"
	"spore/agent/paths"
	"spore/cluster/facts"
)

// maxSecret bounds one secret in bytes.
const maxSecret = 1 << 20

// etcdProgram is the program whose secrets root's commands share.
const etcdProgram = "etcd-members"

// machine is what all subcommands look at and act on.
type machine struct {
	root paths.Root
	part clusterpart.Part
	say  func(string)
	// said is what was waited for when that was said last.
	said string
}

func newMachine(root paths.Root) *machine {
	return &machine{
		root: root, part: clusterpart.Mounted(root),
		say: func(s string) { fmt.Fprintln(os.Stderr, "spore-etcd:", s) },
	}
}

// master is this node, which is a master of a cluster.
func (m *machine) master() (*facts.Cluster, *facts.Node, error) {
	var id detect.Identity
	if err := atomicfile.ReadJSON(m.root.At(paths.Identity), &id); err != nil {
		return nil, nil, fmt.Errorf("read which node this is (has `spore-agent detect` run?): %w", err)
	}
	if !id.Known() {
		return nil, nil, errors.New("this machine is no node")
	}
	c, err := m.part.Cluster()
	if err != nil {
		return nil, nil, err
	}
	n, err := m.part.Node(id.Node)
	if err != nil {
		return nil, nil, err
	}
	if c.Services.Kubernetes() == nil {
		return nil, nil, errors.New("this cluster has no Kubernetes")
	}
	return c, n, nil
}

// secret reads an entry of the bundle: what the unit was given, or, for root, what lies there for the program.
func (m *machine) secret(ref string) ([]byte, error) {
	path := m.root.At(filepath.Join(paths.Secrets, etcdProgram, ref))
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		if given := filepath.Join(dir, "secret_"+ref); exists(given) {
			path = given
		}
	}
	data, err := atomicfile.ReadLimited(path, maxSecret)
	if err != nil {
		return nil, fmt.Errorf("secret %s of this node: %w", ref, err)
	}
	return data, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// connect makes a client of etcd at the given endpoints; see package client.
func (m *machine) connect(c *facts.Cluster, endpoints ...string) (*clientv3.Client, error) {
	var id client.Identity
	var err error
	if id.Certificate, err = m.secret(client.Leaf + "-certificate"); err != nil {
		return nil, err
	}
	if id.Key, err = m.secret(client.Leaf + "-key"); err != nil {
		return nil, err
	}
	if id.Authorities, err = m.part.Public("etcd.crt"); err != nil {
		return nil, err
	}
	return client.Connect(id, c.Services.Kubernetes().Slow(), endpoints...)
}
