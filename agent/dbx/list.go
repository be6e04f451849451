// Package dbx brings revocations of images to the machine's firmware: hashes that the firmware adds to its list dbx,
// and whose programs it starts no more (UEFI 2.10, section 32.4). The key exchange key of the machine has signed them,
// and the firmware checks that; what is checked here is what they would do to this machine.
package dbx

import (
	"fmt"

	"spore/pki/authenticode"
	"spore/pki/siglist"
)

// MaxSize bounds a write, and the list that a firmware has, in bytes.
const MaxSize = 64 << 10

// Write is a signed write that adds hashes to dbx.
type Write struct {
	// Auth is all of it, as the firmware takes it.
	Auth []byte
	list []byte
}

// Parse reads a write, whose signature is the firmware's to check. It brings one list of hashes and nothing else.
func Parse(auth []byte) (Write, error) {
	if len(auth) > MaxSize {
		return Write{}, fmt.Errorf("a write of dbx with %d bytes", len(auth))
	}
	w, err := siglist.ParseWrite(auth)
	if err == nil {
		err = siglist.CheckHashes(w.Content)
	}
	if err != nil {
		return Write{}, fmt.Errorf("it is not a signed write of dbx: %w; make it with `spore keys revoke`", err)
	}
	return Write{auth, w.Content}, nil
}

// Hashes are the programs that it revokes.
func (w Write) Hashes() []authenticode.Hash {
	out, _ := siglist.Hashes(w.list) // Parse has read it.
	return out
}

// After is what dbx holds when the firmware has added the write to content. Firmware that does otherwise is found out
// after the write.
func (w Write) After(content []byte) ([]byte, error) { return siglist.AddHashes(content, w.list) }
