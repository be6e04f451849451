package kubernetes

import (
	"maps"
	"path"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/form"
)

var (
	labelName  = form.New(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	labelValue = form.New(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
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
func checkScheduling(k *check.Checker, node int, file check.NodeFile) {
	f := file.Content
	for _, key := range slices.Sorted(maps.Keys(f.Labels)) {
		p := check.In(file, "labels", key)
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
		p := check.In(file, "taints", i)
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
	if (len(f.Labels) > 0 || len(f.Taints) > 0) && !inKubernetes(k, node) {
		key := "labels"
		if len(f.Labels) == 0 {
			key = "taints"
		}
		k.Warningf(check.In(file, key), "labels and taints are for Kubernetes, and node %s has no role of it; remove them or add the role worker", k.NodeName(node))
	}
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
