// Package signing is the flags of commands that sign images, and how they come to the keys.
package signing

import (
	"crypto/rsa"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"spore/builder/cmd/ask"
	"spore/builder/cmd/exit"
	"spore/builder/image"
	"spore/builder/media"
	"spore/builder/pcr"
	"spore/builder/secureboot"
	"spore/pki/seal"
)

// maxKey bounds what an encrypted key file holds, in bytes.
const maxKey = 64 << 10

// Flags are those of the commands.
type Flags struct {
	// Key and Certificate are the files of db, PCRKey that of the key for PCR 11.
	Key, Certificate, PCRKey string
	// Enroll is one of image.EnrolModes or empty; EnrollKeys is the folder with the variables.
	Enroll, EnrollKeys string
	// PassphraseFile and Identity open keys that are encrypted with age.
	PassphraseFile, Identity string

	// ask asks the person at the terminal; tests bring their own.
	ask        func(what string, twice bool) (string, error)
	passphrase string
}

// Register adds the flags to a command.
func (f *Flags) Register(cmd *cobra.Command) {
	f.ask = ask.Terminal
	flags := cmd.Flags()
	flags.StringVar(&f.Key, "secure-boot-key", "", "sign for Secure Boot with this key, such as db.key.age of spore keys init (RSA, PEM; may be encrypted with age)")
	flags.StringVar(&f.Certificate, "secure-boot-cert", "", "the certificate of that key, such as db.crt")
	flags.StringVar(&f.PCRKey, "pcr-key", "", "sign the value that the TPM's PCR 11 will have with this key, such as pcr.key.age")
	flags.StringVar(&f.Enroll, "enroll", "", "put keys on the medium for firmware in setup mode; systemd-boot enrols them: "+strings.Join(image.EnrolModes, ", ")+" (default: none)")
	flags.StringVar(&f.EnrollKeys, "enroll-keys", "", "the folder with PK.auth, KEK.auth and db.auth (default: the folder of --secure-boot-cert)")
	flags.StringVar(&f.PassphraseFile, "key-passphrase-file", "", "read the passphrase of encrypted keys from this file instead of the terminal")
	flags.StringVar(&f.Identity, "key-identity", "", "age identity file, for keys that are encrypted for recipients")
}

// TrustUnsigned adds the flag of commands that sign what an image has already.
func TrustUnsigned(cmd *cobra.Command, into *bool) {
	cmd.Flags().BoolVar(into, "trust-unsigned", false, "sign an image that --secure-boot-cert has not signed before: its kernel and root are trusted as they are")
}

// Load reads the keys that the flags name; none when they name none.
func (f *Flags) Load() (media.Keys, error) {
	var k media.Keys
	if (f.Key == "") != (f.Certificate == "") {
		return k, exit.Usage(errors.New("--secure-boot-key and --secure-boot-cert go together"))
	}
	if f.Key != "" {
		var err error
		if k.Boot, err = f.bootSigner(); err != nil {
			return k, err
		}
	}
	if f.PCRKey != "" && f.Key == "" {
		return k, exit.Usage(errors.New("--pcr-key without --secure-boot-key: a machine that starts any program starts one that measures into PCR 11 " +
			"what this image does, and its TPM opens; sign for Secure Boot too, or leave --pcr-key out"))
	}
	if f.PCRKey != "" {
		key, err := f.readKey(f.PCRKey)
		if err != nil {
			return k, err
		}
		if k.PCR, err = pcr.NewSigner(key); err != nil {
			return k, fmt.Errorf("%s: %w", f.PCRKey, err)
		}
	}
	if f.Enroll != "" {
		var err error
		if k.Enroll, err = f.enrolment(k.Boot); err != nil {
			return k, err
		}
	}
	return k, nil
}

// Open reads one key with its certificate, for who signs something else than an image.
func (f *Flags) Open() (*secureboot.Signer, error) {
	if f.ask == nil {
		f.ask = ask.Terminal
	}
	return f.bootSigner()
}

func (f *Flags) bootSigner() (*secureboot.Signer, error) {
	key, err := f.readKey(f.Key)
	if err != nil {
		return nil, err
	}
	data, err := ask.Small(f.Certificate)
	if err != nil {
		return nil, fmt.Errorf("read the certificate for Secure Boot: %w", err)
	}
	certificate, err := secureboot.ParseCertificate(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Certificate, err)
	}
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, fmt.Errorf("%s is not the certificate of %s", f.Certificate, f.Key)
	}
	return &secureboot.Signer{Key: key, Certificate: certificate}, nil
}

// readKey reads an RSA key, and decrypts it where it is encrypted with age.
func (f *Flags) readKey(name string) (*rsa.PrivateKey, error) {
	data, err := ask.Small(name)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	if seal.IsSealed(data) {
		if data, err = f.unseal(name, data); err != nil {
			return nil, fmt.Errorf("open %s: %w", name, err)
		}
	}
	key, err := secureboot.ParseKey(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return key, nil
}

// unseal decrypts with the identity, or with the passphrase, for which it asks once: the keys of one folder have one.
func (f *Flags) unseal(name string, data []byte) ([]byte, error) {
	if f.Identity != "" {
		identities, err := ask.Small(f.Identity)
		if err != nil {
			return nil, err
		}
		return seal.OpenIdentities(data, identities, maxKey)
	}
	if f.passphrase == "" {
		var err error
		if f.PassphraseFile != "" {
			f.passphrase, err = ask.Passphrase(f.PassphraseFile)
		} else {
			f.passphrase, err = f.ask("passphrase of "+name, false)
		}
		if err != nil {
			return nil, err
		}
	}
	return seal.OpenPassphrase(data, f.passphrase, maxKey)
}

// enrolment reads what firmware is told. A machine that takes keys by which this very image is refused would start nothing
// any more, so those are an error.
func (f *Flags) enrolment(signer *secureboot.Signer) (*image.Enrolment, error) {
	if signer == nil {
		return nil, exit.Usage(errors.New("--enroll without --secure-boot-key: the machine would take keys and then refuse this image"))
	}
	dir := f.EnrollKeys
	if dir == "" {
		dir = filepath.Dir(f.Certificate)
	}
	e := &image.Enrolment{Mode: f.Enroll, Keys: map[string][]byte{}}
	for _, name := range []string{"PK", "KEK", "db"} {
		data, err := ask.Small(filepath.Join(dir, name+".auth"))
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("read the keys to enrol: %w; spore keys init makes it, and --enroll-keys names its folder", err)
		}
		if err != nil {
			return nil, fmt.Errorf("read the keys to enrol: %w", err)
		}
		e.Keys[name] = data
	}
	return e, f.trusts(dir, e, signer)
}

// trusts makes sure that the db that will be enrolled accepts the image.
func (f *Flags) trusts(dir string, e *image.Enrolment, signer *secureboot.Signer) error {
	if err := e.Check(); err != nil {
		return exit.Usage(err)
	}
	entries, err := secureboot.WrittenCertificates(e.Keys["db"])
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, "db.auth"), err)
	}
	for _, entry := range entries {
		if entry.Certificate.Equal(signer.Certificate) {
			return nil
		}
	}
	return fmt.Errorf("%s does not hold %s: a machine with these keys would refuse this image", filepath.Join(dir, "db.auth"), f.Certificate)
}
