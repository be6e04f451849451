// Package siglist reads and writes what firmware keeps of Secure Boot: signature lists of certificates and of hashes
// (UEFI 2.10, section 32.4.1), and the signed writes that change them (section 8.2.2). Builds make them, nodes hand
// them to their firmware.
//
// It checks no signature, and passes over lists of other kinds.
package siglist

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"spore/pki/authenticode"
)

// Kinds of entries: EFI_CERT_X509_GUID and EFI_CERT_SHA256_GUID.
var (
	certX509   = uuid.MustParse("a5c059a1-94e4-4aa7-87b5-ab155c2bf072")
	certSHA256 = uuid.MustParse("c1c41626-504c-4092-aca9-41f936934328")
)

// Sizes of the formats, in bytes, and bounds.
const (
	listHeader = 28 // EFI_SIGNATURE_LIST
	ownerSize  = 16
	hashEntry  = ownerSize + sha256.Size
	// MaxSize bounds a variable of the firmware and a write of one.
	MaxSize = 1 << 20
	// maxEntries bounds the certificates of a variable.
	maxEntries = 256
)

// GUID is one as UEFI stores it: its first three fields are little-endian.
func GUID(u uuid.UUID) []byte {
	return []byte{u[3], u[2], u[1], u[0], u[5], u[4], u[7], u[6], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]}
}

// ParseGUID reads the first 16 bytes.
func ParseGUID(b []byte) uuid.UUID { return uuid.UUID(GUID(uuid.UUID(b[:16]))) }

// list is one signature list.
type list struct {
	kind uuid.UUID
	// entries are of one size, which is larger than that of an owner.
	entries [][]byte
}

// errCut and errSizes are lists that are not of their form.
var (
	errCut   = errors.New("read signature lists: they are cut short")
	errSizes = errors.New("read signature lists: their sizes do not fit each other")
)

// parse reads signature lists.
func parse(data []byte) (out []list, err error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("read signature lists: %d bytes are more than any variable", len(data))
	}
	le := binary.LittleEndian
	for len(data) > 0 {
		if len(data) < listHeader {
			return nil, errCut
		}
		size, header, each := uint64(le.Uint32(data[16:])), uint64(le.Uint32(data[20:])), uint64(le.Uint32(data[24:]))
		if size > uint64(len(data)) || header+listHeader > size {
			return nil, errSizes
		}
		// A list without entries may have no size of them.
		if all := size - listHeader - header; all > 0 && (each <= ownerSize || all%each != 0) {
			return nil, errSizes
		}
		l := list{kind: ParseGUID(data)}
		for body := data[listHeader+header : size]; len(body) > 0; body = body[each:] {
			l.entries = append(l.entries, body[:each])
		}
		if l.kind == certSHA256 && len(l.entries) > 0 && each != hashEntry {
			return nil, fmt.Errorf("read signature lists: an entry with a hash has %d bytes", each)
		}
		out, data = append(out, l), data[size:]
	}
	return out, nil
}

// header is the head of a list of entries of one size.
func header(kind uuid.UUID, size, n int) []byte {
	le := binary.LittleEndian
	out := le.AppendUint32(GUID(kind), uint32(listHeader+size*n))
	return le.AppendUint32(le.AppendUint32(out, 0), uint32(size))
}

// Entry is a certificate in a signature list.
type Entry struct {
	// Owner tells whose entry it is, so that it can be found again.
	Owner       uuid.UUID
	Certificate *x509.Certificate
}

// EncodeCertificates writes one signature list for each certificate, because the entries of one list have one size.
func EncodeCertificates(entries []Entry) []byte {
	var out []byte
	for _, e := range entries {
		out = append(out, header(certX509, ownerSize+len(e.Certificate.Raw), 1)...)
		out = append(out, GUID(e.Owner)...)
		out = append(out, e.Certificate.Raw...)
	}
	return out
}

// Certificates reads the certificates of signature lists.
func Certificates(data []byte) (out []Entry, err error) {
	lists, err := parse(data)
	if err != nil {
		return nil, err
	}
	for _, l := range lists {
		if l.kind != certX509 {
			continue
		}
		for _, e := range l.entries {
			if len(out) == maxEntries {
				return nil, fmt.Errorf("read signature lists: there are more than %d certificates", maxEntries)
			}
			c, err := x509.ParseCertificate(e[ownerSize:])
			if err != nil {
				return nil, fmt.Errorf("read signature lists: %w", err)
			}
			out = append(out, Entry{ParseGUID(e), c})
		}
	}
	return out, nil
}

// EncodeHashes writes one signature list of hashes of an owner.
func EncodeHashes(owner uuid.UUID, programs []authenticode.Hash) []byte {
	out := header(certSHA256, hashEntry, len(programs))
	for _, p := range programs {
		out = append(append(out, GUID(owner)...), p[:]...)
	}
	return out
}

// Hashes reads the hashes of signature lists.
func Hashes(data []byte) (out []authenticode.Hash, err error) {
	lists, err := parse(data)
	if err != nil {
		return nil, err
	}
	for _, l := range lists {
		if l.kind != certSHA256 {
			continue
		}
		for _, e := range l.entries {
			out = append(out, authenticode.Hash(e[ownerSize:]))
		}
	}
	return out, nil
}

// errList is what a write holds that brings something else than revocations.
var errList = errors.New("it holds something else than one list of hashes")

// CheckHashes wants data to be one signature list of hashes.
func CheckHashes(data []byte) error {
	lists, err := parse(data)
	if err != nil || len(lists) != 1 || lists[0].kind != certSHA256 || len(lists[0].entries) == 0 {
		return errors.Join(errList, err)
	}
	return nil
}

// AddHashes is what a variable with content holds when the firmware has added a list of hashes to it: it adds what it
// does not have, as one list (EDK II, FilterSignatureList).
func AddHashes(content, hashes []byte) ([]byte, error) {
	if err := CheckHashes(hashes); err != nil {
		return nil, err
	}
	had, err := parse(content)
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for _, l := range had {
		for _, e := range l.entries {
			have[string(e)] = have[string(e)] || l.kind == certSHA256
		}
	}
	added, err := parse(hashes)
	if err != nil {
		return nil, err
	}
	var fresh []byte
	n := 0
	for _, e := range added[0].entries {
		if !have[string(e)] {
			fresh, n = append(fresh, e...), n+1
		}
	}
	if n == 0 {
		return content, nil
	}
	return append(append(bytes.Clone(content), header(certSHA256, hashEntry, n)...), fresh...), nil
}
