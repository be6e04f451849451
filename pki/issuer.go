package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"time"

	"spore/services/service"
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
		return Issuer{}, fmt.Errorf("the key of the authority %s does not match any of its certificates; build the image again, make the bundle again, and bring both to the node", authority)
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
	if l.Row.Authority != i.name || l.Row.Made != service.Operator {
		return Certificate{}, fmt.Errorf("internal error: the authority %s is asked for the certificate %s", i.name, l.ID)
	}
	made, err := o.leaf(l, i.signer)
	if err != nil {
		return Certificate{}, err
	}
	made.Certificate += encodeCertificate(i.certificate.Raw)
	return made, nil
}

// Certify makes the certificate of a leaf for a key that is elsewhere, as the table wants it: nothing of a request but its key
// is taken. The certificate comes with the authority's behind it.
func (i Issuer) Certify(l Leaf, request string, o Options) (string, error) {
	if l.Row.Authority != i.name || l.Row.Made != service.Operator {
		return "", fmt.Errorf("internal error: the authority %s is asked for the certificate %s", i.name, l.ID)
	}
	public, err := requested(request)
	if err != nil {
		return "", fmt.Errorf("the request for %s: %w", l.ID, err)
	}
	o.Now = o.Now.UTC().Truncate(time.Second)
	t, err := o.leafTemplate(l)
	if err != nil {
		return "", err
	}
	text, err := o.sign(t, public, i.signer)
	return text + encodeCertificate(i.certificate.Raw), err
}

// Request makes a key, and the request by which an authority that is elsewhere is asked for its certificate (PKCS #10, as
// PEM). It says whose key it is and proves that whoever asks has it; what is in the certificate is not the asker's to say.
func Request(l Leaf, random io.Reader) (key Hidden, request string, err error) {
	k, err := newECDSA(random)
	if err != nil {
		return "", "", err
	}
	if key, err = encodeKey(k); err != nil {
		return "", "", err
	}
	der, err := x509.CreateCertificateRequest(random, &x509.CertificateRequest{Subject: pkix.Name{CommonName: l.CommonName}}, k)
	if err != nil {
		return "", "", fmt.Errorf("make a certificate request for %s: %w", l.ID, err)
	}
	return key, string(pem.EncodeToMemory(&pem.Block{Type: requestType, Bytes: der})), nil
}

// requestType is the type of a certificate request in PEM.
const requestType = "CERTIFICATE REQUEST"

// requested is the key that a request is for; whoever made the request has its other half.
func requested(request string) (crypto.PublicKey, error) {
	block, rest := pem.Decode([]byte(request))
	if block == nil || block.Type != requestType || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("it is not one certificate request in PEM")
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, errors.New("it cannot be read")
	}
	key, ok := r.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("its key is not of the kind ECDSA P-256")
	}
	if err := r.CheckSignature(); err != nil {
		return nil, errors.New("it is not signed by its own key")
	}
	return key, nil
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
