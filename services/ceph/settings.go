package ceph

import "spore/cluster/spec"

// Settings is configs/services/ceph.yaml. An empty file takes the defaults.
type Settings struct {
	// PoolSize is the number of copies of an object; 3 when 0.
	PoolSize int `yaml:"poolSize,omitempty" json:"poolSize,omitempty"`
	// FailureDomain is a CRUSH bucket type: host (default) or osd. No two copies of an object are in the same one.
	FailureDomain string `yaml:"failureDomain,omitempty" json:"failureDomain,omitempty"`
	// Pools are made when they are missing and never deleted; one called rbd, which Kubernetes is given, when empty.
	Pools []Pool `yaml:"pools,omitempty" json:"pools,omitempty"`
	// Filesystems are those of CephFS. They are made when they are missing and never deleted; metadata servers run where there is one.
	Filesystems []Filesystem `yaml:"filesystems,omitempty" json:"filesystems,omitempty"`
	// OSDMemory is how much memory in MiB an OSD tries to stay within, at least 896; when 0, the OSDs of a machine share half of its memory, with at most 4096 each.
	OSDMemory int `yaml:"osdMemory,omitempty" json:"osdMemory,omitempty"`
}

// Pool is one pool of Ceph.
type Pool struct {
	// Name is 1 to 64 letters, digits, -, _ and dots inside.
	Name string `yaml:"name" json:"name"`
	// Application is what the pool is for: rbd (default), or rados for programs that speak to Ceph themselves.
	Application string `yaml:"application,omitempty" json:"application,omitempty"`
	// Size is the number of copies; poolSize when 0.
	Size int `yaml:"size,omitempty" json:"size,omitempty"`
	// MinSize is the number of copies that must be there for reads and writes; more than half of Size when 0.
	MinSize int `yaml:"minSize,omitempty" json:"minSize,omitempty"`
	// Kubernetes lets the user of Kubernetes make volumes in this pool, which has to be one for rbd.
	Kubernetes bool `yaml:"kubernetes,omitempty" json:"kubernetes,omitempty"`
}

// Filesystem is one file system of CephFS, with pools of its own for its metadata and for its data.
type Filesystem struct {
	// Name is 1 to 50 lower-case letters and digits, and - inside.
	Name string `yaml:"name" json:"name"`
	// Size is the number of copies in both pools; poolSize when 0.
	Size int `yaml:"size,omitempty" json:"size,omitempty"`
	// MinSize is the number of copies that must be there for reads and writes; more than half of Size when 0.
	MinSize int `yaml:"minSize,omitempty" json:"minSize,omitempty"`
	// Kubernetes lets the user of Kubernetes make shared volumes in this file system, and use nothing else of it.
	Kubernetes bool `yaml:"kubernetes,omitempty" json:"kubernetes,omitempty"`
}

// Service is the name of the service.
func (*Settings) Service() string { return Name }

// Of returns the settings of the service; nil when it is not enabled.
func Of(s spec.Services) *Settings { return spec.Of[Settings](s) }

// DefaultPoolSize is the number of copies where ceph.yaml says nothing (osd_pool_default_size of Ceph).
const DefaultPoolSize = 3

// Failure domains: CRUSH bucket types.
const (
	FailureDomainHost = "host"
	FailureDomainOSD  = "osd"
)

// What pools are for.
const (
	PoolRBD   = "rbd"
	PoolRADOS = "rados"
	// PoolCephFS is for the pools of file systems alone.
	PoolCephFS = "cephfs"
)

// DefaultPool is the pool of a cluster whose ceph.yaml names none.
const DefaultPool = "rbd"

// Copies is the number of copies of an object in pools that do not say otherwise.
func (c *Settings) Copies() int {
	if c == nil || c.PoolSize == 0 {
		return DefaultPoolSize
	}
	return c.PoolSize
}

// Domain is the CRUSH bucket type of which no two hold the same object.
func (c *Settings) Domain() string {
	if c == nil || c.FailureDomain == "" {
		return FailureDomainHost
	}
	return c.FailureDomain
}

// AllPools returns the pools with their defaults filled in.
func (c *Settings) AllPools() []Pool {
	if c == nil || len(c.Pools) == 0 {
		return []Pool{Pool{Name: DefaultPool, Kubernetes: true}.filled(c)}
	}
	out := make([]Pool, len(c.Pools))
	for i, p := range c.Pools {
		out[i] = p.filled(c)
	}
	return out
}

func (p Pool) filled(c *Settings) Pool {
	if p.Application == "" {
		p.Application = PoolRBD
	}
	if p.Size == 0 {
		p.Size = c.Copies()
	}
	if p.MinSize == 0 {
		p.MinSize = p.Size - p.Size/2 // as Ceph has it with osd_pool_default_min_size = 0
	}
	return p
}

// KubernetesPools returns the names of the pools in which Kubernetes makes volumes, the default one first.
func (c *Settings) KubernetesPools() []string {
	var out []string
	for _, p := range c.AllPools() {
		if p.Kubernetes {
			out = append(out, p.Name)
		}
	}
	return out
}

// Parts of the service, by the names that service.Program.With knows besides those of services.
const (
	// PartCephFS is CephFS.
	PartCephFS = "cephfs"
	// PartCephFSVolumes are volumes of Kubernetes on CephFS.
	PartCephFSVolumes = "cephfs-volumes"
)

const (
	// KubernetesGroup is the group of subvolumes that it works in, the folder of that name in GroupsFolder.
	KubernetesGroup = "kubernetes"
	// GroupsFolder is where Ceph's module "volumes" keeps groups of subvolumes.
	GroupsFolder = "/volumes"
)

// AllFilesystems returns the file systems with their defaults filled in.
func (c *Settings) AllFilesystems() []Filesystem {
	if c == nil {
		return nil
	}
	out := make([]Filesystem, len(c.Filesystems))
	for i, f := range c.Filesystems {
		p := Pool{Size: f.Size, MinSize: f.MinSize}.filled(c)
		f.Size, f.MinSize = p.Size, p.MinSize
		out[i] = f
	}
	return out
}

// MetadataPool is the pool of names and attributes, called as Ceph's own `fs volume create` would.
func (f Filesystem) MetadataPool() string { return "cephfs." + f.Name + ".meta" }

// DataPool is the pool of what is in files.
func (f Filesystem) DataPool() string { return "cephfs." + f.Name + ".data" }

// FilesystemPools returns the pools of all file systems.
func (c *Settings) FilesystemPools() []Pool {
	var out []Pool
	for _, f := range c.AllFilesystems() {
		for _, name := range []string{f.MetadataPool(), f.DataPool()} {
			out = append(out, Pool{Name: name, Application: PoolCephFS, Size: f.Size, MinSize: f.MinSize})
		}
	}
	return out
}

// KubernetesFilesystems returns the names of the file systems in which Kubernetes makes volumes, the first one first.
func (c *Settings) KubernetesFilesystems() []string {
	var out []string
	for _, f := range c.AllFilesystems() {
		if f.Kubernetes {
			out = append(out, f.Name)
		}
	}
	return out
}
