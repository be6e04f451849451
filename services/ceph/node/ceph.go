package node

import (
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/services/ceph"
	"spore/services/ceph/cephx"
	"spore/services/kubernetes/client"
	"spore/services/rendering"
)

const cephState = "/var/lib/ceph"

// Caps are what the entities of Ceph may do, by the service that they may do it at.
var Caps = map[string]map[string]string{
	"mon.":         {"mon": "allow *"},
	"client.admin": {"mon": "allow *", "mgr": "allow *", "osd": "allow *", "mds": "allow *"},
	"mgr":          {"mon": "allow profile mgr", "osd": "allow *", "mds": "allow *"},
	"mds":          {"mon": "allow profile mds", "osd": "allow rw tag cephfs *=*", "mds": "allow", "mgr": "allow profile mds"},
	// Of the profile bootstrap-osd (src/mon/MonCap.cc) all but the right to give up the new OSD of another node.
	cephx.OSD: {"mon": "allow service mon r, allow service osd r, allow command 'osd new'"},
}

// OSDUser is the user of Ceph as which a node asks for the numbers of new OSDs.
func OSDUser(node string) string { return cephx.OSD + "." + node }

// RBDUser is the user of Ceph as which a node of Kubernetes works with volumes.
func RBDUser(node string) string { return cephx.RBD + "." + node }

// FSUser is the user of Ceph as which a node of Kubernetes works with shared volumes.
func FSUser(node string) string { return cephx.CephFS + "." + node }

// Monitor is a monitor by the name of its node.
type Monitor struct {
	Name string
	Addr netip.Addr
}

// Endpoint is the monitor's address as Ceph writes it (entity_addrvec_t): messenger version 2 alone, which encrypts.
func (m Monitor) Endpoint() string {
	return "[v2:" + netip.AddrPortFrom(m.Addr, ceph.PortMon).String() + "]"
}

// Monitors returns the monitors of cluster.yaml, by name.
func Monitors(in rendering.Input) ([]Monitor, error) {
	members, err := rendering.Members(in, "ceph-mon")
	if err != nil {
		return nil, err
	}
	var out []Monitor
	for _, m := range members {
		out = append(out, Monitor{m.Name, m.Addr})
	}
	return out, nil
}

// cephMon renders what a monitor needs, and the keys that the first authentication database begins with.
func cephMon(in rendering.Input) (map[string]rendering.File, error) {
	own, err := rendering.Address(in)
	if err != nil {
		return nil, err
	}
	return cephFiles(in, []CephKey{
		{"mon.", "ceph-mon-key"}, {"client.admin", "ceph-admin-key"}, {"mgr." + in.Node.Name, "ceph-mgr-key"},
	},
		// The program finds its own address in the map of monitors; one that is not in it yet says this one, and with public_addr
		// it would add one of version 1.
		setting{"public_addrv", Monitor{in.Node.Name, own}.Endpoint()},
		setting{"mon_data", cephState + "/mon/ceph-$id"},
		// Of the modules that a new cluster switches on, the image has none; those that are always on suffice.
		setting{"mgr_initial_modules", ""},
		setting{"mon_osd_min_down_reporters", strconv.Itoa(downReporters(len(in.Cluster.Members["ceph-osd"])))},
	)
}

// downReporters is from how many hosts a monitor must hear of an OSD that it does not answer before it counts as down. Ceph wants
// two. With fewer than three hosts there is but one to say so, and all that is written would wait for a quarter of an hour
// (mon_osd_report_timeout) after a host is lost.
func downReporters(hosts int) int { return min(2, max(1, hosts-1)) }

// cephMgr renders what a manager needs.
func cephMgr(in rendering.Input) (map[string]rendering.File, error) {
	own, err := rendering.Address(in)
	if err != nil {
		return nil, err
	}
	return cephFiles(in, []CephKey{{"mgr." + in.Node.Name, "ceph-mgr-key"}},
		setting{"public_addr", own.String()},
		// It keeps nothing: all that it knows comes from the others.
		setting{"mgr_data", in.Dir},
		setting{"mgr_tick_period", strconv.Itoa(int(mgrTick(in) / time.Second))},
	)
}

// mgrTick is how often a manager tells the monitors that it lives and how much is stored, each of which they agree upon and have on
// their disks. Ceph has two seconds, and takes a manager for dead after 30 (mon_mgr_beacon_grace).
func mgrTick(in rendering.Input) time.Duration {
	return min(client.Slow(in, 5*time.Second), 10*time.Second)
}

// cephMDS renders what a metadata server needs.
func cephMDS(in rendering.Input) (map[string]rendering.File, error) {
	own, err := rendering.Address(in)
	if err != nil {
		return nil, err
	}
	return cephFiles(in, []CephKey{{"mds." + in.Node.Name, "ceph-mds-key"}},
		setting{"public_addr", own.String()},
		// It keeps nothing: file systems are in their pools.
		setting{"mds_data", in.Dir},
		setting{"mds_cache_memory_limit", strconv.FormatUint(mdsCache(in.Memory), 10)},
	)
}

// Bounds of the cache of a metadata server in bytes: that of its smallest use, and Ceph's own default.
const (
	leastMDSCache = 128 << 20
	mostMDSCache  = 4096 << 20
)

// mdsCache is what a metadata server may keep in memory in bytes, an eighth of the machine's: the monitor, the manager and
// mostly OSDs are beside it. The process takes up to half as much again.
func mdsCache(machine uint64) uint64 {
	return min(max(machine/8, leastMDSCache), mostMDSCache)
}

// cephBootstrap renders what the commands of ceph-bootstrap need; people use the same files. The key of the monitors comes
// first: with it, even the administrator's can be renewed.
func cephBootstrap(in rendering.Input) (map[string]rendering.File, error) {
	return cephFiles(in, []CephKey{{"mon.", "ceph-mon-key"}, {"client.admin", "ceph-admin-key"}})
}

// CephKey is an entity of Ceph, and the bundle entry that holds its key.
type CephKey struct{ Entity, Ref string }

// setting is one line of ceph.conf.
type setting struct{ name, value string }

// cephFiles renders ceph.conf and a keyring. Settings are added to those that every program has.
func cephFiles(in rendering.Input, keys []CephKey, more ...setting) (map[string]rendering.File, error) {
	conf, err := cephConf(in, more...)
	if err != nil {
		return nil, err
	}
	keyring, err := cephKeyring(in, keys)
	if err != nil {
		return nil, err
	}
	return map[string]rendering.File{"ceph.conf": conf, "keyring": keyring}, nil
}

var (
	cephKeyForm = regexp.MustCompile(`^[A-Za-z0-9+/]{38}==$`)
	uuidForm    = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

// cephConf renders the configuration of one program, or of people's commands. It has one section: each program has its own
// file.
func cephConf(in rendering.Input, more ...setting) (rendering.File, error) {
	if ceph.Of(in.Cluster.Services) == nil {
		return rendering.File{}, fmt.Errorf("the service ceph is not enabled")
	}
	fsid, err := cephSecret(in, "ceph-fsid", uuidForm)
	if err != nil {
		return rendering.File{}, err
	}
	mons, err := Monitors(in)
	if err != nil {
		return rendering.File{}, err
	}
	var endpoints []string
	for _, m := range mons {
		endpoints = append(endpoints, m.Endpoint())
	}
	six := mons[0].Addr.Is6()
	settings := []setting{
		{"fsid", fsid},
		{"mon_host", strings.Join(endpoints, " ")},
		{"keyring", filepath.Join(in.Dir, "keyring")},
		{"admin_socket", filepath.Join(in.Dir, "$name.asok")},
		{"run_dir", in.Dir},
		// Version 1 of the messenger cannot encrypt, so nobody speaks it.
		{"ms_bind_msgr1", "false"},
		{"ms_bind_msgr2", "true"},
		{"ms_bind_ipv4", strconv.FormatBool(!six)},
		{"ms_bind_ipv6", strconv.FormatBool(six)},
	}
	for _, mode := range []string{"ms_cluster_mode", "ms_service_mode", "ms_client_mode", "ms_mon_cluster_mode", "ms_mon_service_mode", "ms_mon_client_mode"} {
		settings = append(settings, setting{mode, "secure"})
	}
	for _, auth := range []string{"auth_cluster_required", "auth_service_required", "auth_client_required"} {
		settings = append(settings, setting{auth, "cephx"})
	}
	settings = append(settings,
		// The journal is the log.
		setting{"log_file", ""}, setting{"log_to_file", "false"}, setting{"log_to_stderr", "true"}, setting{"err_to_stderr", "true"},
		setting{"mon_cluster_log_to_file", "false"},
		// The database tells its every option, hundreds of lines at each start, and a monitor the size of its caches every five
		// seconds.
		setting{"debug_rocksdb", "1/5"}, setting{"debug_mon", "0/5"},
		setting{"crash_dir", ""},
	)
	var b strings.Builder
	b.WriteString("# Written by spore-agent from cluster.yaml and ceph.yaml; it is written again at each start.\n[global]\n")
	for _, s := range append(settings, more...) {
		fmt.Fprintf(&b, "%s\n", strings.TrimRight(s.name+" = "+s.value, " "))
	}
	if m := ceph.Of(in.Cluster.Services).OSDMemory; m > 0 {
		fmt.Fprintf(&b, "[osd]\nosd_memory_target = %d\n", m<<20)
	}
	// A command has no life of its own to be asked about.
	b.WriteString("[client]\nadmin_socket =\n")
	return rendering.File{Data: []byte(b.String()), Mode: 0o644}, nil
}

// cephKeyring renders a keyring (ceph-authtool(8)).
func cephKeyring(in rendering.Input, keys []CephKey) (rendering.File, error) {
	var b strings.Builder
	for _, k := range keys {
		key, err := cephSecret(in, k.Ref, cephKeyForm)
		if err != nil {
			return rendering.File{}, err
		}
		fmt.Fprintf(&b, "[%s]\n\tkey = %s\n", k.Entity, key)
		caps := capsOf(k.Entity)
		for _, service := range slices.Sorted(maps.Keys(caps)) {
			fmt.Fprintf(&b, "\tcaps %s = %q\n", service, caps[service])
		}
	}
	return rendering.File{Data: []byte(b.String()), Mode: 0o600}, nil
}

// capsOf finds the capabilities of an entity; those of one kind that has many go by the kind.
func capsOf(entity string) map[string]string {
	if caps, ok := Caps[entity]; ok {
		return caps
	}
	if strings.HasPrefix(entity, cephx.OSD+".") {
		return Caps[cephx.OSD]
	}
	kind, _, _ := strings.Cut(entity, ".")
	return Caps[kind]
}

// cephSecret reads an entry of the bundle that has to look like what it is, since it goes into a file of lines.
func cephSecret(in rendering.Input, ref string, form *regexp.Regexp) (string, error) {
	data, err := in.Secret(ref)
	if err != nil {
		return "", err
	}
	s := strings.TrimSpace(string(data))
	if !form.MatchString(s) {
		return "", fmt.Errorf("the secret %s has not the form that Ceph reads", ref)
	}
	return s, nil
}

// KubernetesCaps are what a node of Kubernetes may do with volumes: work with images of its pools. Masters make and
// remove them, which may go to the manager; other nodes map them and have no business there.
func KubernetesCaps(c *ceph.Settings, master bool) map[string]string {
	var pools []string
	for _, name := range c.KubernetesPools() {
		pools = append(pools, "profile rbd pool="+name)
	}
	caps := map[string]string{"mon": "profile rbd", "osd": strings.Join(pools, ", ")}
	if master {
		caps["mgr"] = strings.Join(pools, ", ")
	}
	return caps
}

// FSKubernetesCaps are what a user of Kubernetes may do with the file systems that are given to it: mount what is in
// its group. One who makes volumes, as masters do, may have the manager make and remove subvolumes of the group. Nobody can
// change a quota, which would take the right p.
func FSKubernetesCaps(c *ceph.Settings, makes bool) map[string]string {
	var mon, osd, mds, mgr []string
	for _, name := range c.KubernetesFilesystems() {
		mon = append(mon, "allow r fsname="+name)
		osd = append(osd, "allow rw tag cephfs data="+name)
		mds = append(mds, "allow rw fsname="+name+" path="+ceph.GroupsFolder+"/"+ceph.KubernetesGroup)
		for _, command := range []string{"subvolumegroup create", "subvolume create", "subvolume info", "subvolume rm"} {
			mgr = append(mgr, fmt.Sprintf("allow command 'fs %s' with vol_name=%s group_name=%s", command, name, ceph.KubernetesGroup))
		}
	}
	caps := map[string]string{"mon": strings.Join(mon, ", "), "osd": strings.Join(osd, ", "), "mds": strings.Join(mds, ", ")}
	if makes {
		caps["mgr"] = strings.Join(mgr, ", ")
	}
	return caps
}
