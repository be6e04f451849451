package customize

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"spore/builder/image"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/services"
)

// configDir is where a node has its configuration (a contract of the design).
const configDir = "/etc/cluster-config"

// Diff is what a change makes different: for the cluster, for each node, and on the medium.
type Diff struct {
	// Cluster holds what all nodes are told.
	Cluster []Value `json:"cluster,omitempty"`
	// Nodes are those that change, come or go, by name.
	Nodes []Node `json:"nodes,omitempty"`
	// Files are those of the cluster part that differ.
	Files []File `json:"files,omitempty"`
	// Medium are partitions, the UKI and the kernel command line.
	Medium []Value `json:"medium"`
}

// Value is one value before and after; an empty text is none.
type Value struct {
	Name string `json:"name"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// File is a file of the cluster part; Change is added, removed or changed.
type File struct {
	Path   string `json:"path"`
	Change string `json:"change"`
}

// Node is a node that differs.
type Node struct {
	Name string `json:"name"`
	// Change is added, removed or changed.
	Change string `json:"change"`
	// Roles, Identity, Services, Network and Other are what the node is told, Services with the settings of the services
	// that it runs before and after.
	Roles    []Value `json:"roles,omitempty"`
	Identity []Value `json:"identity,omitempty"`
	Services []Value `json:"services,omitempty"`
	Network  []Value `json:"network,omitempty"`
	Other    []Value `json:"other,omitempty"`
	// Files are those that the agent writes below /etc/cluster-config with other content.
	Files []string `json:"files,omitempty"`
}

// Diff compares the image with what would be written.
func (c *Change) Diff() (*Diff, error) {
	old := state{cluster: c.original.cluster, nodes: c.original.nodes, part: c.original.part}
	var fresh state
	var err error
	fresh.cluster, fresh.nodes = cluster.Facts(c.options.Config)
	if fresh.part, err = cluster.Compile(c.options.Config); err != nil {
		return nil, err
	}
	d := &Diff{Files: compareParts(old.part, fresh.part), Medium: c.medium()}
	if d.Cluster, err = compareClusters(old.cluster, fresh.cluster); err != nil {
		return nil, err
	}
	d.Nodes, err = compareNodes(&old, &fresh)
	return d, err
}

// state is one side of the comparison.
type state struct {
	cluster facts.Cluster
	nodes   []facts.Node
	part    map[string][]byte
}

func (s *state) node(name string) *facts.Node {
	for i := range s.nodes {
		if s.nodes[i].Name == name {
			return &s.nodes[i]
		}
	}
	return nil
}

// medium compares what the medium is made of.
func (c *Change) medium() []Value {
	o, m := c.original, c.media
	rootUUID, treeUUID := image.HashUUIDs(o.root.Hash)
	return []Value{
		{"root", o.root.Hash, o.root.Hash},
		{"root partition", rootUUID, rootUUID},
		{"verity partition", treeUUID, treeUUID},
		{"cluster part", o.clusterHash, m.ClusterHash},
		{"cluster partition", partUUID(o.clusterHash), partUUID(m.ClusterHash)},
		{"UKI", image.UKIPath(o.uki), image.UKIPath(m.UKI)},
		{"kernel arguments", arguments(o.cmdline), arguments(m.Cmdline())},
	}
}

// arguments is a kernel command line without the two hashes at its beginning.
func arguments(cmdline string) string {
	words := strings.Fields(cmdline)
	return strings.Join(words[min(2, len(words)):], " ")
}

func partUUID(hash string) string {
	uuid, _ := image.HashUUIDs(hash)
	return uuid
}

func compareParts(old, fresh map[string][]byte) []File {
	var out []File
	for _, name := range union(old, fresh) {
		was, had := old[name]
		is, has := fresh[name]
		switch {
		case !had:
			out = append(out, File{name, "added"})
		case !has:
			out = append(out, File{name, "removed"})
		case !bytes.Equal(was, is):
			out = append(out, File{name, "changed"})
		}
	}
	return out
}

// compareClusters compares what all nodes are told, but for the settings of services, which are the nodes'.
func compareClusters(old, fresh facts.Cluster) ([]Value, error) {
	old.Services, fresh.Services = facts.Cluster{}.Services, facts.Cluster{}.Services
	return compare(old, fresh)
}

func compareNodes(old, fresh *state) ([]Node, error) {
	names := map[string]bool{}
	for _, n := range slices.Concat(old.nodes, fresh.nodes) {
		names[n.Name] = true
	}
	var out []Node
	for _, name := range slices.Sorted(maps.Keys(names)) {
		n, err := compareNode(old, fresh, name)
		if err != nil {
			return nil, fmt.Errorf("compare node %s: %w", name, err)
		}
		if n != nil {
			out = append(out, *n)
		}
	}
	return out, nil
}

// compareNode returns nil for a node that stays as it is.
func compareNode(old, fresh *state, name string) (*Node, error) {
	was, is := old.node(name), fresh.node(name)
	out := &Node{Name: name, Change: "changed"}
	switch {
	case was == nil:
		out.Change, was = "added", &facts.Node{}
	case is == nil:
		out.Change, is = "removed", &facts.Node{}
	}
	values, err := compare(*was, *is)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		list := out.group(v.Name)
		*list = append(*list, v)
	}
	if out.Services, err = compareServices(old, fresh, was, is); err != nil {
		return nil, err
	}
	out.Files = compareFiles(old, fresh, was, is)
	if out.Change == "changed" && len(values) == 0 && len(out.Services) == 0 && len(out.Files) == 0 {
		return nil, nil
	}
	return out, nil
}

// group is the list that a field of facts.Node belongs to.
func (n *Node) group(field string) *[]Value {
	first, _, _ := strings.Cut(field, ".")
	first, _, _ = strings.Cut(first, "[")
	switch first {
	case "roles":
		return &n.Roles
	case "name", "hostname", "fqdn", "macs", "ips", "serial", "uuid":
		return &n.Identity
	case "interfaces":
		return &n.Network
	}
	return &n.Other
}

// compareServices compares the programs that a node runs and the settings of their services.
func compareServices(old, fresh *state, was, is *facts.Node) ([]Value, error) {
	out, err := compare(map[string]any{"programs": programs(&old.cluster, was)}, map[string]any{"programs": programs(&fresh.cluster, is)})
	if err != nil {
		return nil, err
	}
	before, err := settings(&old.cluster, was)
	if err != nil {
		return nil, err
	}
	after, err := settings(&fresh.cluster, is)
	if err != nil {
		return nil, err
	}
	// Of a service that comes or goes the programs tell enough.
	maps.DeleteFunc(before, func(service string, _ any) bool { return after[service] == nil })
	maps.DeleteFunc(after, func(service string, _ any) bool { return before[service] == nil })
	changed, err := compare(before, after)
	return append(out, changed...), err
}

func programs(c *facts.Cluster, n *facts.Node) []string {
	out := []string{}
	for _, p := range services.NodePrograms(c, n) {
		out = append(out, p.Name)
	}
	return out
}

// settings are those of the services of a node's roles, by service.
func settings(c *facts.Cluster, n *facts.Node) (map[string]any, error) {
	text, err := json.Marshal(c.Services)
	if err != nil {
		return nil, err
	}
	all, out := map[string]any{}, map[string]any{}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	for _, name := range n.Roles {
		if r, ok := services.Of(c).Lookup(name); ok && all[r.Service] != nil {
			out[r.Service] = all[r.Service]
		}
	}
	return out, nil
}

// compareFiles lists the files of a node whose content differs: the source that it is given, and its environment files.
func compareFiles(old, fresh *state, was, is *facts.Node) []string {
	before, after := nodeFiles(old, was), nodeFiles(fresh, is)
	var out []string
	for _, f := range compareParts(before, after) {
		out = append(out, path.Join(configDir, f.Path))
	}
	return out
}

// nodeFiles are a node's files below configDir.
func nodeFiles(s *state, n *facts.Node) map[string][]byte {
	out := map[string][]byte{}
	if n.Name == "" {
		return out
	}
	for name, data := range s.part {
		if name == "cluster.yaml" || path.Dir(name) == "services" || name == "nodes/"+n.Name+".yaml" {
			out[name] = data
		}
	}
	for name, data := range services.Environment(&s.cluster, n, 0) {
		out[path.Join("environment", name)] = data
	}
	return out
}

// compare compares two values by their JSON, down to the lists of scalars, sorted by name.
func compare(old, fresh any) ([]Value, error) {
	before, err := flatten(old)
	if err != nil {
		return nil, err
	}
	after, err := flatten(fresh)
	if err != nil {
		return nil, err
	}
	var out []Value
	for _, name := range union(before, after) {
		if before[name] != after[name] {
			out = append(out, Value{name, before[name], after[name]})
		}
	}
	return out, nil
}

// flatten names every scalar and every list of scalars: interfaces[0].mac, roles.
func flatten(v any) (map[string]string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	out := map[string]string{}
	flattenInto(out, "", tree)
	return out, nil
}

func flattenInto(out map[string]string, name string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			flattenInto(out, strings.TrimPrefix(name+"."+key, "."), value)
		}
	case []any:
		if !slices.ContainsFunc(v, isTree) {
			words := make([]string, len(v))
			for i := range v {
				words[i] = fmt.Sprint(v[i])
			}
			out[name] = strings.Join(words, ", ")
			return
		}
		for i, value := range v {
			flattenInto(out, fmt.Sprintf("%s[%d]", name, i), value)
		}
	case nil:
	default:
		out[name] = fmt.Sprint(v)
	}
}

func isTree(v any) bool {
	k := reflect.ValueOf(v).Kind()
	return k == reflect.Map || k == reflect.Slice
}

func union[V any](a, b map[string]V) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	return slices.Compact(names)
}
