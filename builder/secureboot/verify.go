package secureboot

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

// maxSignatures bounds the entries of a certificate table that are read.
const maxSignatures = 16

// Signature is what a program's signature says, and whether it is right.
type Signature struct {
	// Subject and Issuer are those of the signer's certificate, and Fingerprint is its SHA-256.
	Subject     string    `json:"subject,omitempty"`
	Issuer      string    `json:"issuer,omitempty"`
	Fingerprint string    `json:"fingerprint,omitempty"`
	NotAfter    time.Time `json:"notAfter,omitzero"`
	// Problem says why firmware would refuse it, whatever it trusts; empty when nothing is wrong.
	Problem string `json:"problem,omitempty"`

	certificate *x509.Certificate
}

// Signatures reads the signatures of a PE file of size bytes and checks each against the file's content. None is no error.
// Whether anybody trusts the certificates is not checked.
func Signatures(r io.ReaderAt, size int64) ([]Signature, error) {
	p, err := readProgram(r, size)
	if err != nil {
		return nil, fmt.Errorf("read signatures: %w", err)
	}
	if p.certificates == 0 {
		return nil, nil
	}
	digest, err := p.digest()
	if err != nil {
		return nil, fmt.Errorf("read signatures: %w", err)
	}
	var out []Signature
	for off := p.end; off < p.size; {
		if len(out) == maxSignatures {
			return nil, fmt.Errorf("read signatures: there are more than %d", maxSignatures)
		}
		entry := make([]byte, winCertHeader)
		if _, err := io.ReadFull(io.NewSectionReader(r, off, p.size-off), entry); err != nil {
			return nil, errors.New("read signatures: the table is cut short")
		}
		length := int64(binary.LittleEndian.Uint32(entry))
		if length <= winCertHeader || length > p.size-off || length > maxPKCS7 {
			return nil, fmt.Errorf("read signatures: an entry of %d bytes cannot be", length)
		}
		body := make([]byte, length-winCertHeader)
		if _, err := io.ReadFull(io.NewSectionReader(r, off+winCertHeader, length-winCertHeader), body); err != nil {
			return nil, fmt.Errorf("read signatures: %w", err)
		}
		if binary.LittleEndian.Uint16(entry[4:]) != winCertRevision || binary.LittleEndian.Uint16(entry[6:]) != winCertPKCS7 {
			out = append(out, Signature{Problem: "an entry of another kind than PKCS #7"})
		} else {
			out = append(out, readSignature(body, digest))
		}
		off += length + padding(length)
	}
	return out, nil
}

// readSignature reads and checks one signature.
func readSignature(der, digest []byte) Signature {
	signed, err := parseSigned(der)
	if err != nil {
		return Signature{Problem: err.Error()}
	}
	c, err := signed.certificate()
	if err != nil {
		return Signature{Problem: err.Error()}
	}
	s := Signature{
		Subject: c.Subject.String(), Issuer: c.Issuer.String(), Fingerprint: Fingerprint(c), NotAfter: c.NotAfter.UTC(), certificate: c,
	}
	if err := signed.checkProgram(c, digest); err != nil {
		s.Problem = err.Error()
	}
	return s
}

// checkProgram compares an Authenticode signature with the digest of a program.
func (s *signedData) checkProgram(c *x509.Certificate, digest []byte) error {
	if !s.Content.Type.Equal(oidIndirectData) {
		return errors.New("it is not a signature of a program")
	}
	var content indirectData
	if _, err := asn1.Unmarshal(s.Content.Content.Bytes, &content); err != nil {
		return fmt.Errorf("its content: %w", err)
	}
	if !content.Digest.Algorithm.Algorithm.Equal(oidSHA256) {
		return errors.New("it has another digest than SHA-256")
	}
	sum, err := valueDigest(s.Content.Content.Bytes)
	if err != nil {
		return fmt.Errorf("its content: %w", err)
	}
	if err := s.checkSigner(c, sum); err != nil {
		return err
	}
	if !bytes.Equal(content.Digest.Digest, digest) {
		return errors.New("the program was changed after it was signed")
	}
	return nil
}

// Certificate returns the certificate of the first signature, or nil when there is none. A signature that is wrong is an
// error.
func Certificate(pe []byte) (*x509.Certificate, error) {
	list, err := Signatures(bytes.NewReader(pe), int64(len(pe)))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if list[0].Problem != "" {
		return nil, fmt.Errorf("read signature: %s", list[0].Problem)
	}
	return list[0].certificate, nil
}

// CheckSigner returns an error unless one of the signatures of a program is right and by a certificate. Firmware takes
// a program by any of its signatures, so one of another signer beside it does no harm.
func CheckSigner(pe []byte, c *x509.Certificate) error {
	list, err := Signatures(bytes.NewReader(pe), int64(len(pe)))
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("it is not signed")
	}
	said := ""
	for _, s := range list {
		switch {
		case s.Problem != "":
			said = "its signature is wrong: " + s.Problem
		case s.certificate.Equal(c):
			return nil
		default:
			said = fmt.Sprintf("it is signed by %.80q (SHA-256 %.16s…)", s.Subject, s.Fingerprint)
		}
	}
	return errors.New(said)
}

// Fingerprint is the SHA-256 of a certificate, in hexadecimal digits.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// Digest is the hash that a program is known by, to signatures and to whoever measures what the firmware starts: that
// of Authenticode with SHA-256. Signatures are not part of it.
func Digest(r io.ReaderAt, size int64) ([sha256.Size]byte, error) {
	p, err := readProgram(r, size)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("hash a program: %w", err)
	}
	sum, err := p.digest()
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("hash a program: %w", err)
	}
	return [sha256.Size]byte(sum), nil
}

// DigestInMemory is what firmware measures of a program that zeros follow, up to size bytes in all, as they follow a
// kernel in a section of a UKI. It takes the signatures for the last bytes of what it is given (EDK2,
// MeasurePeImageAndExtend), so that here it hashes them and leaves out as many zeros.
func DigestInMemory(pe []byte, size int64) ([sha256.Size]byte, error) {
	p, err := readProgram(bytes.NewReader(pe), int64(len(pe)))
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("hash a program: %w", err)
	}
	if size < int64(len(pe)) || size > 1<<31 {
		return [sha256.Size]byte{}, fmt.Errorf("hash a program: %d bytes of memory for a file of %d", size, len(pe))
	}
	memory := make([]byte, size)
	copy(memory, pe)
	h := sha256.New()
	for _, r := range [][2]int64{{0, p.checkSum}, {p.checkSum + 4, p.directory}, {p.directory + 8, size - p.certificates}} {
		h.Write(memory[r[0]:r[1]])
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
