package kubeapi

import (
	"fmt"
	"net/netip"
	"strconv"

	"spore/cluster/facts"
)

// dnsPort is where cluster-dns listens on each master; the Service leads port 53 there.
const dnsPort = 10053

// dnsAddress is the place of the DNS Service among the addresses of Services.
const dnsAddress = 10

// applied is an object with what becomes of fields that others have set.
type applied struct {
	object Object
	// theirs leaves fields that others have set as they are.
	theirs bool
}

// objects are what a cluster has before its first pod, in the order in which they are applied. What needs Calico's
// kinds is in calicoObjects.
func objects(c *facts.Cluster) ([]applied, error) {
	service, err := dnsServiceObject(c)
	if err != nil {
		return nil, err
	}
	out := []applied{
		// Its pods are the administrator's; those of others get the level of kubernetes.yaml by kube-apiserver's own default.
		{object: namespace("kube-system", "privileged")},
		{object: namespace("kube-public", "restricted")},
		{object: namespace("kube-node-lease", "restricted")},

		{object: binding("spore:kubelet-api-admins", "system:kubelet-api-admin", "Group", "spore:kubelet-api-admins")},

		{object: ownNodePolicy()}, {object: ownNodeBinding()},
		{object: role("spore:calico-node", calicoNodeRules())}, {object: binding("spore:calico-node", "spore:calico-node", "Group", calicoNodeGroup)},
		{object: role("spore:calico-cni", calicoCNIRules())}, {object: binding("spore:calico-cni", "spore:calico-cni", "Group", calicoPluginGroup)},
		{object: role("spore:calico-controllers", calicoControllersRules())}, {object: binding("spore:calico-controllers", "spore:calico-controllers", "Group", calicoControllersGroup)},
		{object: role("spore:cluster-dns", dnsRules())}, {object: binding("spore:cluster-dns", "spore:cluster-dns", "User", "spore:cluster-dns")},

		{object: service},
		{object: Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": taintsName, "namespace": "kube-system"}}},
		// Another default that a person chooses is left alone.
		{object: storageClass(!provisions(c)), theirs: true},
	}
	out = append(out, peopleBindings()...)
	out = append(out, lookObjects()...)
	if provisions(c) || shares(c) {
		out = append(out, volumeObjects(c)...)
	}
	return out, nil
}

// kubeletsMayAsk lets a kubelet with the certificate of its bundle ask for one of its own. Approving is Known.Decide's
// alone: no role lets kube-controller-manager do it. kubernetes-api.service of every node waits for this right.
func kubeletsMayAsk() applied {
	return applied{object: binding("spore:kubelet-bootstrap", "system:node-bootstrapper", "Group", bootstrapGroup)}
}

// Objects are all that the daemon applies for a cluster, without the definitions of Calico's kinds and the nodes' own.
func Objects(c *facts.Cluster) ([]Object, error) {
	list, err := objects(c)
	if err != nil {
		return nil, err
	}
	settings, err := calicoObjects(c)
	if err != nil {
		return nil, err
	}
	var out []Object
	for _, a := range append(append(list, settings...), kubeletsMayAsk()) {
		out = append(out, a.object)
	}
	return out, nil
}

func namespace(name, podSecurity string) Object {
	return Object{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": name, "labels": map[string]any{"pod-security.kubernetes.io/enforce": podSecurity},
	}}
}

const rbac = "rbac.authorization.k8s.io"

func role(name string, rules []any) Object {
	return Object{"apiVersion": rbac + "/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": name}, "rules": rules}
}

func binding(name, role, kind, subject string) Object {
	return Object{
		"apiVersion": rbac + "/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": name},
		"roleRef":  map[string]any{"apiGroup": rbac, "kind": "ClusterRole", "name": role},
		"subjects": []any{map[string]any{"apiGroup": rbac, "kind": kind, "name": subject}},
	}
}

func rule(group string, resources []string, verbs ...string) any {
	return map[string]any{"apiGroups": []string{group}, "resources": resources, "verbs": verbs}
}

const calicoGroup = "crd.projectcalico.org"

// Calico's programs are calico-node:NODE, calico-cni:NODE and calico-controllers:NODE, of these groups (package pki).
const (
	calicoNodeGroup        = "spore:calico-nodes"
	calicoPluginGroup      = "spore:calico-plugins"
	calicoControllersGroup = "spore:calico-controllers"
)

// ownNode names the policy by which Calico's programs write of their own node alone. Roles cannot say that, and
// NodeRestriction says it of kubelets only.
const ownNode = "spore-calico-own-node"

func ownNodePolicy() Object {
	return Object{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": map[string]any{"name": ownNode},
		"spec": map[string]any{
			"failurePolicy": "Fail",
			"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
				"apiGroups": []string{""}, "apiVersions": []string{"v1"}, "operations": []string{"UPDATE"}, "resources": []string{"nodes/status", "pods/status"},
			}}},
			"matchConditions": []any{map[string]any{
				"name": "calico", "expression": "['" + calicoNodeGroup + "', '" + calicoPluginGroup + "'].exists(g, g in request.userInfo.groups)",
			}},
			"validations": []any{map[string]any{
				"expression": "request.userInfo.username == (request.resource.resource == 'nodes' ? 'calico-node:' + object.metadata.name : 'calico-cni:' + oldObject.spec.?nodeName.orValue(''))",
				"message":    "the network programs of a node write of this node and its pods alone",
			}},
		},
	}
}

func ownNodeBinding() Object {
	return Object{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": map[string]any{"name": ownNode},
		"spec": map[string]any{"policyName": ownNode, "validationActions": []string{"Deny"}},
	}
}

// calicoNodeRules are upstream's for Calico v3.31 on this datastore (charts/calico, calico-node-rbac.yaml), without
// those for what is not done here: pools and BGP are not made by nodes, the plugin has no service account, and nothing
// is migrated.
func calicoNodeRules() []any {
	return []any{
		rule("", []string{"pods", "nodes", "namespaces", "serviceaccounts"}, "get", "list", "watch"),
		rule("", []string{"services", "endpoints"}, "get", "list", "watch"),
		rule("discovery.k8s.io", []string{"endpointslices"}, "list", "watch"),
		rule("networking.k8s.io", []string{"networkpolicies"}, "list", "watch"),
		rule("policy.networking.k8s.io", []string{"adminnetworkpolicies", "baselineadminnetworkpolicies"}, "list", "watch"),
		// It keeps the addresses of the node and its tunnel in annotations.
		rule("", []string{"nodes/status"}, "patch", "update"),
		rule(calicoGroup, []string{
			"bgpconfigurations", "bgpfilters", "bgppeers", "blockaffinities", "caliconodestatuses", "clusterinformations", "felixconfigurations",
			"globalbgpconfigs", "globalfelixconfigs", // of Calico v2, which start-up looks for
			"globalnetworkpolicies", "globalnetworksets", "hostendpoints", "ipamblocks", "ippools", "ipreservations", "networkpolicies",
			"networksets", "stagedglobalnetworkpolicies", "stagedkubernetesnetworkpolicies", "stagednetworkpolicies", "tiers",
		}, "get", "list", "watch"),
		rule(calicoGroup, []string{"tiers"}, "create"),
		rule(calicoGroup, []string{"clusterinformations", "felixconfigurations"}, "create", "update"),
		rule(calicoGroup, []string{"caliconodestatuses"}, "update"),
		// The address of the tunnel.
		rule(calicoGroup, []string{"blockaffinities", "ipamblocks", "ipamhandles"}, "get", "list", "create", "update", "delete"),
		rule(calicoGroup, []string{"ipamconfigs"}, "get", "create"),
	}
}

// calicoCNIRules are upstream's for the plugin, with no more than reading of what it does not allocate.
func calicoCNIRules() []any {
	return []any{
		rule("", []string{"pods", "nodes", "namespaces"}, "get"),
		rule("", []string{"pods/status"}, "patch"),
		rule(calicoGroup, []string{"blockaffinities", "ipamblocks", "ipamhandles"}, "get", "list", "create", "update", "delete"),
		rule(calicoGroup, []string{"clusterinformations", "ippools", "ipreservations"}, "get", "list"),
		rule(calicoGroup, []string{"ipamconfigs"}, "get", "list", "create"),
	}
}

// calicoControllersRules are those of upstream's (charts/calico, calico-kube-controllers-rbac.yaml) that the collection
// of addresses uses: it makes none of what it takes back, and the rest is for controllers that are not run.
func calicoControllersRules() []any {
	return []any{
		rule("", []string{"nodes", "pods"}, "get", "list", "watch"),
		rule(calicoGroup, []string{"clusterinformations", "hostendpoints", "ippools"}, "list", "watch"),
		rule(calicoGroup, []string{"ipamblocks"}, "get", "list", "watch", "update", "delete"),
		rule(calicoGroup, []string{"blockaffinities"}, "get", "list", "update", "delete"),
		rule(calicoGroup, []string{"ipamhandles"}, "get", "update", "delete"),
	}
}

// dnsRules are those of CoreDNS's plugin kubernetes.
func dnsRules() []any {
	return []any{
		rule("", []string{"services", "pods", "namespaces"}, "list", "watch"),
		rule("discovery.k8s.io", []string{"endpointslices"}, "list", "watch"),
	}
}

// dnsServiceObject is the Service that kubelets name to their pods. It has no selector: its servers are no pods.
func dnsServiceObject(c *facts.Cluster) (Object, error) {
	if len(c.Network.ServiceCIDRs) == 0 {
		return nil, fmt.Errorf("the cluster has no serviceCIDRs; add them to cluster.yaml")
	}
	p, err := netip.ParsePrefix(c.Network.ServiceCIDRs[0])
	if err != nil {
		return nil, fmt.Errorf("serviceCIDRs: %w", err)
	}
	a := p.Masked().Addr()
	for range dnsAddress {
		a = a.Next()
	}
	if !p.Contains(a) {
		return nil, fmt.Errorf("serviceCIDRs: %s has no address %d; make it larger", p, dnsAddress)
	}
	port := func(name, protocol string) any {
		return map[string]any{"name": name, "protocol": protocol, "port": 53, "targetPort": dnsPort}
	}
	return Object{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": "kube-dns", "namespace": "kube-system", "labels": map[string]any{
			"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS",
		}},
		"spec": map[string]any{
			"type": "ClusterIP", "clusterIP": a.String(), "clusterIPs": []string{a.String()},
			"ports": []any{port("dns", "UDP"), port("dns-tcp", "TCP")},
		},
	}, nil
}

// server is a master's cluster-dns.
type server struct {
	node  string
	addr  netip.Addr
	ready bool
}

// dnsServers are the masters whose address is of the family of the DNS Service.
func dnsServers(c *facts.Cluster, nodes []facts.Node) []server {
	v6 := false
	if len(c.Network.ServiceCIDRs) > 0 {
		if p, err := netip.ParsePrefix(c.Network.ServiceCIDRs[0]); err == nil {
			v6 = p.Addr().Is6()
		}
	}
	var out []server
	for _, n := range nodes {
		if !hasRole(n, "control-plane") || len(n.IPs) == 0 {
			continue
		}
		// cluster-dns listens on the first address alone.
		if a, err := netip.ParseAddr(n.IPs[0]); err == nil && a.Unmap().Is6() == v6 {
			out = append(out, server{node: n.Name, addr: a.Unmap()})
		}
	}
	return out
}

func hasRole(n facts.Node, role string) bool {
	for _, r := range n.Roles {
		if r == role {
			return true
		}
	}
	return false
}

// dnsSlice is where the DNS Service leads to. When no node is known to be ready all servers are tried: they need no
// kubelet.
func dnsSlice(servers []server) Object {
	some := false
	family := "IPv4"
	for _, s := range servers {
		some = some || s.ready
		if s.addr.Is6() {
			family = "IPv6"
		}
	}
	endpoints := []any{}
	for _, s := range servers {
		ready := s.ready || !some
		endpoints = append(endpoints, map[string]any{
			"addresses": []string{s.addr.String()}, "nodeName": s.node,
			"conditions": map[string]any{"ready": ready, "serving": ready, "terminating": false},
		})
	}
	port := func(name, protocol string) any {
		return map[string]any{"name": name, "protocol": protocol, "port": dnsPort}
	}
	return Object{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
		"metadata": map[string]any{"name": "kube-dns-masters", "namespace": "kube-system", "labels": map[string]any{
			"kubernetes.io/service-name": "kube-dns", "endpointslice.kubernetes.io/managed-by": "spore-agent",
		}},
		"addressType": family, "endpoints": endpoints, "ports": []any{port("dns", "UDP"), port("dns-tcp", "TCP")},
	}
}

// storageClass is for volumes that a person has made on the disks of nodes, which nothing makes by itself. It is the
// default for claims that name none where Ceph makes no volumes.
func storageClass(usual bool) Object {
	return Object{
		"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
		"metadata":    map[string]any{"name": "local", "annotations": map[string]any{defaultClass: strconv.FormatBool(usual)}},
		"provisioner": "kubernetes.io/no-provisioner", "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer",
	}
}

// calicoObjects are the pools that pods get their addresses from, by VXLAN, and Calico's settings for all nodes.
func calicoObjects(c *facts.Cluster) ([]applied, error) {
	out := []applied{{object: Object{
		"apiVersion": calicoGroup + "/v1", "kind": "FelixConfiguration", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{"vxlanPort": 4789, "vxlanVNI": 4096, "reportingInterval": "0s"},
	}}}
	for _, s := range c.Network.PodCIDRs {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("podCIDRs: %w", err)
		}
		name, block := "default-ipv4-ippool", 26
		if p.Addr().Is6() {
			name, block = "default-ipv6-ippool", 122
		}
		out = append(out, applied{object: Object{
			"apiVersion": calicoGroup + "/v1", "kind": "IPPool", "metadata": map[string]any{"name": name},
			"spec": map[string]any{
				"cidr": p.Masked().String(), "blockSize": max(block, p.Bits()), "vxlanMode": "Always", "ipipMode": "Never", "natOutgoing": true,
				"nodeSelector": "all()", "allowedUses": []string{"Workload", "Tunnel"},
			},
		}})
	}
	return out, nil
}
