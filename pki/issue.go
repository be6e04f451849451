package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"spore/cluster/facts"
	"spore/services/service"
)

// signer is an authority at work.
type signer struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// serialNumber is 127 random bits (RFC 5280, section 4.1.2.2).
func (o *Options) serialNumber() (*big.Int, error) {
	b, err := read(o.Random, 16)
	if err != nil {
		return nil, err
	}
	b[0] = b[0]&0x7f | 0x40 // positive, and never short
	return new(big.Int).SetBytes(b), nil
}

// usages spells a usage for a template.
func usages(u service.Usage) []x509.ExtKeyUsage {
	var out []x509.ExtKeyUsage
	if u&service.Server != 0 {
		out = append(out, x509.ExtKeyUsageServerAuth)
	}
	if u&service.Client != 0 {
		out = append(out, x509.ExtKeyUsageClientAuth)
	}
	return out
}

// authorityTemplate is the certificate of an authority. The root may have one level of authorities below it, the others none.
func (o *Options) authorityTemplate(row service.AuthorityRow, number int, c *facts.Cluster) (*x509.Certificate, error) {
	serial, err := o.serialNumber()
	if err != nil {
		return nil, err
	}
	title := row.Title
	if number > 1 {
		title += " " + strconv.Itoa(number)
	}
	t := &x509.Certificate{
		SerialNumber: serial,
		// The id keeps the authorities of two clusters apart that have the same name.
		Subject:   pkix.Name{CommonName: title, Organization: []string{c.ID}, OrganizationalUnit: []string{c.Name}},
		NotBefore: o.Now.Add(-backdate).Truncate(time.Second), NotAfter: o.Now.Add(AuthorityLife).Truncate(time.Second),
		IsCA: true, BasicConstraintsValid: true, MaxPathLen: 1,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, ExtKeyUsage: usages(row.Usage),
	}
	if row.Name != RootName {
		t.MaxPathLen, t.MaxPathLenZero = 0, true
	}
	return t, nil
}

// leafTemplate is the certificate of a leaf.
func (o *Options) leafTemplate(l Leaf) (*x509.Certificate, error) {
	serial, err := o.serialNumber()
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: l.CommonName, Organization: l.Organization},
		NotBefore: o.Now.Add(-backdate).Truncate(time.Second), NotAfter: o.Now.Add(LeafLife).Truncate(time.Second),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usages(l.Row.Usage), DNSNames: l.DNS,
	}
	for _, ip := range l.IPs {
		t.IPAddresses = append(t.IPAddresses, net.IP(ip.AsSlice()))
	}
	return t, nil
}

// sign makes the certificate of a key by an authority; by itself when the authority is nil. No certificate outlives the
// one that signs it.
func (o *Options) sign(t *x509.Certificate, public crypto.PublicKey, by signer) (string, error) {
	parent := by.certificate
	if parent == nil {
		parent = t
	} else if t.NotAfter.After(parent.NotAfter) {
		t.NotAfter = parent.NotAfter
	}
	if !o.Now.Before(parent.NotAfter) {
		return "", fmt.Errorf("%s ended on %s and can no longer sign; replace it with `spore pki rotate-ca`", parent.Subject.CommonName, parent.NotAfter.Format(time.DateOnly))
	}
	der, err := x509.CreateCertificate(o.Random, t, parent, public, by.key)
	if err != nil {
		return "", fmt.Errorf("sign %s: %w", t.Subject.CommonName, err)
	}
	return encodeCertificate(der), nil
}

// generation makes a new key for an authority and, where it is a CA, its certificate.
func (o *Options) generation(row service.AuthorityRow, number int, c *facts.Cluster, root func() (signer, error)) (Generation, error) {
	var key crypto.Signer
	var err error
	if row.Kind == service.Signer {
		key, err = newEd25519(o.Random)
	} else {
		key, err = newECDSA(o.Random)
	}
	if err != nil {
		return Generation{}, err
	}
	g := Generation{Number: number}
	if g.Key, err = encodeKey(key); err != nil {
		return Generation{}, err
	}
	if g.PublicKey, err = encodePublic(key.Public()); err != nil {
		return Generation{}, err
	}
	if row.Kind != service.CA {
		return g, nil
	}
	by := signer{key: key}
	if row.Name != RootName {
		if by, err = root(); err != nil {
			return Generation{}, err
		}
	}
	t, err := o.authorityTemplate(row, number, c)
	if err != nil {
		return Generation{}, err
	}
	g.Certificate, err = o.sign(t, key.Public(), by)
	return g, err
}

// ownGeneration makes a generation of the user's own root.
func (o *Options) ownGeneration(number int) (Generation, error) {
	c, err := o.Root.check(o.Now)
	if err != nil {
		return Generation{}, err
	}
	g := Generation{Number: number, Certificate: encodeCertificate(c.Raw)}
	g.PublicKey, err = encodePublic(c.PublicKey)
	return g, err
}

// check tells whether the user's root can be a root, and whether its key, when there is one, is its own.
func (r *OwnRoot) check(now time.Time) (*x509.Certificate, error) {
	c, err := parseCertificate(r.Certificate)
	if err != nil {
		return nil, fmt.Errorf("your root certificate: %w", err)
	}
	switch {
	case !c.IsCA || !c.BasicConstraintsValid:
		return nil, errors.New("your root certificate is not a CA certificate (basic constraints, CA:TRUE)")
	case c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0:
		return nil, errors.New("your root certificate may not sign certificates (key usage lacks keyCertSign)")
	case c.MaxPathLenZero:
		return nil, errors.New("your root certificate allows no authorities below it (pathlen:0); make one with pathlen:1 or none")
	case !now.Before(c.NotAfter) || now.Before(c.NotBefore):
		return nil, fmt.Errorf("your root certificate is valid from %s to %s, and today is %s", c.NotBefore.Format(time.DateOnly), c.NotAfter.Format(time.DateOnly), now.Format(time.DateOnly))
	}
	if r.Key == "" {
		return c, nil
	}
	key, err := parseKey(r.Key)
	if err != nil {
		return nil, fmt.Errorf("your root's key: %w", err)
	}
	if !samePublic(key.Public(), c.PublicKey) {
		return nil, errors.New("your root's key does not belong to its certificate")
	}
	return c, nil
}

// differs says in what a certificate is not what the table wants; empty when it is.
func differs(c *x509.Certificate, l Leaf) string {
	var ips []netip.Addr
	for _, ip := range c.IPAddresses {
		if a, ok := netip.AddrFromSlice(ip); ok {
			ips = append(ips, a.Unmap())
		}
	}
	switch {
	case c.Subject.CommonName != l.CommonName || !slices.Equal(c.Subject.Organization, l.Organization):
		return "its subject changed"
	case !slices.Equal(c.DNSNames, l.DNS) || !slices.Equal(ips, l.IPs):
		return "its names or addresses changed"
	case !slices.Equal(c.ExtKeyUsage, usages(l.Row.Usage)):
		return "its usage changed"
	}
	return ""
}

// signedBy tells by the key ids whether a leaf is an authority's.
func signedBy(c, by *x509.Certificate) bool { return bytes.Equal(c.AuthorityKeyId, by.SubjectKeyId) }
