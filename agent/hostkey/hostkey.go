// Package hostkey keeps the key of a node's encrypted state where there is no TPM: a random half is a file on the EFI system
// partition of the boot medium, the other half is the machine id, which stage1 derives of the cluster's id and the UUID that
// the firmware reports. Neither is on the state partition.
//
// So it protects a state disk that is taken without the boot medium, and a disk that holds both from whoever does not know
// the UUID of its machine. The UUID is no secret: machines print it, and send it when they ask DHCP for a boot file. It does
// not protect a machine that is taken whole.
package hostkey

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"spore/agent/unlock"
	"spore/storage/atomicfile"
)

// Keeper reads and makes the key.
type Keeper struct {
	// Node is whose key it is, so that one medium can have been that of several nodes.
	Node string
	// MachineID is the content of /etc/machine-id.
	MachineID string
	// Fleeting says that the machine id is another at each boot.
	Fleeting bool
	// With mounts the boot medium for as long as fn runs; nil when it has no ESP.
	With func(fn func(dir string) error) error
}

// size is that of the random half in bytes.
const size = 32

// Path is where the random half of a node's key is on the ESP.
func Path(node string) string { return "loader/spore-state-" + node + ".key" }

// Read returns the key; the error is unlock.ErrNoKey when the medium has none.
func (k Keeper) Read() (key string, err error) {
	if k.With == nil || k.Fleeting {
		return "", unlock.ErrNoKey
	}
	err = k.With(func(dir string) error {
		key, err = k.read(dir)
		return err
	})
	return key, err
}

func (k Keeper) read(dir string) (string, error) {
	text, err := atomicfile.ReadLimited(filepath.Join(dir, Path(k.Node)), 4*size)
	if errors.Is(err, fs.ErrNotExist) {
		return "", unlock.ErrNoKey
	}
	if err != nil {
		return "", err
	}
	half, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(half) != size {
		return "", fmt.Errorf("%s on the boot medium is damaged", Path(k.Node))
	}
	return k.whole(half), nil
}

// whole makes the key of both halves.
func (k Keeper) whole(half []byte) string {
	mac := hmac.New(sha256.New, half)
	mac.Write([]byte("spore state key " + strings.TrimSpace(k.MachineID)))
	return hex.EncodeToString(mac.Sum(nil))
}

// Make makes a key in place of what there is, and reads it back.
func (k Keeper) Make() (key string, err error) {
	switch {
	case k.With == nil:
		return "", errors.New("there is no place for a host key: the machine was not booted from a disk with an EFI system partition; use tpm2 or passphrase")
	case k.Fleeting:
		return "", errors.New("nothing of this machine is the same at each boot, so that no key could be bound to it; use tpm2 or passphrase")
	}
	half := make([]byte, size)
	if _, err := rand.Read(half); err != nil {
		return "", err
	}
	err = k.With(func(dir string) error {
		path := filepath.Join(dir, Path(k.Node))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		// FAT lets nobody take the x bit away that its mount gives (Linux, fs/fat/file.c, fat_allow_set_mode); medium.Mount's
		// umask keeps all but root out.
		if err := atomicfile.WriteDurable(path, []byte(hex.EncodeToString(half)+"\n"), 0o700); err != nil {
			return err
		}
		key, err = k.read(dir)
		return err
	})
	if err == nil && key != k.whole(half) {
		err = errors.New("it is not what was written")
	}
	if err != nil {
		return "", fmt.Errorf("keep a host key on the boot medium: %w", err)
	}
	return key, nil
}
