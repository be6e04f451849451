package secureboot

import (
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"time"
	"unicode/utf16"

	"github.com/google/uuid"

	"spore/pki/authenticode"
	"spore/pki/siglist"
)

// GUIDs of UEFI 2.10: EFI_GLOBAL_VARIABLE and EFI_IMAGE_SECURITY_DATABASE_GUID name variables (3.3 and 32.6.1).
var (
	globalVariable        = uuid.MustParse("8be4df61-93ca-11d2-aa0d-00e098032b8c")
	imageSecurityDatabase = uuid.MustParse("d719b2cb-3d3a-4596-a3bc-dad00e67656f")
)

// variableAttributes are those that all Secure Boot variables have: non-volatile, for boot services and at run time,
// written by authenticated writes with a time (8.2.1).
const variableAttributes = 0x1 | 0x2 | 0x4 | 0x20

// maxVariables bounds the variables of a store.
const maxVariables = 256

// Variable is a variable of the firmware.
type Variable struct {
	// Name is the variable's: PK, KEK or db. File is the name of its files: there are two contents for PK.
	Name, File string
	// List is the content, signature lists (.esl). Auth is the same as a write that the firmware takes (.auth).
	List, Auth []byte
}

// authenticate is a write of a variable: EFI_VARIABLE_AUTHENTICATION_2 (8.2.2) and the new content.
func (s *Signer) authenticate(name string, vendor uuid.UUID, content []byte, when time.Time) ([]byte, error) {
	return s.authenticateAs(name, vendor, content, when, variableAttributes)
}

func (s *Signer) authenticateAs(name string, vendor uuid.UUID, content []byte, when time.Time, attributes uint32) ([]byte, error) {
	stamp := siglist.Time(when)
	signature, err := authenticode.SignDetached(s.Key, s.Certificate, signedWrite(name, vendor, stamp, content, attributes))
	if err != nil {
		return nil, err
	}
	return siglist.Write{Time: stamp, Signature: signature, Content: content}.Encode(), nil
}

// signedWrite is what the signature of a write covers.
func signedWrite(name string, vendor uuid.UUID, stamp, content []byte, attributes uint32) []byte {
	le := binary.LittleEndian
	var out []byte
	for _, c := range utf16.Encode([]rune(name)) { // without a final NUL
		out = le.AppendUint16(out, c)
	}
	out = append(out, siglist.GUID(vendor)...)
	out = le.AppendUint32(out, attributes)
	out = append(out, stamp...)
	return append(out, content...)
}

// WrittenCertificates are the certificates that a write of a variable (.auth) brings. Its signature is not checked.
func WrittenCertificates(auth []byte) ([]siglist.Entry, error) {
	w, err := siglist.ParseWrite(auth)
	if err != nil {
		return nil, err
	}
	return siglist.Certificates(w.Content)
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
	w, err := siglist.ParseWrite(data)
	if err != nil {
		return nil, err
	}
	attributes := uint32(variableAttributes)
	if name == "dbx" {
		attributes |= appendWrite
	}
	if err := authenticode.CheckDetached(w.Signature, by, signedWrite(name, vendor, w.Time, w.Content, attributes)); err != nil {
		return nil, err
	}
	return w.Content, nil
}
