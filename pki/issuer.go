package pki

import (
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// Issuer is an authority with its key, on whichever machine it is.
type Issuer struct {
	signer
	name string
}

// NewIssuer joins the key of an authority with its certificate, which is among those by which the authority is trusted
// (PEM, the one that signs first, as Public.Files has them).
func NewIssuer(authority, trusted string, key Hidden, now time.Time) (Issuer, error) {
	k, err := parseKey(key)
	if err != nil {
		return Issuer{}, fmt.Errorf("the key of the authority %s: %w", authority, err)
	}
	list, err := splitCertificates(trusted)
	if err != nil {
		return Issuer{}, fmt.Errorf("the authority %s: %w", authority, err)
	}
	i := Issuer{name: authority}
	for _, text := range list {
		c, err := parseCertificate(text)
		if err != nil {
			return Issuer{}, fmt.Errorf("the authority %s: %w", authority, err)
		}
		if !samePublic(k.Public(), c.PublicKey) {
			continue
		}
		// While the root is rotated, one key has two certificates. One that has not ended is better than one that has.
		if i.certificate == nil || !now.Before(i.certificate.NotAfter) && now.Before(c.NotAfter) {
			i.signer = signer{c, k}
		}
	}
	if i.certificate == nil {
		return Issuer{}, fmt.Errorf("the key of the authority %s is that of none of its certificates; build the image again, make the bundle again, and bring both to the node", authority)
	}
	switch c := i.certificate; {
	case !now.Before(c.NotAfter):
		return Issuer{}, fmt.Errorf("the authority %s itself ended on %s; run `spore pki renew`, build the image again and bring it to the nodes", authority, c.NotAfter.UTC().Format(time.DateOnly))
	case now.Before(c.NotBefore):
		return Issuer{}, fmt.Errorf("the authority %s begins on %s, and the clock says %s; set the clock", authority, c.NotBefore.UTC().Format(time.DateOnly), now.UTC().Format(time.DateOnly))
	}
	return i, nil
}

// Ends is when the authority's certificate does. Nothing that it signs is valid longer.
func (i Issuer) Ends() time.Time { return i.certificate.NotAfter }

// Issue makes a key and its certificate for a leaf, as the table wants it. The certificate comes as a bundle has it: with
// the authority's behind it.
func (i Issuer) Issue(l Leaf, o Options) (Certificate, error) {
	if l.Row.Authority != i.name || l.Row.Made != Operator {
		return Certificate{}, fmt.Errorf("internal error: the authority %s is asked for the certificate %s", i.name, l.ID)
	}
	made, err := o.leaf(l, i.signer)
	if err != nil {
		return Certificate{}, err
	}
	made.Certificate += encodeCertificate(i.certificate.Raw)
	return made, nil
}

// leaf makes a key and its certificate.
func (o *Options) leaf(l Leaf, by signer) (Certificate, error) {
	o.Now = o.Now.UTC().Truncate(time.Second)
	key, err := newECDSA(o.Random)
	if err != nil {
		return Certificate{}, err
	}
	t, err := o.leafTemplate(l)
	if err != nil {
		return Certificate{}, err
	}
	var made Certificate
	if made.Key, err = encodeKey(key); err != nil {
		return Certificate{}, err
	}
	made.Certificate, err = o.sign(t, key.Public(), by)
	return made, err
}

// maxCertificates is more than a chain or a rotation ever has.
const maxCertificates = 8

// splitCertificates takes a file of certificates apart.
func splitCertificates(text string) ([]string, error) {
	var out []string
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" || len(out) == maxCertificates {
			return nil, errors.New("its certificates are not of their form")
		}
		out = append(out, encodeCertificate(block.Bytes))
	}
	if len(out) == 0 {
		return nil, errors.New("there is no certificate in PEM")
	}
	return out, nil
}
