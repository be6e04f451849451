package manifests

import (
	"fmt"
	"slices"
	"strings"
)

// systemNamespaces are there in every cluster.
var systemNamespaces = []string{"default", "kube-node-lease", "kube-public", "kube-system"}

// named is an object, or all of a kind where it has no name. A name that ends in * is a beginning.
type named struct {
	group, kind, namespace, name string
	// instead says who makes it and what to do instead.
	instead string
}

const (
	bySpore  = "is applied by the masters themselves; choose another name"
	byServer = "is made by Kubernetes itself; choose another name"
	byItself = "is made by Kubernetes itself in each namespace; choose another name, and write that as " +
		"serviceAccountName of the pods"
	byPods   = bySpore + ": the addresses of pods are podCIDRs of cluster.yaml"
	byCalico = "is Calico's own bookkeeping; remove it"
)

// reservedObjects are what the masters apply besides, what Kubernetes makes by itself, and what is written down
// elsewhere. A test compares it with all that the masters apply (package services/kubernetes/kubeapi).
var reservedObjects = []named{
	{kind: "Node", instead: "is made by its kubelet; write labels and taints into nodes/NAME.yaml"},
	{group: "certificates.k8s.io", kind: "CertificateSigningRequest", instead: "is asked and decided once; remove it"},
	{kind: "Event", instead: "is told by programs; remove it"},
	{group: "events.k8s.io", kind: "Event", instead: "is told by programs; remove it"},
	{kind: "Namespace", name: "default", instead: byServer},
	{kind: "Namespace", name: "kube-*", instead: bySpore},

	{kind: "Service", namespace: "default", name: "kubernetes", instead: byServer},
	{kind: "Endpoints", namespace: "default", name: "kubernetes", instead: byServer},
	{group: "discovery.k8s.io", kind: "EndpointSlice", namespace: "default", name: "kubernetes", instead: byServer},
	{kind: "ServiceAccount", name: "default", instead: byItself},
	{kind: "ConfigMap", name: "kube-root-ca.crt", instead: byServer},
	{kind: "ConfigMap", namespace: "kube-system", name: "extension-apiserver-authentication", instead: byServer},
	{kind: "Service", namespace: "kube-system", name: "kube-dns", instead: bySpore},
	{
		group: "discovery.k8s.io", kind: "EndpointSlice", namespace: "kube-system", name: "kube-dns-masters",
		instead: bySpore,
	},

	{group: "storage.k8s.io", kind: "StorageClass", name: "local", instead: bySpore},
	{group: "storage.k8s.io", kind: "StorageClass", name: "ceph-rbd*", instead: bySpore},
	{group: "storage.k8s.io", kind: "StorageClass", name: "cephfs*", instead: bySpore},
	{group: "storage.k8s.io", kind: "CSIDriver", name: "rbd.csi.spore", instead: bySpore},
	{group: "storage.k8s.io", kind: "CSIDriver", name: "cephfs.csi.spore", instead: bySpore},

	{group: groupRBAC, kind: "ClusterRole", name: "cluster-admin", instead: byServer},
	{group: groupRBAC, kind: "ClusterRole", name: "admin", instead: byServer},
	{group: groupRBAC, kind: "ClusterRole", name: "edit", instead: byServer},
	{group: groupRBAC, kind: "ClusterRole", name: "view", instead: byServer},
	{group: groupRBAC, kind: "ClusterRoleBinding", name: "cluster-admin", instead: byServer},

	{group: groupCalico, kind: "FelixConfiguration", name: "default", instead: bySpore},
	{group: groupCalico, kind: "IPPool", name: "default-ipv4-ippool", instead: byPods},
	{group: groupCalico, kind: "IPPool", name: "default-ipv6-ippool", instead: byPods},
	{group: groupCalico, kind: "BlockAffinity", instead: byCalico},
	{group: groupCalico, kind: "CalicoNodeStatus", instead: byCalico},
	{group: groupCalico, kind: "ClusterInformation", instead: byCalico},
	{group: groupCalico, kind: "IPAMBlock", instead: byCalico},
	{group: groupCalico, kind: "IPAMConfig", instead: byCalico},
	{group: groupCalico, kind: "IPAMHandle", instead: byCalico},
}

func (n named) is(group, kind, namespace, name string) bool {
	if n.group != group || n.kind != kind || n.namespace != "" && n.namespace != namespace {
		return false
	}
	if begin, ok := strings.CutSuffix(n.name, "*"); ok {
		return strings.HasPrefix(name, begin)
	}
	return n.name == "" || n.name == name
}

// Reserved says why an object is not the folder's to have; empty when it is.
func Reserved(group, kind, namespace, name string) string {
	what := describe(group, kind, namespace, name)
	for _, n := range reservedObjects {
		if n.is(group, kind, namespace, name) {
			return what + " " + n.instead
		}
	}
	wide := namespace == "" && kind != "Namespace" || namespace == "kube-system"
	ours := strings.HasPrefix(name, "spore:") || strings.HasPrefix(name, "spore-") && wide
	switch _, of, _ := strings.Cut(name, "."); {
	case ours:
		return fmt.Sprintf("%s: names that begin with spore are the masters' own; choose another name",
			what)
	case strings.HasPrefix(name, "system:"):
		return fmt.Sprintf("%s: names that begin with system: are Kubernetes' own; choose another name",
			what)
	case namespace == "kube-node-lease":
		return fmt.Sprintf("%s: the namespace kube-node-lease is the kubelets'; choose another",
			what)
	case group == groupCRD && slices.Contains(groupsServed(), of):
		return fmt.Sprintf("%s: the kinds of %s are in every cluster; remove it",
			what, of)
	}
	return ""
}

// describe is how messages call an object.
func describe(group, kind, namespace, name string) string {
	if group != "" {
		kind += "." + group
	}
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + clip(name)
}
