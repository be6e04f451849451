package cluster

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"spore/cluster/check"
)

// checkNodeFiles checks nodes/*.yaml, each against its node in cluster.yaml.
func (k *checker) checkNodeFiles() {
	var names []string
	for _, n := range k.Cluster.Nodes {
		names = append(names, n.Name)
	}
	cards := k.interfaceMACs()
	for i, f := range k.c.NodeFiles {
		src := k.c.nodeFiles[i]
		if src.root == nil || f.Node == "" {
			continue
		}
		p := check.In(src)
		node, ok := k.byName[f.Node]
		switch first := k.files[f.Node]; {
		case !ok && len(names) > 0:
			k.Errorf(p.Then("node"), "cluster.yaml has no node %q%s", check.Clip(f.Node), orList(k.SuggestOf(f.Node, names), "nodes", names[:min(10, len(names))]))
			continue
		case !ok:
			continue
		case first != i:
			k.Errorf(p.Then("node"), "node %s has the file %s already; put everything about a node into one file", f.Node, k.c.nodeFiles[first].path)
			continue
		}
		if want := f.Node + ".yaml"; path.Base(src.path) != want {
			// The node and people look for it by this name: current-node.yaml is a link to it.
			k.Errorf(p.Then("node"), "this file is about node %s; rename it to nodes/%s, where the node looks for it", f.Node, want)
		}
		k.checkInterfaces(src, node, f.Interfaces, cards)
		k.checkDisks(src, node, f.Disks)
		k.checkState(src, f.State)
		for _, s := range k.list.All() {
			if s.NodeFile != nil {
				s.NodeFile(k.Checker, node, k.NodeFiles[f.Node])
			}
		}
		k.checkSysctl(src, f.Sysctl)
	}
}

// Label syntax of Kubernetes: concepts/overview/working-with-objects/labels, "Syntax and character set".
// sysctlName is a dotted path below /proc/sys (sysctl.d(5)); an interface name in it may hold a slash for a dot.
var sysctlName = regexp.MustCompile(`^[a-z0-9_]+(\.[A-Za-z0-9_/@:-]+)+$`)

// sysctlTrees are the directories of /proc/sys (Documentation/admin-guide/sysctl).
var sysctlTrees = []string{"abi", "debug", "dev", "fs", "kernel", "net", "sunrpc", "user", "vm"}

func (k *checker) checkSysctl(src *source, values map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		p := check.In(src, "sysctl", name)
		if !sysctlName.MatchString(name) {
			k.Errorf(p, "the kernel parameter %q is not a dotted name; write it as under /proc/sys with dots, such as net.core.somaxconn", check.Clip(name))
			continue
		}
		tree, _, _ := strings.Cut(name, ".")
		if !k.OneOf(p, "the kernel parameter's first part", tree, sysctlTrees) {
			continue
		}
		if v := values[name]; strings.TrimSpace(v) == "" || strings.ContainsAny(v, "\n\r") || len(v) > 1024 {
			k.Errorf(p, "the kernel parameter %s needs a value in one line", name)
		}
	}
}
