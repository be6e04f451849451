package pki

import (
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
func Authorities(l *services.List) []service.AuthorityRow {
	master := []string{"control-plane"}
	rows := []service.AuthorityRow{
		{Name: RootName, Kind: service.CA, Title: "Spore root CA"},
		{Name: SigningName, Kind: service.Signer}, // signs the bundles
		{Name: "agent", Kind: service.CA, Title: "Spore node agent CA", Usage: service.Server | service.Client},
	}
	for _, s := range l.All() {
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
func Leaves(l *services.List) []service.LeafRow {
	every, operator := []string{service.EveryNode}, []string{service.OperatorOnly}
	rows := []service.LeafRow{
		{Name: "agent", Authority: "agent", Roles: every, CommonName: "{node}", Organization: []string{"spore:nodes"}, SANs: service.HostNames, Usage: service.Server | service.Client},
		// Of the operator's people, for the nodes' API (package nodeapi): who may change nodes, operate them, and look.
		{Name: "node-admin", Authority: "agent", Roles: operator, CommonName: "node-admin", Organization: []string{"spore:admin"}, Usage: service.Client},
		{Name: "node-operator", Authority: "agent", Roles: operator, CommonName: "node-operator", Organization: []string{"spore:operator"}, Usage: service.Client},
		{Name: "node-reader", Authority: "agent", Roles: operator, CommonName: "node-reader", Organization: []string{"spore:reader"}, Usage: service.Client},
	}
	for _, s := range l.All() {
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
func Secrets(l *services.List) []service.SecretRow {
	rows := []service.SecretRow{
		{Name: "state-recovery-key", Roles: []string{service.EveryNode}, Each: service.OneNode, Form: service.FormRecovery},
	}
	for _, s := range l.All() {
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
