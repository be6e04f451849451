package spec

// Defaults of values that are 0 in YAML.
const (
	DefaultPoolSize = 3 // osd_pool_default_size of Ceph
)

// EndOfWords is the last word of an image's kernel command line: what is behind it came from elsewhere.
const EndOfWords = "spore.end"

// MaxSlow bounds SlowMachine: it is enough for an emulated processor.
const MaxSlow = 20

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
func (c *Ceph) Copies() int {
	if c == nil || c.PoolSize == 0 {
		return DefaultPoolSize
	}
	return c.PoolSize
}

// Domain is the CRUSH bucket type of which no two hold the same object.
func (c *Ceph) Domain() string {
	if c == nil || c.FailureDomain == "" {
		return FailureDomainHost
	}
	return c.FailureDomain
}

// AllPools returns the pools with their defaults filled in.
func (c *Ceph) AllPools() []CephPool {
	if c == nil || len(c.Pools) == 0 {
		return []CephPool{CephPool{Name: DefaultPool, Kubernetes: true}.filled(c)}
	}
	out := make([]CephPool, len(c.Pools))
	for i, p := range c.Pools {
		out[i] = p.filled(c)
	}
	return out
}

func (p CephPool) filled(c *Ceph) CephPool {
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
func (c *Ceph) KubernetesPools() []string {
	var out []string
	for _, p := range c.AllPools() {
		if p.Kubernetes {
			out = append(out, p.Name)
		}
	}
	return out
}

// Parts of services, by the names that service.Program.With knows besides those of services.
const (
	// PartCephFS is CephFS.
	PartCephFS = "cephfs"
	// PartCephFSVolumes are volumes of Kubernetes on CephFS.
	PartCephFSVolumes = "cephfs-volumes"
)

const (
	// CephFSKubernetesGroup is the group of subvolumes that it works in, the folder of that name in CephFSGroups.
	CephFSKubernetesGroup = "kubernetes"
	// CephFSGroups is where Ceph's module "volumes" keeps groups of subvolumes.
	CephFSGroups = "/volumes"
)

// AllFilesystems returns the file systems with their defaults filled in.
func (c *Ceph) AllFilesystems() []CephFilesystem {
	if c == nil {
		return nil
	}
	out := make([]CephFilesystem, len(c.Filesystems))
	for i, f := range c.Filesystems {
		p := CephPool{Size: f.Size, MinSize: f.MinSize}.filled(c)
		f.Size, f.MinSize = p.Size, p.MinSize
		out[i] = f
	}
	return out
}

// MetadataPool is the pool of names and attributes, called as Ceph's own `fs volume create` would.
func (f CephFilesystem) MetadataPool() string { return "cephfs." + f.Name + ".meta" }

// DataPool is the pool of what is in files.
func (f CephFilesystem) DataPool() string { return "cephfs." + f.Name + ".data" }

// FilesystemPools returns the pools of all file systems.
func (c *Ceph) FilesystemPools() []CephPool {
	var out []CephPool
	for _, f := range c.AllFilesystems() {
		for _, name := range []string{f.MetadataPool(), f.DataPool()} {
			out = append(out, CephPool{Name: name, Application: PoolCephFS, Size: f.Size, MinSize: f.MinSize})
		}
	}
	return out
}

// KubernetesFilesystems returns the names of the file systems in which Kubernetes makes volumes, the first one first.
func (c *Ceph) KubernetesFilesystems() []string {
	var out []string
	for _, f := range c.AllFilesystems() {
		if f.Kubernetes {
			out = append(out, f.Name)
		}
	}
	return out
}
