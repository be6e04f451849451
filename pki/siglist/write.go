package siglist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// certPKCS7 is EFI_CERT_TYPE_PKCS7_GUID, the kind of a write's signature.
var certPKCS7 = uuid.MustParse("4aafd29d-68df-49ee-8aa9-347d375665a7")

// Sizes and numbers of EFI_VARIABLE_AUTHENTICATION_2 (UEFI 2.10, section 8.2.2).
const (
	timeSize        = 16 // EFI_TIME
	certHeader      = 8 + ownerSize
	winCertRevision = 0x0200
	winCertGUID     = 0x0ef1 // WIN_CERT_TYPE_EFI_GUID
)

// Write is a write of a variable, as the firmware takes it.
type Write struct {
	// Time is EFI_TIME, Signature the PKCS #7 signed data over it and the rest, and Content what is written.
	Time, Signature, Content []byte
}

// Encode is the write in one piece.
func (w Write) Encode() []byte {
	le := binary.LittleEndian
	out := append([]byte(nil), w.Time...)
	out = le.AppendUint32(out, uint32(certHeader+len(w.Signature)))
	out = le.AppendUint16(le.AppendUint16(out, winCertRevision), winCertGUID)
	out = append(append(out, GUID(certPKCS7)...), w.Signature...)
	return append(out, w.Content...)
}

// ParseWrite reads a write. Its signature is not checked.
func ParseWrite(auth []byte) (Write, error) {
	le := binary.LittleEndian
	if len(auth) < timeSize+certHeader || len(auth) > MaxSize {
		return Write{}, fmt.Errorf("%d bytes cannot be a write of a variable", len(auth))
	}
	length := uint64(le.Uint32(auth[timeSize:]))
	if length < certHeader || length > uint64(len(auth)-timeSize) {
		return Write{}, errors.New("a write of a variable whose sizes do not fit each other")
	}
	if le.Uint16(auth[timeSize+4:]) != winCertRevision || le.Uint16(auth[timeSize+6:]) != winCertGUID || ParseGUID(auth[timeSize+8:]) != certPKCS7 {
		return Write{}, errors.New("a write of a variable without a PKCS #7 signature of UEFI's form")
	}
	return Write{auth[:timeSize], auth[timeSize+certHeader : timeSize+length], auth[timeSize+length:]}, nil
}

// Time is EFI_TIME (section 8.3) in UTC. The fields below a second have to be zero in a write.
func Time(t time.Time) []byte {
	t = t.UTC()
	b := make([]byte, timeSize)
	binary.LittleEndian.PutUint16(b, uint16(t.Year()))
	b[2], b[3], b[4], b[5], b[6] = byte(t.Month()), byte(t.Day()), byte(t.Hour()), byte(t.Minute()), byte(t.Second())
	return b
}
