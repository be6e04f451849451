package secureboot

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unicode/utf16"

	"github.com/google/uuid"
)

// GUIDs of UEFI 2.10: EFI_GLOBAL_VARIABLE and EFI_IMAGE_SECURITY_DATABASE_GUID name variables (3.3 and 32.6.1),
// EFI_CERT_X509_GUID and EFI_CERT_TYPE_PKCS7_GUID kinds of content (32.4.1 and 8.2.2).
var (
	globalVariable        = uuid.MustParse("8be4df61-93ca-11d2-aa0d-00e098032b8c")
	imageSecurityDatabase = uuid.MustParse("d719b2cb-3d3a-4596-a3bc-dad00e67656f")
	certX509              = uuid.MustParse("a5c059a1-94e4-4aa7-87b5-ab155c2bf072")
	certPKCS7             = uuid.MustParse("4aafd29d-68df-49ee-8aa9-347d375665a7")
)

// variableAttributes are those that all Secure Boot variables have: non-volatile, for boot services and at run time,
// written by authenticated writes with a time (8.2.1).
const variableAttributes = 0x1 | 0x2 | 0x4 | 0x20

// Sizes and numbers of the formats.
const (
	listHeader   = 28 // EFI_SIGNATURE_LIST
	ownerSize    = 16
	timeSize     = 16 // EFI_TIME
	authHeader   = timeSize + 8 + ownerSize
	winCertGUID  = 0x0ef1 // WIN_CERT_TYPE_EFI_GUID
	maxVariable  = 1 << 20
	maxVariables = 256
)

// Variable is a variable of the firmware.
type Variable struct {
	// Name is the variable's: PK, KEK or db. File is the name of its files: there are two contents for PK.
	Name, File string
	// List is the content, signature lists (.esl). Auth is the same as a write that the firmware takes (.auth).
	List, Auth []byte
}

// Entry is a certificate in a signature list.
type Entry struct {
	// Owner tells whose entry it is, so that it can be found again.
	Owner       uuid.UUID
	Certificate *x509.Certificate
}

// guid is a GUID as UEFI stores it: its first three fields are little-endian.
func guid(u uuid.UUID) []byte {
	return []byte{u[3], u[2], u[1], u[0], u[5], u[4], u[7], u[6], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]}
}

func parseGUID(b []byte) uuid.UUID { return uuid.UUID(guid(uuid.UUID(b[:16]))) }

// EncodeList writes one signature list for each certificate, because the entries of one list have one size (32.4.1).
func EncodeList(entries []Entry) []byte {
	var out []byte
	le := binary.LittleEndian
	for _, e := range entries {
		size := ownerSize + len(e.Certificate.Raw)
		out = append(out, guid(certX509)...)
		out = le.AppendUint32(out, uint32(listHeader+size))
		out = le.AppendUint32(out, 0)
		out = le.AppendUint32(out, uint32(size))
		out = append(out, guid(e.Owner)...)
		out = append(out, e.Certificate.Raw...)
	}
	return out
}

// ParseList reads the certificates of signature lists. Lists of another kind, such as hashes, are passed over.
func ParseList(data []byte) ([]Entry, error) {
	if len(data) > maxVariable {
		return nil, fmt.Errorf("read signature lists: %d bytes are more than any variable", len(data))
	}
	le := binary.LittleEndian
	var out []Entry
	for len(data) > 0 {
		if len(data) < listHeader {
			return nil, errors.New("read signature lists: they are cut short")
		}
		size, header, each := uint64(le.Uint32(data[16:])), uint64(le.Uint32(data[20:])), uint64(le.Uint32(data[24:]))
		if size > uint64(len(data)) || header+listHeader > size || each <= ownerSize || (size-listHeader-header)%each != 0 {
			return nil, errors.New("read signature lists: their sizes do not fit each other")
		}
		list := data[listHeader+header : size]
		kind := parseGUID(data)
		data = data[size:]
		for ; kind == certX509 && len(list) > 0; list = list[each:] {
			if len(out) == maxVariables {
				return nil, fmt.Errorf("read signature lists: there are more than %d certificates", maxVariables)
			}
			c, err := x509.ParseCertificate(list[ownerSize:each])
			if err != nil {
				return nil, fmt.Errorf("read signature lists: %w", err)
			}
			out = append(out, Entry{parseGUID(list), c})
		}
	}
	return out, nil
}

// authenticate is a write of a variable: EFI_VARIABLE_AUTHENTICATION_2 (8.2.2) and the new content.
func (s *Signer) authenticate(name string, vendor uuid.UUID, content []byte, when time.Time) ([]byte, error) {
	return s.authenticateAs(name, vendor, content, when, variableAttributes)
}

func (s *Signer) authenticateAs(name string, vendor uuid.UUID, content []byte, when time.Time, attributes uint32) ([]byte, error) {
	stamp := efiTime(when)
	signature, err := s.detached(signedWrite(name, vendor, stamp, content, attributes))
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	out := bytes.Clone(stamp)
	out = le.AppendUint32(out, uint32(8+ownerSize+len(signature)))
	out = le.AppendUint16(out, winCertRevision)
	out = le.AppendUint16(out, winCertGUID)
	out = append(out, guid(certPKCS7)...)
	out = append(out, signature...)
	return append(out, content...), nil
}

// signedWrite is what the signature of a write covers.
func signedWrite(name string, vendor uuid.UUID, stamp, content []byte, attributes uint32) []byte {
	le := binary.LittleEndian
	var out []byte
	for _, c := range utf16.Encode([]rune(name)) { // without a final NUL
		out = le.AppendUint16(out, c)
	}
	out = append(out, guid(vendor)...)
	out = le.AppendUint32(out, attributes)
	out = append(out, stamp...)
	return append(out, content...)
}

// efiTime is EFI_TIME (8.3) in UTC. The fields below a second have to be zero in a write.
func efiTime(t time.Time) []byte {
	t = t.UTC()
	b := make([]byte, timeSize)
	binary.LittleEndian.PutUint16(b, uint16(t.Year()))
	b[2], b[3], b[4], b[5], b[6] = byte(t.Month()), byte(t.Day()), byte(t.Hour()), byte(t.Minute()), byte(t.Second())
	return b
}

// WrittenCertificates are the certificates that a write of a variable (.auth) brings. Its signature is not checked.
func WrittenCertificates(auth []byte) ([]Entry, error) {
	if len(auth) < authHeader || len(auth) > maxVariable {
		return nil, fmt.Errorf("%d bytes cannot be a write of a variable", len(auth))
	}
	length := uint64(binary.LittleEndian.Uint32(auth[timeSize:]))
	if length < 8+ownerSize || length > uint64(len(auth)-timeSize) {
		return nil, errors.New("a write of a variable whose sizes do not fit each other")
	}
	return ParseList(auth[timeSize+length:])
}

// CheckWrite reads a write of a variable (.auth), verifies its signature with the certificate of by, and returns the content
// that it writes.
func CheckWrite(data []byte, name string, by *x509.Certificate) ([]byte, error) {
	content, err := checkWrite(data, name, by)
	if err != nil {
		return nil, fmt.Errorf("check the write of %s: %w", name, err)
	}
	return content, nil
}

func checkWrite(data []byte, name string, by *x509.Certificate) ([]byte, error) {
	vendor := globalVariable
	if name == "db" || name == "dbx" {
		vendor = imageSecurityDatabase
	}
	le := binary.LittleEndian
	if len(data) < authHeader || len(data) > maxVariable {
		return nil, fmt.Errorf("%d bytes cannot be one", len(data))
	}
	length := uint64(le.Uint32(data[timeSize:]))
	if length < 8+ownerSize || length > uint64(len(data)-timeSize) ||
		le.Uint16(data[timeSize+4:]) != winCertRevision || le.Uint16(data[timeSize+6:]) != winCertGUID ||
		parseGUID(data[timeSize+8:]) != certPKCS7 {
		return nil, errors.New("it has no PKCS #7 signature of UEFI's form")
	}
	var s signedData
	rest, err := asn1.Unmarshal(data[authHeader:timeSize+length], &s)
	if err != nil || len(rest) > 0 || len(s.Signers) != 1 {
		return nil, errors.Join(errors.New("it has no signed data of one signer"), err)
	}
	content := data[timeSize+length:]
	attributes := uint32(variableAttributes)
	if name == "dbx" {
		attributes |= appendWrite
	}
	sum := sha256.Sum256(signedWrite(name, vendor, data[:timeSize], content, attributes))
	if err := s.checkSigner(by, sum[:]); err != nil {
		return nil, err
	}
	return content, nil
}
