package monitor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"spore/cluster/facts"
	"spore/services/ceph"
	"spore/services/ceph/cephx"
	cephnode "spore/services/ceph/node"
	"spore/services/kubernetes"
)

// Entity is a user or daemon in Ceph's authentication database.
type Entity struct {
	Name, Key string
	// Caps are what it may do, by service.
	Caps map[string]string
}

// Option is an entry of Ceph's configuration database.
type Option struct{ Section, Name, Value string }

// Want is what a storage cluster is to have.
type Want struct {
	Entities []Entity
	// Gone are the names of users that nobody is to be.
	Gone    []string
	Options []Option
	// Rule is the CRUSH rule of all pools, and Domain the bucket type of which it takes each once.
	Rule, Domain string
	Pools        []ceph.Pool
	Filesystems  []ceph.Filesystem
	// Monitors are the names of those in cluster.yaml.
	Monitors []string
}

// Wanted says what a cluster's storage is to have, as the node of a monitor gives it. key returns an entry of the bundle.
func Wanted(c *facts.Cluster, node string, key func(ref string) (string, error)) (Want, error) {
	s := ceph.Of(c.Services)
	if s == nil {
		return Want{}, fmt.Errorf("the service ceph is not enabled")
	}
	w := Want{Rule: "spore_" + s.Domain(), Domain: s.Domain(), Pools: everyPool(s), Filesystems: s.AllFilesystems(), Monitors: c.Members["ceph-mon"], Options: options(s)}
	// A monitor makes this user by itself (src/mon/AuthMonitor.cc, create_initial), and all nodes with OSDs shared its key
	// once. It has no business any more, and no OSD that is there needs it.
	w.Gone = []string{cephx.OSD}
	type row struct {
		entity, ref string
		caps        map[string]string
	}
	rows := []row{
		{"client.admin", "ceph-admin-key", cephnode.Caps["client.admin"]},
		{"mgr." + node, "ceph-mgr-key", cephnode.Caps["mgr"]},
	}
	if len(w.Filesystems) > 0 {
		rows = append(rows, row{"mds." + node, "ceph-mds-key", cephnode.Caps["mds"]})
	}
	// For a Kubernetes elsewhere: each node of this cluster's has a user of its own. Those of an older Spore shared this
	// one, so it is not in Gone: a node that has not started anew works as it.
	if len(s.KubernetesFilesystems()) > 0 && kubernetes.Of(c.Services) == nil {
		rows = append(rows, row{cephx.CephFS, "ceph-kubernetes-cephfs-key", cephnode.FSKubernetesCaps(s, true)})
	}
	made := func(ref string) (string, error) {
		value, err := key(ref)
		if err != nil {
			return "", err
		}
		if _, err := keyMade(value); err != nil {
			return "", fmt.Errorf("the secret %s: %w", ref, err)
		}
		return value, nil
	}
	for _, r := range rows {
		value, err := made(r.ref)
		if err != nil {
			return Want{}, err
		}
		w.Entities = append(w.Entities, Entity{r.entity, value, r.caps})
	}
	users, err := nodeUsers(c, made)
	w.Entities = append(w.Entities, users...)
	return w, err
}

// nodeUsers are the users of nodes: each node has a key of its own, which the monitors make of what they alone have.
func nodeUsers(c *facts.Cluster, key func(ref string) (string, error)) ([]Entity, error) {
	var out []Entity
	add := func(kind, ref string, nodes []string, caps func(node string) map[string]string) error {
		if len(nodes) == 0 {
			return nil
		}
		seed, err := key(ref)
		if err != nil {
			return err
		}
		for _, node := range nodes {
			value, err := cephx.ForNode(seed, kind, node)
			if err != nil {
				return fmt.Errorf("the secret %s: %w", ref, err)
			}
			out = append(out, Entity{kind + "." + node, value, caps(node)})
		}
		return nil
	}
	err := add(cephx.OSD, "ceph-osd-seed", c.Members["ceph-osd"], func(string) map[string]string { return cephnode.Caps[cephx.OSD] })
	if err != nil || kubernetes.Of(c.Services) == nil {
		return out, err
	}
	masters := c.Members["control-plane"]
	nodes := slices.Concat(masters, c.Members["worker"])
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	for _, volumes := range []struct {
		kind, ref string
		where     []string
		caps      func(c *ceph.Settings, master bool) map[string]string
	}{
		{cephx.RBD, "ceph-rbd-seed", ceph.Of(c.Services).KubernetesPools(), cephnode.KubernetesCaps},
		{cephx.CephFS, "ceph-cephfs-seed", ceph.Of(c.Services).KubernetesFilesystems(), cephnode.FSKubernetesCaps},
	} {
		if len(volumes.where) == 0 {
			continue
		}
		err := add(volumes.kind, volumes.ref, nodes, func(node string) map[string]string {
			return volumes.caps(ceph.Of(c.Services), slices.Contains(masters, node))
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// everyPool lists the pools of ceph.yaml, and those of its file systems.
func everyPool(s *ceph.Settings) []ceph.Pool { return append(s.AllPools(), s.FilesystemPools()...) }

// options are settings that hold for the whole storage cluster. Each is written with both values, so that it is taken back
// when its reason is gone.
func options(s *ceph.Settings) []Option {
	single := slices.ContainsFunc(everyPool(s), func(p ceph.Pool) bool { return p.Size == 1 })
	return []Option{
		// Clients that reuse the ids of others are older than any that this cluster ever had (CVE-2021-20288).
		{"mon", "auth_allow_insecure_global_id_reclaim", "false"},
		// Ceph makes pools of its own, too.
		{"global", "osd_pool_default_size", strconv.Itoa(s.Copies())},
		// Asked for by `poolSize: 1` or `size: 1`, for a cluster of one node; Ceph would refuse, and then warn for ever.
		{"global", "mon_allow_pool_size_one", strconv.FormatBool(single)},
		{"mon", "mon_warn_on_pool_no_redundancy", strconv.FormatBool(!single)},
	}
}

// Change is one command that makes a storage cluster more like what is wanted.
type Change struct {
	// What says in a few words what it does, without secrets.
	What string
	// Args is the command; a change without one is in the keyring.
	Args []string
	// Keyring is to be imported.
	Keyring []byte
}

// Changes are the commands that lead from what a storage cluster has to what is wanted, in an order in which each can
// succeed. There are none when nothing is missing. Nothing is ever deleted but the users that are to be gone.
func Changes(w Want, h Have) ([]Change, error) {
	out, err := entityChanges(w.Entities, h)
	if err != nil {
		return nil, err
	}
	for _, name := range w.Gone {
		if _, there := h.Entities[name]; there {
			out = append(out, Change{What: "no user " + name, Args: []string{"auth", "rm", name}})
		}
	}
	for _, o := range w.Options {
		if h.Options[[2]string{o.Section, o.Name}] != o.Value {
			out = append(out, Change{What: o.Name + " = " + o.Value, Args: []string{"config", "set", o.Section, o.Name, o.Value}})
		}
	}
	if _, there := h.Rules[w.Rule]; !there {
		out = append(out, Change{What: "the CRUSH rule " + w.Rule, Args: []string{"osd", "crush", "rule", "create-replicated", w.Rule, "default", w.Domain}})
	}
	for _, p := range w.Pools {
		out = append(out, poolChanges(p, w.Rule, h)...)
	}
	for _, f := range w.Filesystems {
		if !slices.Contains(h.Filesystems, f.Name) {
			out = append(out, Change{What: "the file system " + f.Name, Args: []string{"fs", "new", f.Name, f.MetadataPool(), f.DataPool()}})
		}
	}
	return out, nil
}

// entityChanges adds entities, gives them newer keys, and mends what they may do. A key says when it was made: an older
// bundle of another node never brings back an older key.
func entityChanges(want []Entity, h Have) ([]Change, error) {
	var out []Change
	for _, e := range want {
		had, there := h.Entities[e.Name]
		newer := !there
		if there && had.Key != e.Key {
			mine, err := keyMade(e.Key)
			if err != nil {
				return nil, fmt.Errorf("the key of %s: %w", e.Name, err)
			}
			theirs, err := keyMade(had.Key)
			if err != nil {
				return nil, fmt.Errorf("the key of %s that Ceph has: %w", e.Name, err)
			}
			newer = mine.After(theirs)
		}
		switch {
		case newer:
			out = append(out, Change{What: "the key of " + e.Name, Keyring: keyring(e)})
		case !maps.Equal(had.Caps, e.Caps):
			args := []string{"auth", "caps", e.Name}
			for _, service := range slices.Sorted(maps.Keys(e.Caps)) {
				args = append(args, service, e.Caps[service])
			}
			out = append(out, Change{What: "what " + e.Name + " may do", Args: args})
		}
	}
	return out, nil
}

// keyring is the file that imports an entity.
func keyring(e Entity) []byte {
	text := fmt.Sprintf("[%s]\n\tkey = %s\n", e.Name, e.Key)
	for _, service := range slices.Sorted(maps.Keys(e.Caps)) {
		text += fmt.Sprintf("\tcaps %s = %q\n", service, e.Caps[service])
	}
	return []byte(text)
}

// firstPGs is the number of placement groups that a pool begins with: Ceph's own default (osd_pool_default_pg_num). The
// manager changes it with the data.
const firstPGs = "32"

func poolChanges(p ceph.Pool, rule string, h Have) []Change {
	var out []Change
	set := func(key, value string, more ...string) {
		out = append(out, Change{What: fmt.Sprintf("%s = %s of the pool %s", key, value, p.Name), Args: append([]string{"osd", "pool", "set", p.Name, key, value}, more...)})
	}
	size, really := strconv.Itoa(p.Size), []string(nil)
	if p.Size == 1 {
		really = []string{"--yes-i-really-mean-it"}
	}
	had, there := h.Pools[p.Name]
	if !there {
		args := append([]string{"osd", "pool", "create", p.Name, firstPGs, firstPGs, "replicated", rule, "--size", size}, really...)
		out = append(out, Change{What: "the pool " + p.Name, Args: args})
		had = Pool{Size: p.Size, Rule: rule}
	}
	if had.Rule != rule {
		set("crush_rule", rule)
	}
	if had.Size != p.Size {
		set("size", size, really...)
	}
	if had.MinSize != p.MinSize || had.Size != p.Size { // Ceph chooses another one with each size.
		set("min_size", strconv.Itoa(p.MinSize))
	}
	// `fs new` says what the pools of a file system are for, and which of them is for what.
	if p.Application != ceph.PoolCephFS && !slices.Contains(had.Applications, p.Application) {
		out = append(out, Change{What: "what the pool " + p.Name + " is for", Args: []string{"osd", "pool", "application", "enable", p.Name, p.Application}})
	}
	return out
}
