package apt

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"

	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// The archive keys of Debian 13, byte for byte from the package debian-archive-keyring: the archive, the security archive
// and the stable release.
//
//go:embed keyring/*.gpg
var debianKeys embed.FS

// ReadKeyring reads binary OpenPGP certificates, one after another. With no data it is the keyring of Debian 13.
func ReadKeyring(data []byte) (openpgp.EntityList, error) {
	if len(data) == 0 {
		names, err := fs.Glob(debianKeys, "keyring/*.gpg")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			part, err := debianKeys.ReadFile(name)
			if err != nil {
				return nil, err
			}
			data = append(data, part...)
		}
	}
	keys, err := openpgp.ReadKeyRing(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("read archive keyring: %w", err)
	}
	return keys, nil
}
