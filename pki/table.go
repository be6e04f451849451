package pki

import "spore/pki/cephx"

// Usage is what a certificate may be used for (RFC 5280, section 4.2.1.12); the bits add up.
type Usage uint8

// Usages.
const (
	Server Usage = 1 << iota // id-kp-serverAuth
	Client                   // id-kp-clientAuth
)

// Kind is what an authority is.
type Kind string

// Kinds of authorities.
const (
	CA      Kind = "CA"      // ECDSA P-256 key with a CA certificate
	KeyPair Kind = "ECDSA"   // ECDSA P-256 key without a certificate
	Signer  Kind = "Ed25519" // Ed25519 key without a certificate
)

// Place is where a key is made.
type Place string

// Places.
const (
	// Operator makes the key in the operator's folder; it travels in the bundle.
	Operator Place = "operator"
	// OnNode makes the key on the node, which asks the authority for the certificate; no bundle ever holds it.
	OnNode Place = "node"
)

// What stands in the place of a role.
const (
	EveryNode    = "every node"    // whatever its roles are
	OperatorOnly = "operator only" // no node; it stays in the operator's folder
)

// Names of the authorities that the code asks for.
const (
	RootName           = "root"
	SigningName        = "signing"
	ServiceAccountName = "service-account"
)

// AuthorityRow is one row of what signs.
type AuthorityRow struct {
	// Name names it in commands and files.
	Name string
	Kind Kind
	// Title is the common name; generation 2 and later add their number.
	Title string
	// Service is the service that needs it; empty means every cluster does.
	Service string
	// Usage bounds what its certificates may be used for; 0 means no bound.
	Usage Usage
	// Users lists the roles whose nodes work with it: sign, present or verify; empty means all roles of the service.
	Users []string
	// Issuers lists the roles whose nodes sign with it, and so hold its key. They may be roles of another service.
	Issuers []string
	// Key is the bundle entry that holds the key on those nodes, as PKCS #8 PEM.
	Key string
}

// Authorities is the table of what signs, the root first. Whoever verifies trusts the one authority for its purpose and not
// the root: an MQTT certificate is no key to etcd.
//
// Masters hold the keys of all but the root, which stays with the operator: they issue certificates that ran out while
// nobody brought new bundles. (signing is no CA: with its key a master could write bundles for others.)
func Authorities() []AuthorityRow {
	master := []string{"control-plane"}
	rows := []AuthorityRow{
		{Name: RootName, Kind: CA, Title: "Spore root CA"},
		{Name: SigningName, Kind: Signer}, // signs the bundles
		{Name: "agent", Kind: CA, Title: "Spore node agent CA", Usage: Server | Client},
		{Name: "etcd", Kind: CA, Title: "Spore etcd CA", Service: "kubernetes", Users: master, Usage: Server | Client},
		{Name: "etcd-client", Kind: CA, Title: "Spore etcd client CA", Service: "kubernetes", Users: master, Usage: Client},
		{Name: "kubernetes-server", Kind: CA, Title: "Spore Kubernetes server CA", Service: "kubernetes", Usage: Server},
		// The controller-manager signs the client certificates that kubelets ask for.
		{Name: "kubernetes-client", Kind: CA, Title: "Spore Kubernetes client CA", Service: "kubernetes", Usage: Client},
		// And their serving certificates.
		{Name: "kubelet-serving", Kind: CA, Title: "Spore kubelet serving CA", Service: "kubernetes", Usage: Server},
		{Name: "front-proxy", Kind: CA, Title: "Spore front proxy CA", Service: "kubernetes", Users: master, Usage: Client},
		{Name: ServiceAccountName, Kind: KeyPair, Service: "kubernetes", Users: master, Issuers: master, Key: "service-account-key"},
		{Name: "kafka", Kind: CA, Title: "Spore Kafka CA", Service: "kafka", Usage: Server | Client},
		{Name: "mqtt", Kind: CA, Title: "Spore MQTT CA", Service: "mqtt", Usage: Server},
	}
	for i := range rows {
		if r := &rows[i]; r.Kind == CA && r.Name != RootName {
			r.Issuers, r.Key = master, r.Name+"-ca-key"
		}
	}
	return rows
}

// LeafRow is one row of end-entity certificates. Words in braces are filled in for each node: see expand.
type LeafRow struct {
	// Name names it in commands.
	Name string
	// Authority is the row of Authorities that signs it.
	Authority string
	// Roles lists whose nodes get one each.
	Roles []string
	// With is a service that it is for, besides that of its authority; empty means that one alone.
	With string
	// CommonName and Organization are its whole subject.
	CommonName   string
	Organization []string
	// SANs are its subject alternative names: addresses where they parse as such, DNS names otherwise.
	SANs []string
	// Usage is its extended key usage.
	Usage Usage
	// Made is where the key is made.
	Made Place
	// Certificate and Key are the bundle entries: the chain without the root, and the key as PKCS #8, both PEM.
	Certificate, Key string
}

// hostNames is how others call a node.
var hostNames = []string{"{fqdn}", "{hostname}", "{node}", "{ips}"}

// hostNames and the names by which the node calls itself.
var ownNames = append(hostNames[:len(hostNames):len(hostNames)], "localhost", "127.0.0.1", "::1")

// apiNames is how pods, nodes and people call the Kubernetes API (kubernetes.io, "PKI certificates and requirements").
var apiNames = append([]string{
	"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.{service-domain}",
	"{endpoint}", "{service-ips}", "{aliases}",
}, ownNames...)

// Leaves is the table of end-entity certificates.
func Leaves() []LeafRow {
	master, kube := []string{"control-plane"}, []string{"control-plane", "worker"}
	kafka := []string{"kafka-broker", "kafka-controller"}
	every, operator := []string{EveryNode}, []string{OperatorOnly}
	rows := []LeafRow{
		{Name: "agent", Authority: "agent", Roles: every, CommonName: "{node}", Organization: []string{"spore:nodes"}, SANs: hostNames, Usage: Server | Client},
		// Of the operator's people, for the nodes' API (package nodeapi): who may change nodes, and who may look.
		{Name: "node-admin", Authority: "agent", Roles: operator, CommonName: "node-admin", Organization: []string{"spore:admin"}, Usage: Client},
		{Name: "node-reader", Authority: "agent", Roles: operator, CommonName: "node-reader", Organization: []string{"spore:reader"}, Usage: Client},

		{Name: "etcd-server", Authority: "etcd", Roles: master, CommonName: "{node}", SANs: ownNames, Usage: Server},
		{Name: "etcd-peer", Authority: "etcd", Roles: master, CommonName: "{node}", SANs: hostNames, Usage: Server | Client},
		// Kubernetes' API server reaches etcd by a socket now. That of an older image, to which a machine may fall back,
		// shows this.
		{Name: "etcd-apiserver", Authority: "etcd-client", Roles: master, CommonName: "kube-apiserver-etcd-client", Usage: Client},
		{Name: "etcd-agent", Authority: "etcd-client", Roles: master, CommonName: "spore-agent-etcd-client", Usage: Client},

		{Name: "kube-apiserver", Authority: "kubernetes-server", Roles: master, CommonName: "kube-apiserver", SANs: apiNames, Usage: Server},
		{Name: "kube-controller-manager-server", Authority: "kubernetes-server", Roles: master, CommonName: "kube-controller-manager", SANs: ownNames, Usage: Server},
		{Name: "kube-scheduler-server", Authority: "kubernetes-server", Roles: master, CommonName: "kube-scheduler", SANs: ownNames, Usage: Server},

		{Name: "kube-controller-manager", Authority: "kubernetes-client", Roles: master, CommonName: "system:kube-controller-manager", Usage: Client},
		{Name: "kube-scheduler", Authority: "kubernetes-client", Roles: master, CommonName: "system:kube-scheduler", Usage: Client},
		{Name: "kube-apiserver-kubelet", Authority: "kubernetes-client", Roles: master, CommonName: "kube-apiserver-kubelet-client", Organization: []string{"spore:kubelet-api-admins"}, Usage: Client},
		// Makes the first roles and bindings, so no binding can give it its rights.
		{Name: "kubernetes-agent", Authority: "kubernetes-client", Roles: master, CommonName: "spore:agent:{node}", Organization: []string{"system:masters"}, Usage: Client},
		{Name: "kubernetes-admin", Authority: "kubernetes-client", Roles: operator, CommonName: "kubernetes-admin", Organization: []string{"system:masters"}, Usage: Client},
		{Name: "kube-proxy", Authority: "kubernetes-client", Roles: kube, CommonName: "system:kube-proxy", Usage: Client},
		// With a name for each node, by which the API server lets them write of no other node.
		{Name: "calico-node", Authority: "kubernetes-client", Roles: kube, CommonName: "calico-node:{node}", Organization: []string{"spore:calico-nodes"}, Usage: Client},
		{Name: "calico-cni", Authority: "kubernetes-client", Roles: kube, CommonName: "calico-cni:{node}", Organization: []string{"spore:calico-plugins"}, Usage: Client},
		{Name: "calico-controllers", Authority: "kubernetes-client", Roles: master, CommonName: "calico-controllers:{node}", Organization: []string{"spore:calico-controllers"}, Usage: Client},
		{Name: "cluster-dns", Authority: "kubernetes-client", Roles: master, CommonName: "spore:cluster-dns", Usage: Client},
		{Name: "rbd-provisioner", Authority: "kubernetes-client", Roles: master, With: "ceph", CommonName: "spore:rbd-provisioner:{node}", Organization: []string{"spore:rbd-provisioners"}, Usage: Client},
		// May ask for the kubelet's certificate of its own node and do nothing else.
		{Name: "kubelet-bootstrap", Authority: "kubernetes-client", Roles: kube, CommonName: "spore:kubelet-bootstrap:{node}", Organization: []string{"system:bootstrappers"}, Usage: Client},
		{Name: "kubelet-client", Authority: "kubernetes-client", Roles: kube, CommonName: "system:node:{node}", Organization: []string{"system:nodes"}, Usage: Client, Made: OnNode},
		{Name: "kubelet-serving", Authority: "kubelet-serving", Roles: kube, CommonName: "system:node:{node}", Organization: []string{"system:nodes"}, SANs: hostNames, Usage: Server, Made: OnNode},
		{Name: "front-proxy-client", Authority: "front-proxy", Roles: master, CommonName: "front-proxy-client", Usage: Client},

		{Name: "kafka-broker", Authority: "kafka", Roles: kafka, CommonName: "{node}", Organization: []string{"spore:kafka-brokers"}, SANs: append([]string{"kafka.{domain}", "{aliases}"}, hostNames...), Usage: Server | Client},
		{Name: "mqtt-server", Authority: "mqtt", Roles: []string{"mqtt-broker"}, CommonName: "{node}", SANs: append([]string{"mqtt.{domain}", "{aliases}"}, hostNames...), Usage: Server, Certificate: "{mqtt-certificate}", Key: "{mqtt-key}"},
	}
	for i := range rows {
		r := &rows[i]
		if r.Made == "" {
			r.Made = Operator
		}
		if r.Made == Operator && r.Certificate == "" {
			r.Certificate, r.Key = r.Name+"-certificate", r.Name+"-key"
		}
	}
	return rows
}

// Each says how many secrets a row makes.
type Each string

// Multiplicities.
const (
	OneCluster   Each = "cluster"    // one, shared by all that get it
	OneNode      Each = "node"       // one for each node that gets it
	OneMQTTUser  Each = "mqtt user"  // one for each password entry that mqtt.yaml names
	OneKafkaUser Each = "kafka user" // one for each password entry that kafka.yaml names
)

// SecretRow is one row of secrets that are no certificates. Once made they are never made again by themselves and never
// dropped: data may be unreadable without them.
type SecretRow struct {
	// Name names it in commands and, unless Entry says otherwise, in the bundle.
	Name string
	// Service is the service that needs it; empty means every cluster does.
	Service string
	// Roles lists whose nodes get it.
	Roles []string
	Each  Each
	// Entry is the bundle entry; {user-secret} is what mqtt.yaml or kafka.yaml names.
	Entry string
	// Form is how it is made; see forms.
	Form string
	// From names the row that it is derived from; where each user has one, it is that user's.
	From string
	// Entity is the user of Ceph whose key it is, by the node's name behind it: the key is made of From and of that name,
	// so that who has From knows every node's, and each node its own alone (package cephx).
	Entity string
	// Given allows the user to bring the value.
	Given bool
}

// Secrets is the table of secrets that are no certificates.
func Secrets() []SecretRow {
	mon, osd := []string{"ceph-mon"}, []string{"ceph-osd"}
	both, operator := append(osd, mon...), []string{OperatorOnly}
	rows := []SecretRow{
		{Name: "state-recovery-key", Roles: []string{EveryNode}, Each: OneNode, Form: formRecovery},
		{Name: "etcd-encryption-key", Service: "kubernetes", Roles: []string{"control-plane"}, Form: formKey},
		// Opens the snapshots of etcd. The operator's folder has it as well, for those that were brought away.
		{Name: "etcd-snapshot-key", Service: "kubernetes", Roles: []string{"control-plane"}, Form: formAge},
		{Name: "kafka-cluster-id", Service: "kafka", Roles: []string{"kafka-broker", "kafka-controller"}, Form: formKafkaID},
		{Name: "kafka-password-admin", Service: "kafka", Roles: operator, Form: formPassword, Given: true},
		{Name: "kafka-scram-admin", Service: "kafka", Roles: []string{"kafka-broker"}, Form: formSCRAM, From: "kafka-password-admin"},
		{Name: "kafka-password", Service: "kafka", Roles: operator, Each: OneKafkaUser, Entry: "{user-secret}", Form: formPassword, Given: true},
		// What kafka.yaml calls the password is, on brokers, its salted form.
		{Name: "kafka-scram", Service: "kafka", Roles: []string{"kafka-broker"}, Each: OneKafkaUser, Entry: "{user-secret}", Form: formSCRAM, From: "kafka-password"},
		{Name: "mqtt-password", Service: "mqtt", Roles: []string{"mqtt-broker"}, Each: OneMQTTUser, Entry: "{user-secret}", Form: formPassword, Given: true},
		{Name: "ceph-fsid", Service: "ceph", Roles: append(both[:2:2], "control-plane", "worker"), Form: formUUID},
		{Name: "ceph-mon-key", Service: "ceph", Roles: mon, Form: formCephx},                // mon.
		{Name: "ceph-admin-key", Service: "ceph", Roles: mon, Form: formCephx},              // client.admin
		{Name: "ceph-mgr-key", Service: "ceph", Roles: mon, Each: OneNode, Form: formCephx}, // mgr.NAME
		{Name: "ceph-mds-key", Service: "ceph", Roles: mon, Each: OneNode, Form: formCephx}, // mds.NAME
		// Monitors make of it the key of each node with OSDs, client.bootstrap-osd.NODE.
		{Name: "ceph-osd-seed", Service: "ceph", Roles: append(operator[:1:1], mon...), Form: formCephx},
		{Name: "ceph-osd-key", Service: "ceph", Roles: osd, Each: OneNode, Form: formCephx, From: "ceph-osd-seed", Entity: cephx.OSD},
		// Opens encrypted disks. One for all nodes, so that a disk can go to another one.
		{Name: "ceph-osd-encryption-key", Service: "ceph", Roles: osd, Form: formKey},
		// And the key of each node of Kubernetes, client.kubernetes-rbd.NODE, as which pods' volumes are made and mapped.
		{Name: "ceph-rbd-seed", Service: "ceph", Roles: append(operator[:1:1], mon...), Form: formCephx},
		{Name: "ceph-kubernetes-rbd-key", Service: "ceph", Roles: []string{"control-plane", "worker"}, Each: OneNode, Form: formCephx, From: "ceph-rbd-seed", Entity: cephx.RBD},
		// The same for pods' shared volumes, client.kubernetes-cephfs.NODE. These and ceph-mds-key are there before a file
		// system is, so that one more in ceph.yaml holds no monitor back until new bundles have come.
		{Name: "ceph-cephfs-seed", Service: "ceph", Roles: append(operator[:1:1], mon...), Form: formCephx},
		{Name: "ceph-kubernetes-cephfs-node-key", Service: "ceph", Roles: []string{"control-plane", "worker"}, Each: OneNode, Form: formCephx, From: "ceph-cephfs-seed", Entity: cephx.CephFS},
		// client.kubernetes-cephfs, a Kubernetes elsewhere. Made of no seed, because that Kubernetes keeps the key it was given.
		{Name: "ceph-kubernetes-cephfs-key", Service: "ceph", Roles: mon, Form: formCephx},
	}
	for i := range rows {
		r := &rows[i]
		if r.Each == "" {
			r.Each = OneCluster
		}
		if r.Entry == "" {
			r.Entry = r.Name
		}
	}
	return rows
}
