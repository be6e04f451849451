// Package dbx brings revocations of images to the machine's firmware: hashes that the firmware adds to its list dbx,
// and whose programs it starts no more (UEFI 2.10, section 32.4). The key exchange key of the machine has signed them,
// and the firmware checks that; what is checked here is what they would do to this machine.
package dbx

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes and numbers of the formats (UEFI 2.10, sections 8.2.2 and 32.4.1).
const (
	timeSize    = 16
	certHeader  = 8
	guidSize    = 16
	listHeader  = 28
	entrySize   = guidSize + sha256.Size
	winCertGUID = 0x0ef1
	// MaxSize bounds a write, and the list that a firmware has, in bytes.
	MaxSize = 64 << 10
)

// GUIDs as they are stored: EFI_CERT_SHA256_GUID and EFI_CERT_TYPE_PKCS7_GUID.
var (
	certSHA256 = []byte{0x26, 0x16, 0xc4, 0xc1, 0x4c, 0x50, 0x92, 0x40, 0xac, 0xa9, 0x41, 0xf9, 0x36, 0x93, 0x43, 0x28}
	certPKCS7  = []byte{0x9d, 0xd2, 0xaf, 0x4a, 0xdf, 0x68, 0xee, 0x49, 0x8a, 0xa9, 0x34, 0x7d, 0x37, 0x56, 0x65, 0xa7}
)

// Hash is a program's, as firmware computes it: Authenticode's SHA-256.
type Hash [sha256.Size]byte

// Write is a signed write that adds hashes to dbx.
type Write struct {
	// Auth is all of it, as the firmware takes it.
	Auth []byte
	list []byte
}

// Parse reads a write, whose signature is the firmware's to check. It brings one list of hashes and nothing else.
func Parse(auth []byte) (Write, error) {
	le := binary.LittleEndian
	if len(auth) > MaxSize || len(auth) < timeSize+certHeader+guidSize {
		return Write{}, fmt.Errorf("a write of dbx with %d bytes", len(auth))
	}
	length := uint64(le.Uint32(auth[timeSize:]))
	if length < certHeader+guidSize || length > uint64(len(auth)-timeSize) || le.Uint16(auth[timeSize+6:]) != winCertGUID ||
		!bytes.Equal(auth[timeSize+certHeader:timeSize+certHeader+guidSize], certPKCS7) {
		return Write{}, errors.New("it is not a signed write of dbx; make it with `spore keys revoke`")
	}
	w := Write{Auth: auth, list: auth[timeSize+length:]}
	entries, rest, err := next(w.list)
	if err != nil || len(rest) > 0 || len(entries) == 0 {
		return Write{}, errors.Join(errors.New("it holds something else than one list of hashes; make it with `spore keys revoke`"), err)
	}
	return w, nil
}

// Hashes are the programs that it revokes.
func (w Write) Hashes() (out []Hash) {
	entries, _, _ := next(w.list)
	for _, e := range entries {
		out = append(out, Hash(e[guidSize:]))
	}
	return out
}

// next reads the first list; entries is nil for one of another kind than hashes.
func next(data []byte) (entries [][]byte, rest []byte, err error) {
	le := binary.LittleEndian
	if len(data) < listHeader {
		return nil, nil, errors.New("a list of dbx is cut short")
	}
	size, header, each := uint64(le.Uint32(data[16:])), uint64(le.Uint32(data[20:])), uint64(le.Uint32(data[24:]))
	if size > uint64(len(data)) || header+listHeader > size || each == 0 || (size-listHeader-header)%each != 0 {
		return nil, nil, errors.New("a list of dbx has sizes that do not fit each other")
	}
	rest = data[size:]
	if !bytes.Equal(data[:guidSize], certSHA256) || each != entrySize {
		return nil, rest, nil
	}
	for list := data[listHeader+header : size]; len(list) > 0; list = list[entrySize:] {
		entries = append(entries, list[:entrySize])
	}
	return entries, rest, nil
}

// After is what dbx holds when the firmware has added the write to content: it adds what it does not have, as one list
// (EDK II, FilterSignatureList). Firmware that does otherwise is found out after the write.
func (w Write) After(content []byte) ([]byte, error) {
	have := map[string]bool{}
	for rest := content; len(rest) > 0; {
		entries, more, err := next(rest)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			have[string(e)] = true
		}
		rest = more
	}
	entries, _, err := next(w.list)
	if err != nil {
		return nil, err
	}
	var fresh []byte
	for _, e := range entries {
		if !have[string(e)] {
			fresh = append(fresh, e...)
		}
	}
	if len(fresh) == 0 {
		return content, nil
	}
	out := append(bytes.Clone(content), w.list[:listHeader]...)
	header := out[len(content):]
	binary.LittleEndian.PutUint32(header[16:], uint32(listHeader+len(fresh)))
	binary.LittleEndian.PutUint32(header[20:], 0)
	return append(out, fresh...), nil
}
