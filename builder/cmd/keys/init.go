package keys

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"spore/builder/cmd/ask"
	"spore/builder/cmd/exit"
	"spore/builder/secureboot"
	"spore/pki/seal"
	"spore/pki/siglist"
	"spore/pki/vault"
)

// microsoftDefault is a flash image with Microsoft's certificates enrolled, of Debian's package ovmf.
const microsoftDefault = "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"

// maxFlash bounds the flash image that is read, in bytes.
const maxFlash = 64 << 20

// pcrBits is the size of the key for PCR 11: the one that every TPM takes.
const pcrBits = 2048

type initFlags struct {
	name           string
	bits           int
	microsoft      string
	db, kek        []string
	plain          bool
	recipients     []string
	passphraseFile string
}

func initCommand(world outside) *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Make the keys of Secure Boot (PK, KEK, db) and of the TPM's PCR 11",
		Long: `Init makes the folder DIR (secureboot when left out) with three keys and their certificates:

  PK   owns the machine: signs changes of KEK
  KEK  signs changes of db
  db   signs images: spore build --secure-boot-key DIR/db.key.age --secure-boot-cert DIR/db.crt

and pcr.key, with which spore build --pcr-key signs what the TPM will measure. PK.auth, KEK.auth and db.auth are what
systemd-boot (spore build --enroll) or a firmware's own menu enrols; the .esl files are the same without signature, and
noPK.auth brings a machine with this PK back to setup mode. Private keys are encrypted with a passphrase, which is asked
for, or as --recipient or --plain say.

A machine with these keys starts only what db signed. Boot loaders of other systems, and option ROMs of cards that only
Microsoft signed, are refused; --microsoft allows them too.`,
		Example: `  spore keys init
  spore keys init secureboot --name "Plant 7" --recipient age1…
  spore keys init --microsoft --db-certificate microsoft-uefi-ca-2023.crt`,
		Args: exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return initialize(cmd.OutOrStdout(), world, folder(args), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "Spore", "name of the owner of the keys; it is in the certificates, which everybody can read")
	flags.IntVar(&f.bits, "bits", 2048, "size of the keys in bits: 2048, which all firmware accepts, or 3072")
	flags.StringVar(&f.microsoft, "microsoft", "", "include Microsoft's certificates, from a flash image of OVMF that has them (default: the file of Debian's package ovmf)")
	flags.Lookup("microsoft").NoOptDefVal = microsoftDefault
	flags.StringArrayVar(&f.db, "db-certificate", nil, "include this certificate in db, PEM or DER: of a card's vendor, of Microsoft (may be given again)")
	flags.StringArrayVar(&f.kek, "kek-certificate", nil, "include this certificate in KEK: the owner of its key may change db (may be given again)")
	flags.BoolVar(&f.plain, "plain", false, "do not encrypt the keys: everybody who can read them can sign images")
	flags.StringArrayVar(&f.recipients, "recipient", nil, "encrypt the keys for this age recipient instead of with a passphrase (may be given again)")
	flags.StringVar(&f.passphraseFile, "passphrase-file", "", "read the passphrase from this file instead of the terminal")
	return cmd
}

func initialize(w io.Writer, world outside, dir string, f initFlags) error {
	if f.plain && len(f.recipients) > 0 {
		return exit.Usage(errors.New("--plain and --recipient exclude each other"))
	}
	if !slices.Contains([]int{2048, 3072}, f.bits) {
		return exit.Usage(fmt.Errorf("--bits is %d; use 2048 or 3072", f.bits))
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already; keys are never overwritten: name another folder", dir)
	}
	o := secureboot.Options{Name: f.name, Bits: f.bits, Now: world.now()}
	theirs, err := others(&o, f)
	if err != nil {
		return err
	}
	protect, err := protection(world, dir, f)
	if err != nil {
		return err
	}
	k, err := secureboot.Generate(world.random, o)
	if err != nil {
		return err
	}
	pcrKey, err := rsa.GenerateKey(world.random, pcrBits)
	if err != nil {
		return fmt.Errorf("make the key for PCR 11: %w", err)
	}
	files, err := content(k, pcrKey, protect)
	if err != nil {
		return err
	}
	if err := writeFolder(dir, files); err != nil {
		return err
	}
	say(w, dir, f, theirs)
	return nil
}

// others reads the certificates that go in beside ours; it returns those of Microsoft.
func others(o *secureboot.Options, f initFlags) ([]siglist.Entry, error) {
	var theirs []siglist.Entry
	if f.microsoft != "" {
		fd, err := readFlash(f.microsoft)
		if err != nil {
			return nil, fmt.Errorf("read Microsoft's certificates: %w; Debian's package ovmf has them, or give them by --db-certificate and --kek-certificate", err)
		}
		if o.KEK, o.DB, err = secureboot.Microsoft(fd); err != nil {
			return nil, fmt.Errorf("%s: %w", f.microsoft, err)
		}
		theirs = append(slices.Clone(o.KEK), o.DB...)
	}
	for _, v := range []struct {
		files []string
		into  *[]siglist.Entry
	}{{f.db, &o.DB}, {f.kek, &o.KEK}} {
		for _, name := range v.files {
			data, err := ask.Small(name)
			if err != nil {
				return nil, err
			}
			c, err := secureboot.ParseCertificate(data)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			*v.into = append(*v.into, siglist.Entry{Certificate: c})
		}
	}
	return theirs, nil
}

func readFlash(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFlash))
}

// protection is how private keys are kept: it returns the name of a key's file and its content.
func protection(world outside, dir string, f initFlags) (func(name string, key []byte) (string, []byte, error), error) {
	if f.plain {
		return func(name string, key []byte) (string, []byte, error) { return name, key, nil }, nil
	}
	if len(f.recipients) > 0 {
		if _, err := seal.ParseRecipients(f.recipients); err != nil {
			return nil, exit.Usage(err)
		}
		return func(name string, key []byte) (string, []byte, error) {
			data, err := seal.ForRecipients(key, f.recipients)
			return name + ".age", data, err
		}, nil
	}
	var passphrase string
	var err error
	if f.passphraseFile != "" {
		passphrase, err = ask.Passphrase(f.passphraseFile)
	} else {
		passphrase, err = world.ask("passphrase of "+dir, true)
	}
	if err != nil {
		return nil, err
	}
	if err := seal.CheckPassphrase(passphrase); err != nil {
		return nil, err
	}
	return func(name string, key []byte) (string, []byte, error) {
		data, err := seal.WithPassphrase(key, passphrase, world.workFactor)
		return name + ".age", data, err
	}, nil
}

// content is the folder's, by name.
func content(k *secureboot.Keys, pcrKey *rsa.PrivateKey, protect func(string, []byte) (string, []byte, error)) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, v := range []struct {
		name        string
		key         *rsa.PrivateKey
		certificate []byte
	}{
		{"PK", k.PK.Key, k.PK.CertificatePEM()}, {"KEK", k.KEK.Key, k.KEK.CertificatePEM()}, {"db", k.DB.Key, k.DB.CertificatePEM()}, {"pcr", pcrKey, nil},
	} {
		text, err := secureboot.EncodeKey(v.key)
		if err != nil {
			return nil, err
		}
		name, data, err := protect(v.name+".key", text)
		if err != nil {
			return nil, err
		}
		out[name] = data
		if v.certificate != nil {
			out[v.name+".crt"] = v.certificate
		}
	}
	public, err := x509.MarshalPKIXPublicKey(&pcrKey.PublicKey)
	if err != nil {
		return nil, err
	}
	out["pcr.pub"] = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	for _, v := range k.Variables {
		out[v.File+".auth"] = v.Auth
		if len(v.List) > 0 {
			out[v.File+".esl"] = v.List
		}
	}
	return out, nil
}

// writeFolder makes the folder whole or not at all.
func writeFolder(dir string, files map[string][]byte) (err error) {
	parent := filepath.Dir(filepath.Clean(dir))
	temp, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+"-*") // mode 0700
	if err != nil {
		return fmt.Errorf("make the folder for the keys: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(temp)
		}
	}()
	for name, data := range files {
		if err := vault.WriteFile(filepath.Join(temp, name), data); err != nil {
			return err
		}
	}
	if err := os.Rename(temp, dir); err != nil {
		return fmt.Errorf("make the folder for the keys: %w", err)
	}
	return nil
}

// say tells what was made, and what it means for machines.
func say(w io.Writer, dir string, f initFlags, theirs []siglist.Entry) {
	suffix := ".age"
	switch {
	case f.plain:
		suffix = ""
		fmt.Fprintf(w, "%s: PK, KEK, db and pcr, NOT encrypted: everybody who can read the folder can sign images\n", dir)
	case len(f.recipients) > 0:
		fmt.Fprintf(w, "%s: PK, KEK, db and pcr, encrypted for the recipients; keep a copy of the folder and of an identity that opens it\n", dir)
	default:
		fmt.Fprintf(w, "%s: PK, KEK, db and pcr, encrypted with the passphrase; keep a copy of the folder: only these keys sign for machines that have them\n", dir)
	}
	if len(theirs) > 0 {
		fmt.Fprintf(w, "\nMicrosoft's certificates are included: these machines also start everything that Microsoft signed.\n")
		with2023 := false
		for _, e := range theirs {
			fmt.Fprintf(w, "  %s, until %s\n", e.Certificate.Subject.CommonName, e.Certificate.NotAfter.UTC().Format("2006-01-02"))
			with2023 = with2023 || strings.Contains(e.Certificate.Subject.CommonName, "2023")
		}
		if !with2023 {
			fmt.Fprintf(w, "That file lacks the certificates of 2023, with which Microsoft signs now: for new cards add them with --db-certificate.\n")
		}
	} else {
		fmt.Fprintf(w, `
Microsoft's certificates are NOT included. A machine that takes these keys forgets the ones that it came with, and starts
nothing that only Microsoft signed: no other system's boot loader, no Windows, and no option ROM of a graphics, network or
storage card. A machine whose screen or disk needs such a ROM stays dark or finds no disk, and may not even reach its setup.
Try one machine of each kind first, or make the keys with --microsoft.
`)
	}
	fmt.Fprintf(w, "\nnext: spore build --secure-boot-key %[1]s/db.key%[2]s --secure-boot-cert %[1]s/db.crt --pcr-key %[1]s/pcr.key%[2]s\n", filepath.Clean(dir), suffix)
	fmt.Fprintf(w, "      and --enroll if-safe, or force, for media that bring the keys into machines in setup mode (docs/secure-boot.md)\n")
}
