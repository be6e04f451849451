package cluster

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/spec"
	"spore/services"
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
		for _, s := range services.All() {
			if s.NodeFile != nil {
				s.NodeFile(k.Checker, node, k.NodeFiles[f.Node])
			}
		}
		k.checkScheduling(src, node, f)
		k.checkSysctl(src, f.Sysctl)
	}
}

// Label syntax of Kubernetes: concepts/overview/working-with-objects/labels, "Syntax and character set".
var (
	labelName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
)

// validLabelKey reports whether a key is NAME or DOMAIN/NAME.
func validLabelKey(key string) bool {
	prefix, name, ok := strings.Cut(key, "/")
	if !ok {
		return labelName.MatchString(prefix)
	}
	return check.IsDomain(prefix) && labelName.MatchString(name)
}

// kubeletLabels are the labels of its own namespaces that a kubelet may set on its node (--node-labels,
// kubernetes/enhancements KEP-279).
var kubeletLabels = []string{
	"kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/os",
	"beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type", "topology.kubernetes.io/region",
	"topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
}

// masterPrefixes are those that people give nodes and that no kubelet may set: the masters do.
var masterPrefixes = []string{"node-role.kubernetes.io", "node-restriction.kubernetes.io"}

// reserved reports whether a label belongs to Kubernetes and is nobody's to give.
func reserved(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	kubernetes := prefix == "kubernetes.io" || prefix == "k8s.io" || strings.HasSuffix(prefix, ".kubernetes.io") || strings.HasSuffix(prefix, ".k8s.io")
	own := prefix == "kubelet.kubernetes.io" || prefix == "node.kubernetes.io" ||
		strings.HasSuffix(prefix, ".kubelet.kubernetes.io") || strings.HasSuffix(prefix, ".node.kubernetes.io") ||
		slices.Contains(masterPrefixes, prefix) || strings.HasSuffix(prefix, ".node-restriction.kubernetes.io")
	return strings.Contains(key, "/") && kubernetes && !own && !slices.Contains(kubeletLabels, key)
}

var taintEffects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}

// checkScheduling checks labels and taints.
func (k *checker) checkScheduling(src *source, node int, f spec.NodeFile) {
	for _, key := range slices.Sorted(maps.Keys(f.Labels)) {
		p := check.In(src, "labels", key)
		switch {
		case !validLabelKey(key):
			k.Errorf(p, "the label key %q is not valid; write name or domain/name, where the name is 1 to 63 letters, digits, -, _ and .", check.Clip(key))
		case reserved(key):
			k.Errorf(p, "the label %q belongs to Kubernetes; use a domain of your own, such as %s/%s", check.Clip(key), check.Clip(k.Cluster.Domain), check.Clip(path.Base(key)))
		case !labelValue.MatchString(f.Labels[key]):
			k.Errorf(p, "the label value %q is not valid; write at most 63 letters, digits, -, _ and ., with a letter or digit at both ends", check.Clip(f.Labels[key]))
		}
	}
	seen := k.Unique()
	for i, taint := range f.Taints {
		p := check.In(src, "taints", i)
		rest, effect, ok := cutLast(taint, ":")
		key, value, _ := strings.Cut(rest, "=")
		if !ok || !validLabelKey(key) || !labelValue.MatchString(value) {
			k.Errorf(p, "the taint %q is not valid; write key=value:Effect or key:Effect, such as dedicated=storage:NoSchedule", check.Clip(taint))
			continue
		}
		if k.OneOf(p, "the taint effect", effect, taintEffects) {
			seen.Add(p, "the taint", key+":"+effect, "remove one")
		}
	}
	if (len(f.Labels) > 0 || len(f.Taints) > 0) && !k.inKubernetes(node) {
		key := "labels"
		if len(f.Labels) == 0 {
			key = "taints"
		}
		k.Warningf(check.In(src, key), "labels and taints are for Kubernetes, and node %s has no role of it; remove them or add the role worker", k.NodeName(node))
	}
}

func (k *checker) inKubernetes(node int) bool {
	for _, name := range k.Cluster.Nodes[node].Roles {
		if r, ok := services.Lookup(name); ok && r.Service == "kubernetes" {
			return true
		}
	}
	return false
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

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
