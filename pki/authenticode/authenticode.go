// Package authenticode makes and reads signatures of programs for UEFI, by Microsoft's "Windows Authenticode Portable
// Executable Signature Format": PKCS #7 signed data (RFC 2315) of one signer, RSA (PKCS #1 v1.5) and SHA-256. Builds
// sign with it, and a node that takes a configuration at once checks with it what no firmware has seen yet. The
// signatures of variables' writes, which are of the same form, are here too.
//
// What other verifiers could read in another way is refused. It leaves out chains, time stamps and the end of
// certificates, which firmware does not look at either, and whom to trust.
package authenticode

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

// maxSignatures bounds the entries of a table of signatures that are read.
const maxSignatures = 16

// Kind and revision of an entry of the table (PE Format, "The Attribute Certificate Table").
const (
	EntryHeader   = 8
	EntryRevision = 0x0200
	EntryPKCS7    = 0x0002
)

// Hash is what a program is known by, to signatures, to dbx and to whoever measures what the firmware starts.
// Signatures are not part of it.
type Hash [sha256.Size]byte

// HashOf computes a program's.
func HashOf(r io.ReaderAt, size int64) (Hash, error) {
	p, err := Read(r, size)
	if err != nil {
		return Hash{}, fmt.Errorf("hash a program: %w", err)
	}
	sum, err := p.Digest()
	if err != nil {
		return Hash{}, fmt.Errorf("hash a program: %w", err)
	}
	return sum, nil
}

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
	others      []*x509.Certificate
}

// Certificates are those that the signature brings: the signer's first, then those of its issuers in the order that
// they stand in. There are none where Problem says why the signer's is not known.
func (s Signature) Certificates() []*x509.Certificate {
	if s.certificate == nil {
		return nil
	}
	return append([]*x509.Certificate{s.certificate}, s.others...)
}

// Signatures reads the signatures of a PE file of size bytes and checks each against the file's content. None is no
// error. Whether anybody trusts the certificates is not checked.
func Signatures(r io.ReaderAt, size int64) ([]Signature, error) {
	_, list, err := Examine(r, size)
	return list, err
}

// Examine is the hash of a program and its signatures, as HashOf and Signatures have them, of one reading.
func Examine(r io.ReaderAt, size int64) (Hash, []Signature, error) {
	p, err := Read(r, size)
	if err != nil {
		return Hash{}, nil, fmt.Errorf("read signatures: %w", err)
	}
	digest, err := p.Digest()
	if err != nil {
		return Hash{}, nil, fmt.Errorf("read signatures: %w", err)
	}
	list, err := p.signatures(digest)
	return digest, list, err
}

// signatures reads the table of signatures, and checks each against the digest.
func (p *Program) signatures(digest Hash) ([]Signature, error) {
	if p.Table == 0 {
		return nil, nil
	}
	r := p.r
	var out []Signature
	for off := p.End; off < p.Size; {
		if len(out) == maxSignatures {
			return nil, fmt.Errorf("read signatures: there are more than %d", maxSignatures)
		}
		entry := make([]byte, EntryHeader)
		if _, err := io.ReadFull(io.NewSectionReader(r, off, p.Size-off), entry); err != nil {
			return nil, errors.New("read signatures: the table is cut short")
		}
		length := int64(binary.LittleEndian.Uint32(entry))
		if length <= EntryHeader || length > p.Size-off || length > maxPKCS7 {
			return nil, fmt.Errorf("read signatures: an entry of %d bytes cannot be", length)
		}
		body := make([]byte, length-EntryHeader)
		if _, err := io.ReadFull(io.NewSectionReader(r, off+EntryHeader, length-EntryHeader), body); err != nil {
			return nil, fmt.Errorf("read signatures: %w", err)
		}
		if binary.LittleEndian.Uint16(entry[4:]) != EntryRevision || binary.LittleEndian.Uint16(entry[6:]) != EntryPKCS7 {
			out = append(out, Signature{Problem: "an entry of another kind than PKCS #7"})
		} else {
			out = append(out, readSignature(body, digest))
		}
		off += length + Padding(length)
	}
	return out, nil
}

// readSignature reads and checks one signature.
func readSignature(der []byte, digest Hash) Signature {
	signed, err := parseSigned(der)
	if err != nil {
		return Signature{Problem: err.Error()}
	}
	c, others, err := signed.certificates()
	if err != nil {
		return Signature{Problem: err.Error()}
	}
	s := Signature{
		Subject: c.Subject.String(), Issuer: c.Issuer.String(), Fingerprint: Fingerprint(c), NotAfter: c.NotAfter.UTC(),
		certificate: c, others: others,
	}
	if err := signed.checkProgram(c, digest); err != nil {
		s.Problem = err.Error()
	}
	return s
}

// checkProgram compares an Authenticode signature with the digest of a program.
func (s *signedData) checkProgram(c *x509.Certificate, digest Hash) error {
	if !s.Content.Type.Equal(oidIndirectData) {
		return errors.New("it is not a signature of a program")
	}
	// Microsoft asks for attributes; without them other verifiers differ in what the signature is over.
	if len(s.Signers[0].Attributes.FullBytes) == 0 {
		return errors.New("it has no attributes")
	}
	var content indirectData
	if rest, err := asn1.Unmarshal(s.Content.Content.Bytes, &content); err != nil || len(rest) > 0 {
		return errors.Join(errors.New("its content is not a signature of a program"), err)
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
	if !bytes.Equal(content.Digest.Digest, digest[:]) {
		return errors.New("the program was changed after it was signed")
	}
	return nil
}

// Signers are the certificates of those who signed a program of size bytes; none when it is not signed. A signature
// that does not hold is an error, whoever else signed.
func Signers(r io.ReaderAt, size int64) ([]*x509.Certificate, error) {
	list, err := Signatures(r, size)
	if err != nil {
		return nil, err
	}
	var out []*x509.Certificate
	for _, s := range list {
		if s.Problem != "" {
			return nil, fmt.Errorf("its signature does not hold: %s", s.Problem)
		}
		out = append(out, s.certificate)
	}
	return out, nil
}

// Certificate returns the certificate of the first signature, or nil when there is none. A signature that is wrong is
// an error.
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

// HashInMemory is what firmware measures of a program that zeros follow, up to size bytes in all, as they follow a
// kernel in a section of a UKI. It takes the signatures for the last bytes of what it is given (EDK2,
// MeasurePeImageAndExtend), so that here it hashes them and leaves out as many zeros.
func HashInMemory(pe []byte, size int64) (Hash, error) {
	p, err := Read(bytes.NewReader(pe), int64(len(pe)))
	if err != nil {
		return Hash{}, fmt.Errorf("hash a program: %w", err)
	}
	if size < int64(len(pe)) || size > 1<<31 {
		return Hash{}, fmt.Errorf("hash a program: %d bytes of memory for a file of %d", size, len(pe))
	}
	memory := make([]byte, size)
	copy(memory, pe)
	h := sha256.New()
	for _, r := range [][2]int64{{0, p.CheckSum}, {p.CheckSum + 4, p.Row}, {p.Row + 8, size - p.Table}} {
		h.Write(memory[r[0]:r[1]])
	}
	return Hash(h.Sum(nil)), nil
}
