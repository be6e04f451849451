// Package authenticode tells who signed a program for UEFI, by Microsoft's "Windows Authenticode Portable Executable
// Signature Format": PKCS #7 signed data (RFC 2315) of one signer, RSA and SHA-256. Firmware checks the same before it
// starts a program; a node that takes a configuration at once takes it before any firmware has seen it.
//
// It knows what `spore` signs, and refuses what other verifiers could read in another way. It leaves out chains, time
// stamps and the end of certificates, which firmware does not look at either, and whom to trust.
package authenticode

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
)

// Bounds: of signatures in a program, and of one in bytes.
const (
	maxSignatures = 16
	maxSignature  = 64 << 10
)

// Kind and revision of an entry of the table (PE Format, "The Attribute Certificate Table").
const (
	entryHeader   = 8
	entryRevision = 0x0200
	entryPKCS7    = 0x0002
)

// Object identifiers of PKCS #7 and #9, of RSA and SHA-2, and of Authenticode.
var (
	oidSignedData    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	oidMessageDigest = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 4}
	oidRSA           = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
	oidSHA256RSA     = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}
	oidSHA256        = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}
	oidIndirectData  = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 1, 4}
)

// The structures of PKCS #7, version 1.5 (RFC 2315), sections 7 and 9, and of the content of a signature of a program.
type (
	contentInfo struct {
		Type    asn1.ObjectIdentifier
		Content asn1.RawValue `asn1:"optional,tag:0"` // explicit: with the tag around it
	}
	signedData struct {
		Version      int
		Digests      []pkix.AlgorithmIdentifier `asn1:"set"`
		Content      contentInfo
		Certificates asn1.RawValue `asn1:"optional,tag:0"`
		CRLs         asn1.RawValue `asn1:"optional,tag:1"`
		Signers      []signerInfo  `asn1:"set"`
	}
	signerInfo struct {
		Version     int
		Certificate struct {
			Issuer asn1.RawValue
			Serial *big.Int
		}
		Digest          pkix.AlgorithmIdentifier
		Attributes      asn1.RawValue `asn1:"optional,tag:0"`
		Algorithm       pkix.AlgorithmIdentifier
		Signature       []byte
		Unauthenticated asn1.RawValue `asn1:"optional,tag:1"`
	}
	attribute struct {
		Type   asn1.ObjectIdentifier
		Values []asn1.RawValue `asn1:"set"`
	}
	indirectData struct {
		Data   asn1.RawValue
		Digest struct {
			Algorithm pkix.AlgorithmIdentifier
			Digest    []byte
		}
	}
)

// Signers are the certificates of those who signed a program of size bytes; none when it is not signed. A signature
// that does not hold is an error, whoever else signed.
func Signers(r io.ReaderAt, size int64) ([]*x509.Certificate, error) {
	p, err := readProgram(r, size)
	if err != nil {
		return nil, err
	}
	digest, err := p.digest()
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	table := make([]byte, p.size-p.end)
	if _, err := r.ReadAt(table, p.end); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read its signatures: %w", err)
	}
	var out []*x509.Certificate
	for len(table) > 0 {
		if len(out) == maxSignatures {
			return nil, fmt.Errorf("it has more than %d signatures", maxSignatures)
		}
		if len(table) < entryHeader {
			return nil, errors.New("its signature is cut short")
		}
		le, length := binary.LittleEndian, int64(binary.LittleEndian.Uint32(table))
		if length < entryHeader || length > int64(len(table)) || length > maxSignature {
			return nil, fmt.Errorf("its signature has %d bytes, of %d", length, len(table))
		}
		if le.Uint16(table[4:]) != entryRevision || le.Uint16(table[6:]) != entryPKCS7 {
			return nil, errors.New("its signature is of another kind than PKCS #7")
		}
		c, err := signer(table[entryHeader:length], digest)
		if err != nil {
			return nil, fmt.Errorf("its signature does not hold: %w", err)
		}
		out = append(out, c)
		table = table[min(length+padding(length), int64(len(table))):]
	}
	return out, nil
}

// signer is the certificate of one signature, which has to be one over a program with this digest.
func signer(der, digest []byte) (*x509.Certificate, error) {
	var outer contentInfo
	if _, err := asn1.Unmarshal(der, &outer); err != nil { // Zeros may follow: entries are padded.
		return nil, fmt.Errorf("it is no PKCS #7: %w", err)
	}
	if !outer.Type.Equal(oidSignedData) {
		return nil, errors.New("it is not signed data")
	}
	var s signedData
	if rest, err := asn1.Unmarshal(outer.Content.Bytes, &s); err != nil || len(rest) > 0 {
		return nil, errors.Join(errors.New("it is not signed data of PKCS #7"), err)
	}
	if len(s.Signers) != 1 {
		return nil, fmt.Errorf("it has %d signers, and one is expected", len(s.Signers))
	}
	c, err := s.certificate()
	if err != nil {
		return nil, err
	}
	sum, err := s.content(digest)
	if err != nil {
		return nil, err
	}
	return c, s.Signers[0].check(c, sum)
}

// certificate is that of the signer.
func (s *signedData) certificate() (*x509.Certificate, error) {
	list, err := x509.ParseCertificates(s.Certificates.Bytes)
	if err != nil {
		return nil, fmt.Errorf("its certificates: %w", err)
	}
	want := s.Signers[0].Certificate
	for _, c := range list {
		if want.Serial != nil && c.SerialNumber.Cmp(want.Serial) == 0 && bytes.Equal(c.RawIssuer, want.Issuer.FullBytes) {
			return c, nil
		}
	}
	return nil, errors.New("the certificate of its signer is not in it")
}

// content holds what was signed to the digest of the program, and returns its own.
func (s *signedData) content(digest []byte) ([]byte, error) {
	if !s.Content.Type.Equal(oidIndirectData) {
		return nil, errors.New("it is not over a program")
	}
	var what indirectData
	if rest, err := asn1.Unmarshal(s.Content.Content.Bytes, &what); err != nil || len(rest) > 0 {
		return nil, errors.Join(errors.New("its content is none of a signature over a program"), err)
	}
	if !what.Digest.Algorithm.Algorithm.Equal(oidSHA256) {
		return nil, errors.New("it has another digest than SHA-256")
	}
	if !bytes.Equal(what.Digest.Digest, digest) {
		return nil, errors.New("the program was changed after it was signed")
	}
	// Without tag and length (RFC 2315, section 9.3).
	var inner asn1.RawValue
	if _, err := asn1.Unmarshal(s.Content.Content.Bytes, &inner); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(inner.Bytes)
	return sum[:], nil
}

// check verifies the signature over content with a digest.
func (s *signerInfo) check(c *x509.Certificate, digest []byte) error {
	key, ok := c.PublicKey.(*rsa.PublicKey)
	if !ok || !s.Digest.Algorithm.Equal(oidSHA256) ||
		!s.Algorithm.Algorithm.Equal(oidRSA) && !s.Algorithm.Algorithm.Equal(oidSHA256RSA) {
		return errors.New("it is not by RSA and SHA-256")
	}
	// They are hashed as a SET and stored with the tag 0 (RFC 2315, section 9.3).
	set, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSet, IsCompound: true, Bytes: s.Attributes.Bytes})
	if err != nil {
		return err
	}
	var list []attribute
	if _, err := asn1.UnmarshalWithParams(set, &list, "set"); err != nil {
		return fmt.Errorf("its attributes: %w", err)
	}
	named := false
	for _, a := range list {
		named = named || a.Type.Equal(oidMessageDigest) && len(a.Values) == 1 && bytes.Equal(a.Values[0].Bytes, digest)
	}
	if !named {
		return errors.New("its attributes name another content")
	}
	sum := sha256.Sum256(set)
	if err := rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], s.Signature); err != nil {
		return errors.New("it is not by the key of its certificate")
	}
	return nil
}
