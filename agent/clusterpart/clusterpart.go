// Package clusterpart reads the verified cluster part of the image: the identity index and what is compiled for this
// node. It never parses the YAML of the cluster.
package clusterpart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"spore/agent/bootinfo"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/cluster/identity"
	"spore/services"
	"spore/services/kubernetes"
	"spore/storage/atomicfile"
)

// publicDir is pki.PublicDir, without the imports of that package.
const publicDir = "pki"

// Bounds of compiled files. The largest is cluster.json of 10,000 nodes, with its lists of role members.
const (
	maxCluster = 64 << 20
	maxNode    = 4 << 20
	maxPublic  = 1 << 20
)

// Part is a mounted cluster part.
type Part struct {
	Dir string
	// Trust holds the public half of the cluster's keys as the node has it since it took its bundle, which may be newer
	// than the part's own; it may be missing.
	Trust string
	// Slow is by how much the machine is slower than others, as whoever started it says; 0 when nobody does. All machines
	// of a cluster have to be told the same, as one holds the leases of others to its own times.
	Slow int
}

// Mounted is the part that stage1 has mounted. How slow the machine is it has from stage1, too.
func Mounted(root paths.Root) Part {
	info, _ := bootinfo.Read(root.At(bootinfo.Path)) // There is none in a container; who needs more of it reads it, and says so.
	return Part{Dir: root.At(bootinfo.ClusterDir), Trust: root.At(paths.Trust), Slow: info.Slow}
}

// Match decides which node a machine with these facts is.
func (p Part) Match(f identity.Facts) (r identity.Result, err error) {
	err = p.index(func(x *identity.Index) error {
		r, err = x.Match(f)
		return err
	})
	return r, err
}

// Claims lists all nodes with what the configuration says of their hardware.
func (p Part) Claims() (list []identity.Claims, err error) {
	err = p.index(func(x *identity.Index) error {
		list, err = x.Claims()
		return err
	})
	return list, err
}

// index opens the identity index.
func (p Part) index(do func(*identity.Index) error) error {
	file, err := os.Open(filepath.Join(p.Dir, facts.IdentityIndex))
	if err != nil {
		return fmt.Errorf("open the identity index of the cluster part: %w", err)
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return fmt.Errorf("open the identity index of the cluster part: %w", err)
	}
	x, err := identity.Open(file, st.Size())
	if err != nil {
		return err
	}
	return do(x)
}

// Cluster reads what is the same on every node.
func (p Part) Cluster() (*facts.Cluster, error) {
	c := new(facts.Cluster)
	if err := p.read(facts.ClusterFile, maxCluster, func(data []byte) error { return services.ReadCluster(data, c) }); err != nil {
		return c, err
	}
	if k := kubernetes.Of(c.Services); k != nil {
		k.SlowMachine = max(k.SlowMachine, p.Slow)
	}
	return c, nil
}

// Node reads what is compiled for one node. name comes from the identity index.
func (p Part) Node(name string) (*facts.Node, error) {
	n := new(facts.Node)
	return n, p.read(filepath.Join(facts.NodeDir, filepath.Base(name)+".json"), maxNode, func(data []byte) error { return json.Unmarshal(data, n) })
}

// HasNode tells whether the configuration has a node of a name, which may come from outside.
func (p Part) HasNode(name string) bool {
	if name == "" || name != filepath.Base(name) {
		return false
	}
	st, err := os.Stat(filepath.Join(p.Dir, facts.NodeDir, name+".json"))
	return err == nil && st.Mode().IsRegular()
}

// Hosts reads the hosts file of the cluster.
func (p Part) Hosts() ([]byte, error) {
	data, err := atomicfile.ReadLimited(filepath.Join(p.Dir, facts.HostsFile), maxCluster)
	if err != nil {
		return nil, fmt.Errorf("read the cluster part: %w", err)
	}
	return data, nil
}

// Manifests reads the objects that the masters apply; none where the configuration has none. The bytes are those that
// were read.
func (p Part) Manifests() ([]facts.Manifest, []byte, error) {
	data, err := atomicfile.ReadLimited(filepath.Join(p.Dir, facts.ManifestsFile), facts.MaxManifests)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the cluster part: %w", err)
	}
	var out []facts.Manifest
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // Numbers go to the API server as they were written.
	if err := d.Decode(&out); err != nil {
		return nil, nil, fmt.Errorf("read the cluster part: %s: %w", facts.ManifestsFile, err)
	}
	return out, data, nil
}

// HasManifests tells whether there are objects that the masters apply.
func (p Part) HasManifests() bool {
	_, err := os.Stat(filepath.Join(p.Dir, facts.ManifestsFile))
	return err == nil
}

// Public reads a file of the public half of the cluster's keys, such as kubernetes-client.crt.
func (p Part) Public(name string) ([]byte, error) {
	if p.Trust != "" {
		data, err := atomicfile.ReadLimited(filepath.Join(p.Trust, filepath.Base(name)), maxPublic)
		if !errors.Is(err, fs.ErrNotExist) {
			return data, err
		}
	}
	data, err := atomicfile.ReadLimited(filepath.Join(p.Dir, publicDir, filepath.Base(name)), maxPublic)
	if err != nil {
		return nil, fmt.Errorf("read the cluster part: %w", err)
	}
	return data, nil
}

func (p Part) read(name string, limit int64, into func(data []byte) error) error {
	data, err := atomicfile.ReadLimited(filepath.Join(p.Dir, name), limit)
	if err != nil {
		return fmt.Errorf("read the cluster part: %w", err)
	}
	if err := into(data); err != nil {
		return fmt.Errorf("read the cluster part: %s: %w", name, err)
	}
	return nil
}
