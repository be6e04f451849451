package kubernetes

import (
	"net/netip"

	"spore/cluster/facts"
	"spore/services/service"
)

// ServiceAccountAuthority signs the tokens of service accounts.
const ServiceAccountAuthority = "service-account"

// Whose nodes have what follows.
var (
	masters = []string{master}
	nodes   = []string{master, worker}
)

var authorities = []service.AuthorityRow{
	{Name: "etcd", Kind: service.CA, Title: "Spore etcd CA", Users: masters, Usage: service.Server | service.Client},
	{Name: "etcd-client", Kind: service.CA, Title: "Spore etcd client CA", Users: masters, Usage: service.Client},
	{Name: "kubernetes-server", Kind: service.CA, Title: "Spore Kubernetes server CA", Usage: service.Server},
	// The controller-manager signs the client certificates that kubelets ask for.
	{Name: "kubernetes-client", Kind: service.CA, Title: "Spore Kubernetes client CA", Usage: service.Client},
	// And their serving certificates.
	{Name: "kubelet-serving", Kind: service.CA, Title: "Spore kubelet serving CA", Usage: service.Server},
	{Name: "front-proxy", Kind: service.CA, Title: "Spore front proxy CA", Users: masters, Usage: service.Client},
	{Name: ServiceAccountAuthority, Kind: service.KeyPair, Users: masters, Issuers: masters, Key: "service-account-key"},
}

// apiNames is how pods, nodes and people call the Kubernetes API (kubernetes.io, "PKI certificates and requirements").
var apiNames = append([]string{
	"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.{service-domain}",
	"{endpoint}", "{service-ips}", "{aliases}",
}, service.OwnNames...)

var leaves = []service.LeafRow{
	{Name: "etcd-server", Authority: "etcd", Roles: masters, CommonName: "{node}", SANs: service.OwnNames, Usage: service.Server},
	{Name: "etcd-peer", Authority: "etcd", Roles: masters, CommonName: "{node}", SANs: service.HostNames, Usage: service.Server | service.Client},
	// Kubernetes' API server reaches etcd by a socket now. That of an older image, to which a machine may fall back,
	// shows this.
	{Name: "etcd-apiserver", Authority: "etcd-client", Roles: masters, CommonName: "kube-apiserver-etcd-client", Usage: service.Client},
	{Name: "etcd-agent", Authority: "etcd-client", Roles: masters, CommonName: "spore-agent-etcd-client", Usage: service.Client},

	{Name: "kube-apiserver", Authority: "kubernetes-server", Roles: masters, CommonName: "kube-apiserver", SANs: apiNames, Usage: service.Server},
	{Name: "kube-controller-manager-server", Authority: "kubernetes-server", Roles: masters, CommonName: "kube-controller-manager", SANs: service.OwnNames, Usage: service.Server},
	{Name: "kube-scheduler-server", Authority: "kubernetes-server", Roles: masters, CommonName: "kube-scheduler", SANs: service.OwnNames, Usage: service.Server},

	{Name: "kube-controller-manager", Authority: "kubernetes-client", Roles: masters, CommonName: "system:kube-controller-manager", Usage: service.Client},
	{Name: "kube-scheduler", Authority: "kubernetes-client", Roles: masters, CommonName: "system:kube-scheduler", Usage: service.Client},
	{Name: "kube-apiserver-kubelet", Authority: "kubernetes-client", Roles: masters, CommonName: "kube-apiserver-kubelet-client", Organization: []string{"spore:kubelet-api-admins"}, Usage: service.Client},
	// Makes the first roles and bindings, so no binding can give it its rights.
	{Name: "kubernetes-agent", Authority: "kubernetes-client", Roles: masters, CommonName: "spore:agent:{node}", Organization: []string{"system:masters"}, Usage: service.Client},
	{Name: "kubernetes-admin", Authority: "kubernetes-client", Roles: []string{service.OperatorOnly}, CommonName: "kubernetes-admin", Organization: []string{"system:masters"}, Usage: service.Client, Made: service.ForPerson},
	{Name: "kube-proxy", Authority: "kubernetes-client", Roles: nodes, CommonName: "system:kube-proxy", Usage: service.Client},
	// With a name for each node, by which the API server lets them write of no other node.
	{Name: "calico-node", Authority: "kubernetes-client", Roles: nodes, CommonName: "calico-node:{node}", Organization: []string{"spore:calico-nodes"}, Usage: service.Client},
	{Name: "calico-cni", Authority: "kubernetes-client", Roles: nodes, CommonName: "calico-cni:{node}", Organization: []string{"spore:calico-plugins"}, Usage: service.Client},
	{Name: "calico-controllers", Authority: "kubernetes-client", Roles: masters, CommonName: "calico-controllers:{node}", Organization: []string{"spore:calico-controllers"}, Usage: service.Client},
	{Name: "cluster-dns", Authority: "kubernetes-client", Roles: masters, CommonName: "spore:cluster-dns", Usage: service.Client},
	{Name: "rbd-provisioner", Authority: "kubernetes-client", Roles: masters, With: "ceph", CommonName: "spore:rbd-provisioner:{node}", Organization: []string{"spore:rbd-provisioners"}, Usage: service.Client},
	// May ask for the kubelet's certificate of its own node and do nothing else.
	{Name: "kubelet-bootstrap", Authority: "kubernetes-client", Roles: nodes, CommonName: "spore:kubelet-bootstrap:{node}", Organization: []string{"system:bootstrappers"}, Usage: service.Client},
	{Name: "kubelet-client", Authority: "kubernetes-client", Roles: nodes, CommonName: "system:node:{node}", Organization: []string{"system:nodes"}, Usage: service.Client, Made: service.OnNode},
	{Name: "kubelet-serving", Authority: "kubelet-serving", Roles: nodes, CommonName: "system:node:{node}", Organization: []string{"system:nodes"}, SANs: service.HostNames, Usage: service.Server, Made: service.OnNode},
	{Name: "front-proxy-client", Authority: "front-proxy", Roles: masters, CommonName: "front-proxy-client", Usage: service.Client},
}

var secrets = []service.SecretRow{
	{Name: "etcd-encryption-key", Roles: masters, Form: service.FormKey},
	// Opens the snapshots of etcd. The operator's folder has it as well, for those that were brought away.
	{Name: "etcd-snapshot-key", Roles: masters, Form: service.FormAge},
}

// words are of addresses and names by which the API and Services are reached: {endpoint} is the virtual address of the
// API, where there is one, {service-ips} the first address of each service network, which the API answers on, and
// {service-domain} the DNS domain of Services.
var words = map[string]service.Word{
	"{endpoint}":    func(c *facts.Cluster, _ *facts.Node) []string { return []string{c.Network.ControlPlaneEndpoint} },
	"{service-ips}": func(c *facts.Cluster, _ *facts.Node) []string { return serviceIPs(c.Network.ServiceCIDRs) },
	"{service-domain}": func(c *facts.Cluster, _ *facts.Node) []string {
		return []string{Of(c.Services).ServiceDomain()}
	},
}

func serviceIPs(cidrs []string) []string {
	var out []string
	for _, s := range cidrs {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p.Masked().Addr().Next().String())
		}
	}
	return out
}
