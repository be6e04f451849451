package pki

import (
	"spore/pki/cephx"
	"spore/services"
	"spore/services/service"
)

// Names of the authorities that the code asks for.
const (
	RootName    = "root"
	SigningName = "signing"
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
		{Name: "kafka", Kind: service.CA, Title: "Spore Kafka CA", Service: "kafka", Usage: service.Server | service.Client},
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

// Leaves is the table of end-entity certificates, with the rows of the services.
func Leaves() []service.LeafRow {
	kafka := []string{"kafka-broker", "kafka-controller"}
	every, operator := []string{service.EveryNode}, []string{service.OperatorOnly}
	rows := []service.LeafRow{
		{Name: "agent", Authority: "agent", Roles: every, CommonName: "{node}", Organization: []string{"spore:nodes"}, SANs: service.HostNames, Usage: service.Server | service.Client},
		// Of the operator's people, for the nodes' API (package nodeapi): who may change nodes, and who may look.
		{Name: "node-admin", Authority: "agent", Roles: operator, CommonName: "node-admin", Organization: []string{"spore:admin"}, Usage: service.Client},
		{Name: "node-reader", Authority: "agent", Roles: operator, CommonName: "node-reader", Organization: []string{"spore:reader"}, Usage: service.Client},

		{Name: "kafka-broker", Authority: "kafka", Roles: kafka, CommonName: "{node}", Organization: []string{"spore:kafka-brokers"}, SANs: append([]string{"kafka.{domain}", "{aliases}"}, service.HostNames...), Usage: service.Server | service.Client},
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
	mon, osd := []string{"ceph-mon"}, []string{"ceph-osd"}
	both, operator := append(osd, mon...), []string{service.OperatorOnly}
	rows := []service.SecretRow{
		{Name: "state-recovery-key", Roles: []string{service.EveryNode}, Each: service.OneNode, Form: service.FormRecovery},
		{Name: "kafka-cluster-id", Service: "kafka", Roles: []string{"kafka-broker", "kafka-controller"}, Form: service.FormKafkaID},
		{Name: "kafka-password-admin", Service: "kafka", Roles: operator, Form: service.FormPassword, Given: true},
		{Name: "kafka-scram-admin", Service: "kafka", Roles: []string{"kafka-broker"}, Form: service.FormSCRAM, From: "kafka-password-admin"},
		{Name: "kafka-password", Service: "kafka", Roles: operator, Each: service.OneUser, Entry: "{user-secret}", Form: service.FormPassword, Given: true},
		// What kafka.yaml calls the password is, on brokers, its salted form.
		{Name: "kafka-scram", Service: "kafka", Roles: []string{"kafka-broker"}, Each: service.OneUser, Entry: "{user-secret}", Form: service.FormSCRAM, From: "kafka-password"},
		{Name: "ceph-fsid", Service: "ceph", Roles: append(both[:2:2], "control-plane", "worker"), Form: service.FormUUID},
		{Name: "ceph-mon-key", Service: "ceph", Roles: mon, Form: service.FormCephx},                        // mon.
		{Name: "ceph-admin-key", Service: "ceph", Roles: mon, Form: service.FormCephx},                      // client.admin
		{Name: "ceph-mgr-key", Service: "ceph", Roles: mon, Each: service.OneNode, Form: service.FormCephx}, // mgr.NAME
		{Name: "ceph-mds-key", Service: "ceph", Roles: mon, Each: service.OneNode, Form: service.FormCephx}, // mds.NAME
		// Monitors make of it the key of each node with OSDs, client.bootstrap-osd.NODE.
		{Name: "ceph-osd-seed", Service: "ceph", Roles: append(operator[:1:1], mon...), Form: service.FormCephx},
		{Name: "ceph-osd-key", Service: "ceph", Roles: osd, Each: service.OneNode, Form: service.FormCephx, From: "ceph-osd-seed", Entity: cephx.OSD},
		// Opens encrypted disks. One for all nodes, so that a disk can go to another one.
		{Name: "ceph-osd-encryption-key", Service: "ceph", Roles: osd, Form: service.FormKey},
		// And the key of each node of Kubernetes, client.kubernetes-rbd.NODE, as which pods' volumes are made and mapped.
		{Name: "ceph-rbd-seed", Service: "ceph", Roles: append(operator[:1:1], mon...), Form: service.FormCephx},
		{Name: "ceph-kubernetes-rbd-key", Service: "ceph", Roles: []string{"control-plane", "worker"}, Each: service.OneNode, Form: service.FormCephx, From: "ceph-rbd-seed", Entity: cephx.RBD},
		// The same for pods' shared volumes, client.kubernetes-cephfs.NODE. These and ceph-mds-key are there before a file
		// system is, so that one more in ceph.yaml holds no monitor back until new bundles have come.
		{Name: "ceph-cephfs-seed", Service: "ceph", Roles: append(operator[:1:1], mon...), Form: service.FormCephx},
		{Name: "ceph-kubernetes-cephfs-node-key", Service: "ceph", Roles: []string{"control-plane", "worker"}, Each: service.OneNode, Form: service.FormCephx, From: "ceph-cephfs-seed", Entity: cephx.CephFS},
		// client.kubernetes-cephfs, a Kubernetes elsewhere. Made of no seed, because that Kubernetes keeps the key it was given.
		{Name: "ceph-kubernetes-cephfs-key", Service: "ceph", Roles: mon, Form: service.FormCephx},
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
