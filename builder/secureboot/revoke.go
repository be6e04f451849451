package secureboot

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"spore/pki/authenticode"
	"spore/pki/siglist"
)

// revoker owns the entries of dbx that we make, so that the same program is the same entry whoever revokes it, and
// firmware that has it takes no second one: RFC 9562 version 8, from the SHA-256 of "spore revoked program".
var revoker = uuid.MustParse("fe06a705-6687-87aa-9e81-56b3a7e06729")

// appendWrite is EFI_VARIABLE_APPEND_WRITE (8.2.1): the firmware adds what is new and keeps what it has.
const appendWrite = 0x40

// maxRevoked bounds the entries of one write; firmware has little room for dbx.
const maxRevoked = 64

// Revoke makes a write that adds programs to dbx, so that no firmware that takes it starts them whoever signed them. s
// is the key exchange key (KEK).
func (s *Signer) Revoke(programs []authenticode.Hash, when time.Time) (Variable, error) {
	if len(programs) == 0 || len(programs) > maxRevoked {
		return Variable{}, fmt.Errorf("revoke %d programs in one write: at least one, and at most %d", len(programs), maxRevoked)
	}
	list := siglist.EncodeHashes(revoker, programs)
	auth, err := s.authenticateAs("dbx", imageSecurityDatabase, list, when, variableAttributes|appendWrite)
	if err != nil {
		return Variable{}, fmt.Errorf("sign the variable dbx: %w", err)
	}
	return Variable{Name: "dbx", File: "dbx", List: list, Auth: auth}, nil
}
