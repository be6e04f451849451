package pki

import (
	"spore/services"
	"spore/services/service"
)

// Names of the authorities that the code asks for.
const (
	RootName           = "root"
	SigningName        = "signing"
	ServiceAccountName = "service-account"
)

// Authorities is the table of what signs, the root first: what every cluster has, and the rows of the services. Whoever
// verifies trusts the one authority for its purpose and not the root: an MQTT certificate is no key to etcd.
//
// Masters hold the keys of all but the root, which stays with the operator: they issue certificates that ran out while
// nobody brought new bundles. (signing is no CA: with its key a master could write bundles for others.)
func Authorities() []service.AuthorityRow {
	master := []string{"control-plane"}
	rows := []service.AuthorityRow{
		{Name: RootName, Kind: service.CA, Title: "Spore root CA"},
		{Name: SigningName, Kind: service.Signer}, // signs the bundles
		{Name: "agent", Kind: service.CA, Title: "Spore node agent CA", Usage: service.Server | service.Client},
		{Name: "etcd", Kind: service.CA, Title: "Spore etcd CA", Service: "kubernetes", Users: master, Usage: service.Server | service.Client},
		{Name: "etcd-client", Kind: service.CA, Title: "Spore etcd client CA", Service: "kubernetes", Users: master, Usage: service.Client},
		{Name: "kubernetes-server", Kind: service.CA, Title: "Spore Kubernetes server CA", Service: "kubernetes", Usage: service.Server},
		// The controller-manager signs the client certificates that kubelets ask for.
		{Name: "kubernetes-client", Kind: service.CA, Title: "Spore Kubernetes client CA", Service: "kubernetes", Usage: service.Client},
		// And their serving certificates.
		{Name: "kubelet-serving", Kind: service.CA, Title: "Spore kubelet serving CA", Service: "kubernetes", Usage: service.Server},
		{Name: "front-proxy", Kind: service.CA, Title: "Spore front proxy CA", Service: "kubernetes", Users: master, Usage: service.Client},
		{Name: ServiceAccountName, Kind: service.KeyPair, Service: "kubernetes", Users: master, Issuers: master, Key: "service-account-key"},
	}
	for _, s := range services.All() {
		for _, r := range s.Authorities {
			r.Service = s.Name
			rows = append(rows, r)
		}
	}
	for i := range rows {
		if r := &rows[i]; r.Kind == service.CA && r.Name != RootName {
			r.Issuers, r.Key = master, r.Name+"-ca-key"
		}
	}
	return rows
}

// apiNames is how pods, nodes and people call the Kubernetes API (kubernetes.io, "PKI certificates and requirements").
var apiNames = append([]string{
	"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.{service-domain}",
	"{endpoint}", "{service-ips}", "{aliases}",
}, service.OwnNames...)

// Leaves is the table of end-entity certificates, with the rows of the services.
func Leaves() []service.LeafRow {
	master, kube := []string{"control-plane"}, []string{"control-plane", "worker"}
	every, operator := []string{service.EveryNode}, []string{service.OperatorOnly}
	rows := []service.LeafRow{
		{Name: "agent", Authority: "agent", Roles: every, CommonName: "{node}", Organization: []string{"spore:nodes"}, SANs: service.HostNames, Usage: service.Server | service.Client},
		// Of the operator's people, for the nodes' API (package nodeapi): who may change nodes, and who may look.
		{Name: "node-admin", Authority: "agent", Roles: operator, CommonName: "node-admin", Organization: []string{"spore:admin"}, Usage: service.Client},
		{Name: "node-reader", Authority: "agent", Roles: operator, CommonName: "node-reader", Organization: []string{"spore:reader"}, Usage: service.Client},

		{Name: "etcd-server", Authority: "etcd", Roles: master, CommonName: "{node}", SANs: service.OwnNames, Usage: service.Server},
		{Name: "etcd-peer", Authority: "etcd", Roles: master, CommonName: "{node}", SANs: service.HostNames, Usage: service.Server | service.Client},
		// Kubernetes' API server reaches etcd by a socket now. That of an older image, to which a machine may fall back,
		// shows this.
		{Name: "etcd-apiserver", Authority: "etcd-client", Roles: master, CommonName: "kube-apiserver-etcd-client", Usage: service.Client},
		{Name: "etcd-agent", Authority: "etcd-client", Roles: master, CommonName: "spore-agent-etcd-client", Usage: service.Client},

		{Name: "kube-apiserver", Authority: "kubernetes-server", Roles: master, CommonName: "kube-apiserver", SANs: apiNames, Usage: service.Server},
		{Name: "kube-controller-manager-server", Authority: "kubernetes-server", Roles: master, CommonName: "kube-controller-manager", SANs: service.OwnNames, Usage: service.Server},
		{Name: "kube-scheduler-server", Authority: "kubernetes-server", Roles: master, CommonName: "kube-scheduler", SANs: service.OwnNames, Usage: service.Server},

		{Name: "kube-controller-manager", Authority: "kubernetes-client", Roles: master, CommonName: "system:kube-controller-manager", Usage: service.Client},
		{Name: "kube-scheduler", Authority: "kubernetes-client", Roles: master, CommonName: "system:kube-scheduler", Usage: service.Client},
		{Name: "kube-apiserver-kubelet", Authority: "kubernetes-client", Roles: master, CommonName: "kube-apiserver-kubelet-client", Organization: []string{"spore:kubelet-api-admins"}, Usage: service.Client},
		// Makes the first roles and bindings, so no binding can give it its rights.
		{Name: "kubernetes-agent", Authority: "kubernetes-client", Roles: master, CommonName: "spore:agent:{node}", Organization: []string{"system:masters"}, Usage: service.Client},
		{Name: "kubernetes-admin", Authority: "kubernetes-client", Roles: operator, CommonName: "kubernetes-admin", Organization: []string{"system:masters"}, Usage: service.Client},
		{Name: "kube-proxy", Authority: "kubernetes-client", Roles: kube, CommonName: "system:kube-proxy", Usage: service.Client},
		// With a name for each node, by which the API server lets them write of no other node.
		{Name: "calico-node", Authority: "kubernetes-client", Roles: kube, CommonName: "calico-node:{node}", Organization: []string{"spore:calico-nodes"}, Usage: service.Client},
		{Name: "calico-cni", Authority: "kubernetes-client", Roles: kube, CommonName: "calico-cni:{node}", Organization: []string{"spore:calico-plugins"}, Usage: service.Client},
		{Name: "calico-controllers", Authority: "kubernetes-client", Roles: master, CommonName: "calico-controllers:{node}", Organization: []string{"spore:calico-controllers"}, Usage: service.Client},
		{Name: "cluster-dns", Authority: "kubernetes-client", Roles: master, CommonName: "spore:cluster-dns", Usage: service.Client},
		{Name: "rbd-provisioner", Authority: "kubernetes-client", Roles: master, With: "ceph", CommonName: "spore:rbd-provisioner:{node}", Organization: []string{"spore:rbd-provisioners"}, Usage: service.Client},
		// May ask for the kubelet's certificate of its own node and do nothing else.
		{Name: "kubelet-bootstrap", Authority: "kubernetes-client", Roles: kube, CommonName: "spore:kubelet-bootstrap:{node}", Organization: []string{"system:bootstrappers"}, Usage: service.Client},
		{Name: "kubelet-client", Authority: "kubernetes-client", Roles: kube, CommonName: "system:node:{node}", Organization: []string{"system:nodes"}, Usage: service.Client, Made: service.OnNode},
		{Name: "kubelet-serving", Authority: "kubelet-serving", Roles: kube, CommonName: "system:node:{node}", Organization: []string{"system:nodes"}, SANs: service.HostNames, Usage: service.Server, Made: service.OnNode},
		{Name: "front-proxy-client", Authority: "front-proxy", Roles: master, CommonName: "front-proxy-client", Usage: service.Client},
	}
	for _, s := range services.All() {
		rows = append(rows, s.Leaves...)
	}
	for i := range rows {
		r := &rows[i]
		if r.Made == "" {
			r.Made = service.Operator
		}
		if r.Made == service.Operator && r.Certificate == "" {
			r.Certificate, r.Key = r.Name+"-certificate", r.Name+"-key"
		}
	}
	return rows
}

// Secrets is the table of secrets that are no certificates, with the rows of the services.
func Secrets() []service.SecretRow {
	rows := []service.SecretRow{
		{Name: "state-recovery-key", Roles: []string{service.EveryNode}, Each: service.OneNode, Form: service.FormRecovery},
		{Name: "etcd-encryption-key", Service: "kubernetes", Roles: []string{"control-plane"}, Form: service.FormKey},
		// Opens the snapshots of etcd. The operator's folder has it as well, for those that were brought away.
		{Name: "etcd-snapshot-key", Service: "kubernetes", Roles: []string{"control-plane"}, Form: service.FormAge},
	}
	for _, s := range services.All() {
		for _, r := range s.Secrets {
			r.Service = s.Name
			rows = append(rows, r)
		}
	}
	for i := range rows {
		r := &rows[i]
		if r.Each == "" {
			r.Each = service.OneCluster
		}
		if r.Entry == "" {
			r.Entry = r.Name
		}
	}
	return rows
}
