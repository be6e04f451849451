package pki

import (
	"spore/builder/cmd/ask"
	"spore/pki/vault"
)

// Open opens the operator's folder for a command beside `spore pki`, as that does: the passphrase is asked at the terminal
// unless passphraseFile names a file that holds it, and identity names the age identity file of a folder that is encrypted
// for recipients. The caller closes the vault.
func Open(dir, passphraseFile, identity string) (*vault.Vault, error) {
	c := common{world: outside{ask: ask.Terminal}, dir: dir, passphraseFile: passphraseFile, identity: identity}
	return vault.Open(dir, c.keys())
}
