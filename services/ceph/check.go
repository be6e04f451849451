package ceph

import (
	"net/netip"

	"spore/cluster/check"
	"spore/cluster/form"
)

var (
	failureDomains   = []string{FailureDomainHost, FailureDomainOSD}
	poolApplications = []string{PoolRBD, PoolRADOS}
)

const (
	// mostCopies is more than anybody keeps; Ceph takes as many (OSDMonitor::prepare_command_pool_set).
	mostCopies = 10
	// leastOSDMemory is Ceph's own bound (osd_memory_target_min would still be taken; below this OSDs stay above the
	// target).
	leastOSDMemory = 896
	mostOSDMemory  = 1 << 20
)

// poolName is narrower than what Ceph takes: names that begin with a dot are Ceph's own, and the rest has to stand in
// capabilities and command lines.
var poolName = form.New(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?$`)

// filesystemName leaves room for the names of its pools, and can stand in that of a StorageClass.
var filesystemName = form.New(`^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$`)

// checkSettings checks yaml.
func checkSettings(k *check.Checker, src check.File) {
	s := Of(k.Services)
	checkMonitors(k)
	if s.OSDMemory != 0 {
		k.Between(check.In(src, "osdMemory"), "osdMemory", s.OSDMemory, leastOSDMemory, mostOSDMemory)
	}
	p := check.In(src)
	if s.PoolSize != 0 {
		p = check.In(src, "poolSize")
	}
	if !k.Between(p, "poolSize", s.Copies(), 1, mostCopies) {
		return
	}
	if s.FailureDomain != "" && !k.OneOf(check.In(src, "failureDomain"), "the failure domain", s.FailureDomain, failureDomains) {
		return
	}
	checkCopies(k, p, "poolSize", s.Copies(), s.Domain())
	checkPools(k, src, s)
	checkFilesystems(k, src, s)
}

// checkMonitors holds that each monitor has an address that the others and all clients know beforehand.
func checkMonitors(k *check.Checker) {
	var first netip.Addr
	var whose string
	for _, i := range k.MembersOf(roleMon) {
		name, p := k.NodeName(i), check.In(k.File, "nodes", i, "roles")
		ips := k.Cluster.Nodes[i].IPs
		if len(ips) == 0 {
			k.Errorf(p, "node %s has the role ceph-mon but no address, which the other monitors and all clients need; add one under ips", name)
			continue
		}
		a, err := netip.ParseAddr(ips[0])
		if err != nil {
			continue // an error of its own
		}
		if !first.IsValid() {
			first, whose = a, name
		} else if a.Is4() != first.Is4() {
			k.Errorf(check.In(k.File, "nodes", i, "ips", 0), "the monitor %s has an address of %s and the monitor %s one of %s; Ceph uses only one of them: put addresses of the same kind first", name, check.Family(a), whose, check.Family(first))
			return
		}
	}
}

// checkCopies holds that there are places for all copies of an object.
func checkCopies(k *check.Checker, p check.Place, what string, size int, domain string) {
	hosts, disks := k.MembersOf(roleOSD), 0
	for _, i := range hosts {
		if f, ok := k.NodeFile(i); ok {
			disks += len(OSDs(f.Content.Disks))
		}
	}
	have, places := len(hosts), "nodes with OSDs"
	if domain == FailureDomainOSD {
		have, places = disks, "OSD disks"
	}
	switch {
	case have > 0 && size > have:
		k.Errorf(p, "%s %d with failureDomain %s needs %d %s, but there are %d, so pools would never be clean; lower %s or add disks", what, size, domain, size, places, have, what)
	case size == 1:
		k.Warningf(p, "with %s 1 every disk that fails loses data; write 2, or better 3", what)
	}
}

func checkPools(k *check.Checker, src check.File, s *Settings) {
	seen := k.Unique()
	for i, pool := range s.Pools {
		p := check.In(src, "pools", i)
		if !poolName.MatchString(pool.Name) {
			k.Errorf(p.Then("name"), "the pool name %q is not valid; write 1 to 64 letters, digits, -, _ and dots inside, the first a letter or digit", check.Clip(pool.Name))
		} else {
			seen.Add(p.Then("name"), "the pool", pool.Name, "each pool has one entry")
		}
		if pool.Application != "" {
			k.OneOf(p.Then("application"), "the application of a pool", pool.Application, poolApplications)
		}
		if pool.Kubernetes && pool.Application == PoolRADOS {
			k.Errorf(p.Then("kubernetes"), "Kubernetes makes block devices, and the pool %s is for rados; write application: rbd, or remove kubernetes", check.Clip(pool.Name))
		}
		checkSizes(k, p, s, pool.Size, pool.MinSize)
	}
}

// checkSizes holds that the copies of one entry's pools have places, and that they can be written.
func checkSizes(k *check.Checker, p check.Place, s *Settings, size, minSize int) {
	if size == 0 {
		size = s.Copies()
	} else {
		if !k.Between(p.Then("size"), "size", size, 1, mostCopies) {
			return
		}
		checkCopies(k, p.Then("size"), "size", size, s.Domain())
	}
	if minSize != 0 && (minSize < 0 || minSize > size) {
		k.Errorf(p.Then("minSize"), "minSize %d is not between 1 and the pool's %d copies, so nothing could be written; correct it, or leave it out", minSize, size)
	} else if size > 2 && minSize == 1 {
		k.Warningf(p.Then("minSize"), "with minSize 1 what is acknowledged may be on one disk alone, and is lost with it; write %d", size-size/2)
	}
}

func checkFilesystems(k *check.Checker, src check.File, s *Settings) {
	if len(s.Filesystems) == 0 {
		return
	}
	if len(k.MembersOf(roleOSD)) == 0 {
		k.Errorf(check.In(src, "filesystems"), "no node has the role ceph-osd, so there is no disk for a file system; give nodes the role, or remove filesystems")
	}
	mons := k.MembersOf(roleMon)
	for _, i := range mons {
		// src/ceph_mds.cc of Ceph refuses such a name.
		if name := k.NodeName(i); name != "" && name[0] >= '0' && name[0] <= '9' {
			k.Errorf(check.In(k.File, "nodes", i, "name"), "beside the monitor of node %s runs a metadata server, whose name cannot begin with a digit; call the node otherwise, or remove filesystems from services/ceph.yaml", name)
		}
	}
	if n := len(s.Filesystems); n > len(mons) && len(mons) > 0 {
		k.Errorf(check.In(src, "filesystems", len(mons)), "there are more file systems, %d, than metadata servers, %d, one beside each monitor; each file system needs one: remove file systems or add monitors", n, len(mons))
	} else if n == len(mons) && n > 1 {
		k.Warningf(check.In(src, "filesystems", n-1), "there are as many file systems as metadata servers, so that none stands by: where one fails, its file system stands still; remove a file system")
	}
	seen, pools := k.Unique(), map[string]bool{}
	for _, pool := range s.Pools {
		pools[pool.Name] = true
	}
	for i, f := range s.Filesystems {
		p := check.In(src, "filesystems", i)
		if !filesystemName.MatchString(f.Name) {
			k.Errorf(p.Then("name"), "the name %q of a file system is not valid; write 1 to 50 lower-case letters and digits, and - inside", check.Clip(f.Name))
			continue
		}
		seen.Add(p.Then("name"), "the file system", f.Name, "each file system has one entry")
		for _, own := range []string{f.MetadataPool(), f.DataPool()} {
			if pools[own] {
				k.Errorf(p.Then("name"), "the file system %s makes a pool %s, and an entry of pools has the same name; rename that pool", f.Name, own)
			}
		}
		checkSizes(k, p, s, f.Size, f.MinSize)
	}
}

// checkMembers checks how many monitors there are.
func checkMembers(k *check.Checker, listed check.Place) {
	mons := len(k.MembersOf(roleMon))
	if len(k.MembersOf(roleOSD)) > 0 && mons == 0 {
		k.Errorf(listed, "there are nodes with the role ceph-osd but no node with ceph-mon; give it to one node, or to three")
	}
	k.Quorum(listed, mons, "Ceph monitors", "their")
}

// checkNodes holds that each node with OSDs has a disk for one.
func checkNodes(k *check.Checker) {
	for _, i := range k.MembersOf(roleOSD) {
		if f, ok := k.NodeFile(i); ok && (f.Broken || len(OSDs(f.Content.Disks)) > 0) {
			continue
		}
		name := k.NodeName(i)
		k.Errorf(check.In(k.File, "nodes", i, "roles"), "node %s has the role ceph-osd but no disk for it; write nodes/%s.yaml with disks: [{use: osd, selector: {serial: …}}]", name, name)
	}
}
