package secureboot

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"spore/pki/authenticode"
)

// keySizes are those that firmware can be expected to check, in bits.
var keySizes = []int{2048, 3072, 4096}

// Signer signs with one key.
type Signer struct {
	Key         *rsa.PrivateKey
	Certificate *x509.Certificate
}

// NewSigner takes a key and its certificate, both PEM.
func NewSigner(keyPEM, certificatePEM []byte) (*Signer, error) {
	key, err := ParseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	certificate, err := ParseCertificate(certificatePEM)
	if err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, fmt.Errorf("the certificate %q does not belong to the key", certificate.Subject)
	}
	return &Signer{key, certificate}, nil
}

// ParseKey reads an RSA key: PKCS #8 or PKCS #1 in PEM. Its errors quote nothing.
func ParseKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the key is not PEM; convert it with `openssl rsa`")
	}
	var key *rsa.PrivateKey
	switch block.Type {
	case "PRIVATE KEY":
		any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, errors.New("the key is not in PKCS #8 form")
		}
		var ok bool
		if key, ok = any.(*rsa.PrivateKey); !ok {
			return nil, errors.New("the key is not an RSA key; firmware checks only RSA")
		}
	case "RSA PRIVATE KEY":
		var err error
		if key, err = x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
			return nil, errors.New("the key is not in PKCS #1 form")
		}
	default:
		return nil, fmt.Errorf("the key file holds a %.40q; give an RSA key that is not encrypted by OpenSSL (age is taken)", block.Type)
	}
	if !slices.Contains(keySizes, key.N.BitLen()) {
		return nil, fmt.Errorf("the key has %d bits; take 2048, which all firmware checks, 3072 or 4096", key.N.BitLen())
	}
	return key, nil
}

// ParseCertificate reads a certificate: PEM or DER.
func ParseCertificate(data []byte) (*x509.Certificate, error) {
	if block, _ := pem.Decode(data); block != nil {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("the certificate file holds a %.40q", block.Type)
		}
		data = block.Bytes
	}
	c, err := x509.ParseCertificate(data)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	return c, nil
}

// SignPE returns the program with one signature. Those that it had are left out. The same program, key and certificate
// give the same bytes.
func (s *Signer) SignPE(pe []byte) ([]byte, error) {
	out, err := s.sign(pe)
	if err != nil {
		return nil, fmt.Errorf("sign for Secure Boot: %w", err)
	}
	return out, nil
}

func (s *Signer) sign(pe []byte) ([]byte, error) {
	p, err := authenticode.Read(bytes.NewReader(pe), int64(len(pe)))
	if err != nil {
		return nil, err
	}
	digest, err := p.Digest()
	if err != nil {
		return nil, err
	}
	signature, err := authenticode.Sign(s.Key, s.Certificate, digest)
	if err != nil {
		return nil, err
	}
	length := authenticode.EntryHeader + int64(len(signature))
	length += authenticode.Padding(length)
	entry := make([]byte, authenticode.EntryHeader, length)
	binary.LittleEndian.PutUint32(entry, uint32(length))
	binary.LittleEndian.PutUint16(entry[4:], authenticode.EntryRevision)
	binary.LittleEndian.PutUint16(entry[6:], authenticode.EntryPKCS7)
	entry = append(entry, signature...)
	return withTable(p, pe, entry[:length])
}
