// Package systemfiles derives this node's files under /etc from the cluster part and the identity: names, resolvers,
// time servers, kernel parameters and /etc/cluster-config. /etc is volatile, so everything is written again at each
// boot and cannot drift. Network interfaces are package network's.
package systemfiles

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"spore/agent/detect"
	"spore/agent/paths"
	"spore/agent/timesync"
	"spore/cluster/facts"
	"spore/services"
	"spore/storage/atomicfile"
)

// Input is what the files depend on. Node is nil on a machine that does not match any node.
type Input struct {
	Root     paths.Root
	Cluster  *facts.Cluster
	Node     *facts.Node
	Identity detect.Identity
	// Hosts is the hosts file of the cluster part.
	Hosts []byte
	// Part is where the cluster part is mounted.
	Part string
	// Resolvers and SearchDomain are what NoCloud and DHCP said; they are used where cluster.yaml names no nameservers.
	Resolvers    []string
	SearchDomain string
	// ClockWrong says that the clock could not be right, and that no time server has set it yet.
	ClockWrong bool
}

// Hostname is what the machine calls itself.
func Hostname(n *facts.Node, id detect.Identity) string {
	if n != nil {
		return n.Hostname
	}
	if len(id.Seen.MACs) > 0 {
		return "unknown-" + strings.ReplaceAll(id.Seen.MACs[0], ":", "")[6:]
	}
	return "unknown"
}

// Write writes all files; files that already say the same are left alone.
func Write(in Input) error {
	files := map[string]string{
		"/etc/hostname":    Hostname(in.Node, in.Identity) + "\n",
		"/etc/hosts":       hosts(in),
		"/etc/resolv.conf": resolvConf(in),
	}
	maps.Copy(files, timeFiles(in))
	if in.Node != nil {
		files["/etc/sysctl.d/90-spore-node.conf"] = sysctl(in.Cluster, in.Node)
		files[paths.ClusterConfig+"/node-identity"] = in.Node.Name + "\n"
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if _, err := atomicfile.Write(in.Root.At(path), []byte(files[path]), 0o644); err != nil {
			return err
		}
	}
	for _, name := range []string{"cluster.yaml", "services", "nodes"} {
		if err := link(in.Root, in.Part+"/"+name, paths.ClusterConfig+"/"+name); err != nil {
			return err
		}
	}
	if in.Node == nil {
		return nil
	}
	return linkNodeFile(in)
}

// linkNodeFile has current-node.yaml lead to the node's file in nodes/. A node may do without one. For such a node the
// link leads to the shortest file that means the same, so that readers find a document of one form on every node. It
// lies outside of nodes/, which is the folder that the user wrote.
func linkNodeFile(in Input) error {
	target := "nodes/" + in.Node.Name + ".yaml"
	_, err := os.Stat(in.Root.At(in.Part + "/" + target))
	if errors.Is(err, fs.ErrNotExist) {
		target = paths.NodeFile
		text := "# Written by spore-agent: the configuration has no file for this node in nodes/.\nnode: " + in.Node.Name + "\n"
		_, err = atomicfile.Write(in.Root.At(target), []byte(text), 0o644)
	}
	if err != nil {
		return fmt.Errorf("find the file of node %s: %w", in.Node.Name, err)
	}
	return link(in.Root, target, paths.ClusterConfig+"/current-node.yaml")
}

// WriteResolvers writes resolv.conf alone, after DHCP said something new.
func WriteResolvers(in Input) error {
	_, err := atomicfile.Write(in.Root.At("/etc/resolv.conf"), []byte(resolvConf(in)), 0o644)
	return err
}

// WriteTimeServers writes whom the program that sets the clock asks alone, and tells whether that is another list now.
func WriteTimeServers(in Input) (changed bool, err error) {
	files := timeFiles(in)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		other, err := atomicfile.Write(in.Root.At(path), []byte(files[path]), 0o644)
		if err != nil {
			return changed, err
		}
		changed = changed || other
	}
	return changed, nil
}

// link makes a symbolic link, so that the source files stay where they are verified on each read.
func link(root paths.Root, target, path string) error {
	at := root.At(path)
	if old, err := os.Readlink(at); err == nil && old == target {
		return nil
	}
	if err := os.MkdirAll(root.At(paths.ClusterConfig), 0o755); err != nil {
		return fmt.Errorf("link %s: %w", path, err)
	}
	if err := atomicfile.Link(target, at); err != nil {
		return fmt.Errorf("link %s: %w", path, err)
	}
	return nil
}

// hosts is hosts(5): the loopback, this node when the cluster's list does not have it, and the cluster.
func hosts(in Input) string {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n")
	if in.Node == nil {
		return b.String()
	}
	if !listed(in.Hosts, in.Node.FQDN) {
		// As Debian does for a machine whose address is not known beforehand.
		fmt.Fprintf(&b, "127.0.1.1 %s\n", strings.Join(distinct(in.Node.FQDN, in.Node.Hostname), " "))
	}
	b.Write(in.Hosts)
	return b.String()
}

func listed(hosts []byte, fqdn string) bool {
	for line := range strings.Lines(string(hosts)) {
		line, _, _ = strings.Cut(line, "#")
		if f := strings.Fields(line); len(f) > 1 {
			for _, name := range f[1:] {
				if strings.EqualFold(name, fqdn) {
					return true
				}
			}
		}
	}
	return false
}

// maxNameservers is what glibc reads (resolv.conf(5), MAXNS).
const maxNameservers = 3

func resolvConf(in Input) string {
	servers, search := in.Cluster.Network.Nameservers, in.Cluster.Domain
	if len(servers) == 0 {
		servers = in.Resolvers
		if search == "" {
			search = in.SearchDomain
		}
	}
	var b strings.Builder
	b.WriteString("# Written by spore-agent at each boot.\n")
	if search != "" {
		fmt.Fprintf(&b, "search %s\n", search)
	}
	for _, s := range servers[:min(len(servers), maxNameservers)] {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	b.WriteString("options edns0 timeout:2 attempts:2\n")
	return b.String()
}

const (
	// timesyncdFile is read by timesyncd when it starts, chronyFile by chrony.
	timesyncdFile = "/etc/systemd/timesyncd.conf.d/10-spore.conf"
	chronyFile    = timesync.ChronySources + "/10-spore.sources"
)

// timeFiles name the time servers: those of cluster.yaml, then nodes.
func timeFiles(in Input) map[string]string {
	node := ""
	if in.Node != nil {
		node = in.Node.Name
	}
	servers := in.Cluster.TimeServers(node, in.ClockWrong)
	if timesync.Keeper(in.Root.At(timesync.ChronySources)) == timesync.Chrony {
		return map[string]string{chronyFile: chrony(servers)}
	}
	return map[string]string{timesyncdFile: timesyncd(servers)}
}

// chrony is a list of sources as chrony.conf(5) has it. chrony asks all of them and follows those that agree.
func chrony(servers []string) string {
	text := "# Written by spore-agent at each boot.\n"
	for _, s := range servers {
		text += "server " + s + " iburst\n"
	}
	return text
}

// timesyncd is a list for timesyncd.conf(5). timesyncd asks the servers in this order and stays with the first that
// answers; those that DHCP gives come after them.
func timesyncd(servers []string) string {
	if len(servers) == 0 {
		return "# cluster.yaml names no time servers, and there is no node to ask.\n"
	}
	return "[Time]\nNTP=" + strings.Join(servers, " ") + "\n"
}

// podSysctl is what nodes with pods have besides overlay/usr/lib/sysctl.d/50-spore.conf. It is embedded, and not in
// overlay/, since only some nodes of an image have it.
//
//go:embed pods.conf
var podSysctl string

// sysctl is sysctl.d(5): what the node's roles want, then what its file in nodes/ says, which wins.
func sysctl(c *facts.Cluster, n *facts.Node) string {
	var b strings.Builder
	b.WriteString("# Written by spore-agent at each boot.\n")
	if services.RunsPods(c, n) {
		b.WriteString(podSysctl)
	}
	for _, k := range slices.Sorted(maps.Keys(n.Sysctl)) {
		fmt.Fprintf(&b, "%s = %s\n", k, strings.ReplaceAll(n.Sysctl[k], "\n", " "))
	}
	return b.String()
}

func distinct(names ...string) []string {
	var out []string
	for _, n := range names {
		if n != "" && (len(out) == 0 || out[len(out)-1] != n) {
			out = append(out, n)
		}
	}
	return out
}
