// Package nodeapi is the protocol by which the nodes of a cluster and its operator speak to a node's agent: HTTPS on
// port 8643, where both sides show a certificate of the authority `agent`. It holds who may ask, the paths, the forms
// of what is answered, and the client; the server is agent/api.
//
// A server proves that it is a node by its certificate's organization, and which one by its common name. A client is
// what its organization says: a node, an administrator or a reader. Nothing is answered without a certificate.
package nodeapi

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"spore/services/service"
)

// Port is where agents answer, TCP.
const Port = service.PortAPI

// Paths. What follows FormationPath and QuorumPath is the name of a quorum service.
const (
	FormationPath = "/v1/formation/"
	// QuorumPath is asked by the other members of a quorum: whether this one serves now.
	QuorumPath = "/v1/quorum/"
	StatusPath = "/v1/status"
	LogsPath   = "/v1/logs"
	HealthPath = "/v1/health"
	// MetricsPath is asked by those who keep metrics, in the formats of Prometheus.
	MetricsPath = "/v1/metrics"
)

// Role is what a caller may do: the organization in its certificate (table of package pki).
type Role string

// Roles.
const (
	// Node is the agent of a node of the cluster.
	Node Role = "spore:nodes"
	// Reader is a person who may only look, Operator one who may also restart, drain and collect, and Admin one who may
	// also change what nodes are. Who may what is in the table of verbs, and in the rows of agent/answers.
	Reader   Role = "spore:reader"
	Operator Role = "spore:operator"
	Admin    Role = "spore:admin"
	// Scraper is a program that asks for metrics and nothing else.
	Scraper Role = "spore:scraper"
	// Sender is the program of a node that brings what the node logs to the stores, and may do nothing else. The common
	// name is the node's.
	Sender Role = "spore:sender"
)

// Caller is who shows a certificate.
type Caller struct {
	// Name is the common name: of a node, its name; of an operator, the person's.
	Name string
	// Serial is the certificate's serial number (function Serial).
	Serial string
	// Fingerprint is the SHA-256 of the certificate (DER) in lower-case hexadecimal.
	Fingerprint string
	// Roles are those of the certificate that are known here.
	Roles []Role
	// Nodes are those that the certificate is limited to; with none, it holds for all.
	Nodes []string
	// Begins and Ends are when the certificate does.
	Begins, Ends time.Time
	// Ended is true when it had ended already when it was shown. Such a caller was a node once and nothing else is known
	// of it.
	Ended bool
}

// Is tells whether the caller has one of the roles.
func (c Caller) Is(roles ...Role) bool {
	return slices.ContainsFunc(c.Roles, func(r Role) bool { return slices.Contains(roles, r) })
}

// MayAsk says why the caller's certificate does not hold for a node; nil when it does.
func (c Caller) MayAsk(node string) error {
	if len(c.Nodes) == 0 || slices.Contains(c.Nodes, node) {
		return nil
	}
	return fmt.Errorf("this certificate is limited to %s, and this is %s", strings.Join(c.Nodes, ", "), node)
}

// callerOf is whose certificate this is; it says nothing of whether it holds.
func callerOf(certificate *x509.Certificate) Caller {
	c := Caller{
		Name: certificate.Subject.CommonName, Begins: certificate.NotBefore, Ends: certificate.NotAfter,
		Serial: Serial(certificate.SerialNumber), Fingerprint: Fingerprint(certificate),
	}
	for _, known := range []Role{Node, Admin, Operator, Reader, Scraper, Sender} {
		if slices.Contains(certificate.Subject.Organization, string(known)) {
			c.Roles = append(c.Roles, known)
		}
	}
	return c
}

// Fingerprint names a certificate: the SHA-256 of its DER form, in lower-case hexadecimal. Unlike its serial number,
// it is not for whoever signs it to choose.
func Fingerprint(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.Raw)
	return hex.EncodeToString(sum[:])
}
