package shell

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"spore/builder/cmd/ask"
	"spore/builder/cmd/exit"
	"spore/pki/seal"
	"spore/pki/vault"
	"spore/wire/shell"
)

func makeKeyCommand() *cobra.Command {
	var passphraseFile string
	var plain bool
	cmd := &cobra.Command{
		Use:   "make-key FILE",
		Short: "Make the key that signs grants of emergency shells",
		Long: `Make-key makes an Ed25519 key that signs grants of emergency shells and nothing else, and prints what image.yaml
says for the nodes to trust it. The file is encrypted with a passphrase, unless you say --plain.

Keep the file away from the machine from which you look after the cluster: neither spore push nor any other command
needs it. Whoever has the key and an admin's certificate is root on each node for an hour.`,
		Example: "  spore shell make-key shell.key\n  spore shell make-key shell.key --passphrase-file passphrase",
		Args:    exit.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if plain && passphraseFile != "" {
				return exit.Usage(errors.New("give --plain or --passphrase-file"))
			}
			return makeKey(cmd, args[0], passphraseFile, plain)
		},
	}
	f := cmd.Flags()
	f.StringVar(&passphraseFile, "passphrase-file", "", "read the passphrase from this file instead of the terminal")
	f.BoolVar(&plain, "plain", false, "do not encrypt the file")
	return cmd
}

func makeKey(cmd *cobra.Command, file, passphraseFile string, plain bool) error {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already; keys are never overwritten", file)
	}
	key, err := shell.NewKey(rand.Reader)
	if err != nil {
		return err
	}
	data, err := shell.EncodePrivate(key)
	if err != nil {
		return err
	}
	if !plain {
		p, err := passphrase(passphraseFile, true)
		if err == nil {
			err = seal.CheckPassphrase(p)
		}
		if err == nil {
			data, err = seal.WithPassphrase(data, p, 0)
		}
		if err != nil {
			return err
		}
	}
	if err := vault.WriteFile(file, data); err != nil {
		return err
	}
	public := shell.EncodeKey(key.Public().(ed25519.PublicKey))
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "shell: granted\nshellKeys: [%q]\n", public)
	return err
}

func passphrase(file string, isNew bool) (string, error) {
	if file != "" {
		return ask.Passphrase(file)
	}
	return ask.Terminal("passphrase of the key that signs grants", isNew)
}

// maxKey is that of a key's file when it is open, in bytes.
const maxKey = 4 << 10

// readKey reads a key that makeKey wrote.
func readKey(file, passphraseFile string) (ed25519.PrivateKey, error) {
	data, err := ask.Small(file)
	if err != nil {
		return nil, fmt.Errorf("read the key that signs: %w", err)
	}
	if seal.IsSealed(data) {
		p, err := passphrase(passphraseFile, false)
		if err != nil {
			return nil, err
		}
		if data, err = seal.OpenPassphrase(data, p, maxKey); err != nil {
			return nil, fmt.Errorf("open %s: %w", file, err)
		}
	}
	key, err := shell.ParsePrivate(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}
