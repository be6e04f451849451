package authenticode

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
)

// Object identifiers of PKCS #7 and #9, of RSA and SHA-2, and of Authenticode.
var (
	oidSignedData    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	oidData          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidContentType   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 3}
	oidMessageDigest = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 4}
	oidRSA           = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
	oidSHA256RSA     = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}
	oidSHA256        = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}
	oidIndirectData  = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 1, 4}
	oidPEImageData   = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 1, 15}
)

var algorithmSHA256 = pkix.AlgorithmIdentifier{Algorithm: oidSHA256, Parameters: asn1.NullRawValue}

// maxPKCS7 bounds a signature that is read. Ours has about 1.5 KiB.
const maxPKCS7 = 64 << 10

// The structures of PKCS #7, version 1.5 (RFC 2315), sections 7 and 9.
type (
	contentInfo struct {
		Type    asn1.ObjectIdentifier
		Content asn1.RawValue `asn1:"optional,tag:0"` // explicit: with the tag around it
	}
	signedData struct {
		Version          int
		DigestAlgorithms []pkix.AlgorithmIdentifier `asn1:"set"`
		Content          contentInfo
		Certificates     asn1.RawValue `asn1:"optional,tag:0"`
		CRLs             asn1.RawValue `asn1:"optional,tag:1"`
		Signers          []signerInfo  `asn1:"set"`
	}
	signerInfo struct {
		Version            int
		Certificate        issuerAndSerial
		DigestAlgorithm    pkix.AlgorithmIdentifier
		Attributes         asn1.RawValue `asn1:"optional,tag:0"`
		SignatureAlgorithm pkix.AlgorithmIdentifier
		Signature          []byte
		Unauthenticated    asn1.RawValue `asn1:"optional,tag:1"`
	}
	issuerAndSerial struct {
		Issuer asn1.RawValue
		Serial *big.Int
	}
	attribute struct {
		Type   asn1.ObjectIdentifier
		Values []asn1.RawValue `asn1:"set"`
	}
)

// The content of an Authenticode signature ("Authenticode-Specific Structures").
type (
	indirectData struct {
		Data   peImageAttribute
		Digest digestInfo
	}
	peImageAttribute struct {
		Type  asn1.ObjectIdentifier
		Value asn1.RawValue
	}
	digestInfo struct {
		Algorithm pkix.AlgorithmIdentifier
		Digest    []byte
	}
)

// peImageData says "a program", without flags and with an empty name: what every signer writes there.
var peImageData = []byte{0x30, 0x09, 0x03, 0x01, 0x00, 0xa0, 0x04, 0xa2, 0x02, 0x80, 0x00}

func tagged(tag int, content []byte) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tag, IsCompound: true, Bytes: content}
}

// Sign is the signature over a program's hash: a ContentInfo with SignedData. It has no time in it, so that the same
// program and key give the same bytes.
func Sign(key *rsa.PrivateKey, c *x509.Certificate, hash Hash) ([]byte, error) {
	content, err := asn1.Marshal(indirectData{
		Data:   peImageAttribute{oidPEImageData, asn1.RawValue{FullBytes: peImageData}},
		Digest: digestInfo{algorithmSHA256, hash[:]},
	})
	if err != nil {
		return nil, err
	}
	sum, err := valueDigest(content)
	if err != nil {
		return nil, err
	}
	attributes, err := encodeAttributes(oidIndirectData, sum)
	if err != nil {
		return nil, err
	}
	hashed := sha256.Sum256(attributes)
	inner, err := sign(key, c, contentInfo{oidIndirectData, tagged(0, content)}, hashed[:], attributes)
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(contentInfo{oidSignedData, tagged(0, inner)})
}

// SignDetached is the signature over data that is not in it, and without attributes: a bare SignedData, as UEFI 2.10,
// section 8.2.2, wants it for variables.
func SignDetached(key *rsa.PrivateKey, c *x509.Certificate, data []byte) ([]byte, error) {
	sum := sha256.Sum256(data)
	return sign(key, c, contentInfo{Type: oidData}, sum[:], nil)
}

// sign signs a digest. attributes are those over which it was taken, as a SET, or nothing.
func sign(key *rsa.PrivateKey, c *x509.Certificate, content contentInfo, digest, attributes []byte) ([]byte, error) {
	// The randomness that Go asks for blinds the computation; the result does not depend on it.
	signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, digest)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	signer := signerInfo{
		Version:            1,
		Certificate:        issuerAndSerial{asn1.RawValue{FullBytes: c.RawIssuer}, c.SerialNumber},
		DigestAlgorithm:    algorithmSHA256,
		SignatureAlgorithm: pkix.AlgorithmIdentifier{Algorithm: oidRSA, Parameters: asn1.NullRawValue},
		Signature:          signature,
	}
	if attributes != nil {
		var set asn1.RawValue
		if _, err := asn1.Unmarshal(attributes, &set); err != nil {
			return nil, err
		}
		signer.Attributes = tagged(0, set.Bytes) // they are hashed as a SET and stored with the tag 0 (RFC 2315, 9.3)
	}
	return asn1.Marshal(signedData{
		Version:          1,
		DigestAlgorithms: []pkix.AlgorithmIdentifier{algorithmSHA256},
		Content:          content,
		Certificates:     tagged(0, c.Raw),
		Signers:          []signerInfo{signer},
	})
}

// encodeAttributes is the SET of the two attributes that RFC 2315, section 9.2, asks for. A signing time, the usual
// third, would make other bytes of the same program.
func encodeAttributes(contentType asn1.ObjectIdentifier, digest []byte) ([]byte, error) {
	kind, err := asn1.Marshal(contentType)
	if err != nil {
		return nil, err
	}
	sum, err := asn1.Marshal(digest)
	if err != nil {
		return nil, err
	}
	return asn1.MarshalWithParams([]attribute{
		{oidContentType, []asn1.RawValue{{FullBytes: kind}}},
		{oidMessageDigest, []asn1.RawValue{{FullBytes: sum}}},
	}, "set")
}

// valueDigest is the digest of an element without its tag and length (RFC 2315, section 9.3).
func valueDigest(element []byte) ([]byte, error) {
	var v asn1.RawValue
	if _, err := asn1.Unmarshal(element, &v); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(v.Bytes)
	return sum[:], nil
}

// parseSigned reads a ContentInfo with SignedData of one signer.
func parseSigned(der []byte) (*signedData, error) {
	var outer contentInfo
	if _, err := asn1.Unmarshal(der, &outer); err != nil { // zeros may follow: entries are padded
		return nil, fmt.Errorf("no PKCS #7: %w", err)
	}
	if !outer.Type.Equal(oidSignedData) {
		return nil, fmt.Errorf("PKCS #7 of type %v, not signed data", outer.Type)
	}
	var s signedData
	if rest, err := asn1.Unmarshal(outer.Content.Bytes, &s); err != nil || len(rest) > 0 {
		return nil, errors.Join(errors.New("there is no PKCS #7 signed data"), err)
	}
	if len(s.Signers) != 1 {
		return nil, fmt.Errorf("it has %d signers; it must have one", len(s.Signers))
	}
	return &s, nil
}

// maxCertificates bounds those that a signature brings.
const maxCertificates = 16

// certificates are that of the signer, and all others that the signature brings.
func (s *signedData) certificates() (signer *x509.Certificate, others []*x509.Certificate, err error) {
	list, err := x509.ParseCertificates(s.Certificates.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("its certificates: %w", err)
	}
	if len(list) > maxCertificates {
		return nil, nil, fmt.Errorf("it has %d certificates; it may have %d", len(list), maxCertificates)
	}
	want := s.Signers[0].Certificate
	for _, c := range list {
		of := string(c.RawIssuer) == string(want.Issuer.FullBytes) && want.Serial != nil && c.SerialNumber.Cmp(want.Serial) == 0
		if of && signer == nil {
			signer = c
		} else {
			others = append(others, c)
		}
	}
	if signer == nil {
		return nil, nil, errors.New("the certificate of its signer is not in it")
	}
	return signer, others, nil
}

// CheckDetached verifies a signature, as SignDetached makes it, of the owner of a certificate over data.
func CheckDetached(der []byte, c *x509.Certificate, data []byte) error {
	var s signedData
	rest, err := asn1.Unmarshal(der, &s)
	if err != nil || len(rest) > 0 || len(s.Signers) != 1 {
		return errors.Join(errors.New("it has no signed data of one signer"), err)
	}
	sum := sha256.Sum256(data)
	return s.checkSigner(c, sum[:])
}

// checkSigner verifies the signature over the content whose digest is given, through the attributes where there are
// any.
func (s *signedData) checkSigner(c *x509.Certificate, content []byte) error {
	signer := s.Signers[0]
	key, ok := c.PublicKey.(*rsa.PublicKey)
	if !ok || !signer.DigestAlgorithm.Algorithm.Equal(oidSHA256) ||
		!signer.SignatureAlgorithm.Algorithm.Equal(oidRSA) && !signer.SignatureAlgorithm.Algorithm.Equal(oidSHA256RSA) {
		return errors.New("it is not signed with RSA and SHA-256")
	}
	digest := content
	if len(signer.Attributes.FullBytes) > 0 {
		set, err := asn1.Marshal(asn1.RawValue{Class: asn1.ClassUniversal, Tag: asn1.TagSet, IsCompound: true, Bytes: signer.Attributes.Bytes})
		if err != nil {
			return err
		}
		var list []attribute
		if _, err := asn1.UnmarshalWithParams(set, &list, "set"); err != nil {
			return fmt.Errorf("its attributes: %w", err)
		}
		if !hasDigest(list, content) {
			return errors.New("its attributes name another content")
		}
		sum := sha256.Sum256(set)
		digest = sum[:]
	}
	if err := rsa.VerifyPKCS1v15(key, crypto.SHA256, digest, signer.Signature); err != nil {
		return errors.New("the signature was not made with its certificate")
	}
	return nil
}

func hasDigest(list []attribute, digest []byte) bool {
	for _, a := range list {
		if a.Type.Equal(oidMessageDigest) && len(a.Values) == 1 {
			return string(a.Values[0].Bytes) == string(digest)
		}
	}
	return false
}
