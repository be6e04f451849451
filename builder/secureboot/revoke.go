package secureboot

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
)

// certSHA256 is EFI_CERT_SHA256_GUID (UEFI 2.10, section 32.4.1).
var certSHA256 = uuid.MustParse("c1c41626-504c-4092-aca9-41f936934328")

// revoker owns the entries of dbx that we make, so that the same program is the same entry whoever revokes it, and
// firmware that has it takes no second one: RFC 9562 version 8, from the SHA-256 of "spore revoked program".
var revoker = uuid.MustParse("fe06a705-6687-87aa-9e81-56b3a7e06729")

// appendWrite is EFI_VARIABLE_APPEND_WRITE (8.2.1): the firmware adds what is new and keeps what it has.
const appendWrite = 0x40

// Hash is a program's, as firmware computes it to look into dbx: Authenticode's SHA-256.
type Hash [sha256.Size]byte

// HashOf computes a program's. The signature in the program is not part of it.
func HashOf(r io.ReaderAt, size int64) (Hash, error) {
	p, err := readProgram(r, size)
	if err != nil {
		return Hash{}, err
	}
	sum, err := p.digest()
	if err != nil {
		return Hash{}, err
	}
	return Hash(sum), nil
}

// maxRevoked bounds the entries of one write; firmware has little room for dbx.
const maxRevoked = 64

// Revoke makes a write that adds programs to dbx, so that no firmware that takes it starts them whoever signed them. s
// is the key exchange key (KEK).
func (s *Signer) Revoke(programs []Hash, when time.Time) (Variable, error) {
	if len(programs) == 0 || len(programs) > maxRevoked {
		return Variable{}, fmt.Errorf("revoke %d programs in one write: at least one, and at most %d", len(programs), maxRevoked)
	}
	list := EncodeHashes(programs)
	auth, err := s.authenticateAs("dbx", imageSecurityDatabase, list, when, variableAttributes|appendWrite)
	if err != nil {
		return Variable{}, fmt.Errorf("sign the variable dbx: %w", err)
	}
	return Variable{Name: "dbx", File: "dbx", List: list, Auth: auth}, nil
}

// EncodeHashes writes one signature list of hashes.
func EncodeHashes(programs []Hash) []byte {
	const size = ownerSize + sha256.Size
	le := binary.LittleEndian
	out := guid(certSHA256)
	out = le.AppendUint32(out, uint32(listHeader+size*len(programs)))
	out = le.AppendUint32(out, 0)
	out = le.AppendUint32(out, size)
	for _, p := range programs {
		out = append(out, guid(revoker)...)
		out = append(out, p[:]...)
	}
	return out
}

// ParseHashes reads the hashes of signature lists. Lists of certificates are passed over.
func ParseHashes(data []byte) ([]Hash, error) {
	if len(data) > maxVariable {
		return nil, fmt.Errorf("read signature lists: %d bytes are more than any variable", len(data))
	}
	le := binary.LittleEndian
	var out []Hash
	for len(data) > 0 {
		if len(data) < listHeader {
			return nil, errors.New("read signature lists: they are cut short")
		}
		size, header, each := uint64(le.Uint32(data[16:])), uint64(le.Uint32(data[20:])), uint64(le.Uint32(data[24:]))
		if size > uint64(len(data)) || header+listHeader > size || each <= ownerSize || (size-listHeader-header)%each != 0 {
			return nil, errors.New("read signature lists: their sizes do not fit each other")
		}
		list, kind := data[listHeader+header:size], parseGUID(data)
		data = data[size:]
		if kind != certSHA256 {
			continue
		}
		if each != ownerSize+sha256.Size {
			return nil, fmt.Errorf("read signature lists: an entry with a hash has %d bytes", each)
		}
		for ; len(list) > 0; list = list[each:] {
			out = append(out, Hash(list[ownerSize:each]))
		}
	}
	return out, nil
}
