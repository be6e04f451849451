package seal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"strings"

	"filippo.io/age/armor"
)

// NodeWorkFactor is the logarithm of scrypt's cost for what a node is to open: with age's block size of 8, 64 MiB (128 bytes
// × 8 × 2^16) and a quarter of a second. A machine of 512 MiB has that beside its system; WorkFactor's 256 MiB it may not.
const NodeWorkFactor = 16

// maxSealed is the most that a node takes armor off, in bytes: a credential (systemd, CREDENTIAL_SIZE_MAX).
const maxSealed = 1 << 20

// ErrNotForNode is an encrypted file that no passphrase opens on a node.
var ErrNotForNode = errors.New("it is not encrypted in the form that a node can open; use `spore pki bundle --encrypt`")

// CheckForNode tells, before a person is asked, whether a node can open data with a passphrase, armored or not. What comes
// on a boot medium is nobody's word: the cost that it asks for is looked at before it is paid.
func CheckForNode(data []byte) error {
	_, err := forNode(data)
	return err
}

// OpenOnNode decrypts data with a passphrase, at most limit bytes of content. A wrong passphrase is ErrPassphrase.
func OpenOnNode(data []byte, passphrase string, limit int64) ([]byte, error) {
	plain, err := forNode(data)
	if err != nil {
		return nil, err
	}
	// Else the next attempt takes its memory beside this one's.
	defer debug.FreeOSMemory()
	return OpenPassphrase(plain, passphrase, limit)
}

// forNode returns the file without its armor if a passphrase of bearable cost is the way to open it.
func forNode(data []byte) ([]byte, error) {
	if bytes.HasPrefix(data, []byte(armor.Header)) {
		plain, err := io.ReadAll(io.LimitReader(armor.NewReader(bytes.NewReader(data)), maxSealed+1))
		if err != nil || len(plain) > maxSealed {
			return nil, fmt.Errorf("%w: its armor was changed or cut short", ErrNotForNode)
		}
		data = plain
	}
	r := bufio.NewReaderSize(bytes.NewReader(data), 128)
	magic, err := r.ReadSlice('\n')
	if err != nil || string(magic) != Magic+"\n" {
		return nil, fmt.Errorf("%w: it does not begin with %s", ErrNotForNode, Magic)
	}
	line, _ := r.ReadSlice('\n')
	// C2SP age: "-> scrypt SALT LOGN"; such a recipient is the only one of its file.
	words := strings.Split(strings.TrimSuffix(string(line), "\n"), " ")
	if len(words) != 4 || words[0] != "->" || words[1] != "scrypt" {
		return nil, fmt.Errorf("%w: it is not encrypted with a passphrase", ErrNotForNode)
	}
	n, err := strconv.Atoi(words[3])
	if err != nil || n < 1 || n > NodeWorkFactor {
		return nil, fmt.Errorf("%w: its scrypt work factor is %.8q, and a node pays at most %d", ErrNotForNode, words[3], NodeWorkFactor)
	}
	return data, nil
}
