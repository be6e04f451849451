package nodeapi

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// limitID is the object identifier of the extension that limits a certificate to some nodes. It is of the arc 2.25,
// whose numbers nobody registers (ITU-T X.667); the number is "spor" in ASCII.
var limitID = asn1.ObjectIdentifier{2, 25, 0x73706f72, 1}

// MaxLimit is how many nodes a certificate may be limited to.
const MaxLimit = 256

// Limit is the extension of a certificate that holds for these nodes alone: a SEQUENCE of their names, sorted. It is
// critical (RFC 5280, section 4.2): a server that does not know it refuses the certificate, instead of taking it for
// one that holds everywhere.
func Limit(nodes []string) (pkix.Extension, error) {
	nodes = slices.Compact(slices.Sorted(slices.Values(nodes)))
	if err := checkLimit(nodes); err != nil {
		return pkix.Extension{}, err
	}
	value, err := asn1.Marshal(nodes)
	if err != nil {
		return pkix.Extension{}, fmt.Errorf("internal error: encode the names of nodes: %w", err)
	}
	return pkix.Extension{Id: limitID, Critical: true, Value: value}, nil
}

// ParseLimit reads the value of the extension.
func ParseLimit(value []byte) ([]string, error) {
	var nodes []string
	rest, err := asn1.Unmarshal(value, &nodes)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the list of nodes in the certificate is malformed: %w", err)
	case len(rest) > 0:
		return nil, errors.New("the list of nodes in the certificate is malformed: something follows it")
	}
	if err := checkLimit(nodes); err != nil {
		return nil, err
	}
	return nodes, nil
}

// checkLimit takes names as they stand in a cluster.yaml, in order.
func checkLimit(nodes []string) error {
	if len(nodes) == 0 || len(nodes) > MaxLimit {
		return fmt.Errorf("a certificate is limited to 1 to %d nodes, and not to %d", MaxLimit, len(nodes))
	}
	for i, name := range nodes {
		if !isLabel(name) {
			return fmt.Errorf("the certificate is limited to %.64q, which is not the name of a node", name)
		}
		if i > 0 && nodes[i-1] >= name {
			return errors.New("the list of nodes in the certificate is not sorted")
		}
	}
	return nil
}

// isLabel tells whether a text is a DNS label in lower case (RFC 1123, section 2.1).
func isLabel(s string) bool { return IsNodeName(s) }

// IsNodeName tells whether a text can be the name of a node, a DNS label of RFC 1123 in lower case.
func IsNodeName(s string) bool {
	for i := range len(s) {
		letter := s[i] >= 'a' && s[i] <= 'z' || s[i] >= '0' && s[i] <= '9'
		if !letter && (s[i] != '-' || i == 0 || i == len(s)-1) {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 63
}

// limited returns a certificate as x509.Certificate.Verify can judge it, which does not know what the extension says,
// and the nodes that it is limited to; nil is none. The certificate itself stays as it is: package tls shares it
// between connections.
func limited(c *x509.Certificate) (*x509.Certificate, []string, error) {
	at := slices.IndexFunc(c.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(limitID) })
	if at < 0 {
		return c, nil, nil
	}
	nodes, err := ParseLimit(c.Extensions[at].Value)
	if err != nil {
		return nil, nil, err
	}
	known := *c
	known.UnhandledCriticalExtensions = slices.DeleteFunc(slices.Clone(c.UnhandledCriticalExtensions), limitID.Equal)
	return &known, nodes, nil
}

// NodesOf is which nodes a certificate is limited to; nil is none.
func NodesOf(c *x509.Certificate) ([]string, error) {
	_, nodes, err := limited(c)
	return nodes, err
}

// Serial is how a certificate's serial number is written here: in lower-case hexadecimal without zeros in front.
func Serial(number *big.Int) string { return number.Text(16) }

// MaxSerial is how many digits a serial number has at most (RFC 5280, section 4.1.2.2: 20 octets).
const MaxSerial = 40

// IsSerial tells whether a text is a serial number in this form.
func IsSerial(s string) bool {
	for i := range len(s) {
		digit := s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'f'
		if !digit || i == 0 && s[i] == '0' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= MaxSerial
}
