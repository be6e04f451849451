package keys

import (
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
	"spore/builder/cmd/signing"
	"spore/builder/image"
	"spore/builder/secureboot"
	"spore/pki/authenticode"
	"spore/pki/siglist"
)

type revokeFlags struct {
	keys, out string
	signing   signing.Flags
}

func revokeCommand(world outside) *cobra.Command {
	var f revokeFlags
	cmd := &cobra.Command{
		Use:   "revoke IMAGE...",
		Short: "Revoke images (dbx), so that no machine starts them any more",
		Long: `Revoke adds the hashes of the kernels (UKIs) of images to dbx.auth, a list that the key exchange key (KEK) signs. Lay it
beside cluster.yaml, build, and push: each machine with Secure Boot gives it to its firmware at its first start that is
not a trial. It prepares its TPM before, so that nobody has to type a recovery key. Hashes that are in the file already
stay there.

A machine refuses a list that names a kernel on its own ESP: push until both of its slots have newer images. Firmware
never removes an entry from dbx.`,
		Example: "  spore keys revoke old/spore.img -o configs/dbx.auth",
		Args:    exit.Args(cobra.MinimumNArgs(1)),
		RunE:    func(cmd *cobra.Command, args []string) error { return revoke(cmd.OutOrStdout(), world, f, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.keys, "keys", defaultDir, "the folder with the key exchange key: KEK.key.age or KEK.key, and KEK.crt")
	flags.StringVarP(&f.out, "output", "o", "dbx.auth", "the list, which is made or added to")
	flags.StringVar(&f.signing.PassphraseFile, "key-passphrase-file", "", "read the passphrase of an encrypted key from this file instead of the terminal")
	flags.StringVar(&f.signing.Identity, "key-identity", "", "age identity file, for a key that is encrypted for recipients")
	return cmd
}

func revoke(w io.Writer, world outside, f revokeFlags, images []string) error {
	f.signing.Certificate = filepath.Join(f.keys, "KEK.crt")
	f.signing.Key = filepath.Join(f.keys, "KEK.key")
	if _, err := os.Stat(f.signing.Key + ".age"); err == nil {
		f.signing.Key += ".age"
	}
	kek, err := f.signing.Open()
	if err != nil {
		return err
	}
	revoked, err := listed(f.out, kek)
	if err != nil {
		return err
	}
	for _, name := range images {
		hashes, err := hashesOf(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, h := range hashes {
			fmt.Fprintf(w, "%s: revoked %x\n", name, h)
			if !slices.Contains(revoked, h) {
				revoked = append(revoked, h)
			}
		}
	}
	v, err := kek.Revoke(revoked, world.now())
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.out, v.Auth, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s holds %d images. Lay it beside cluster.yaml, build, and push.\n", f.out, len(revoked))
	return nil
}

// listed are the hashes that a list has already.
func listed(name string, kek *secureboot.Signer) ([]authenticode.Hash, error) {
	data, err := ask.Small(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := secureboot.CheckWrite(data, "dbx", kek.Certificate)
	if err != nil {
		return nil, fmt.Errorf("%s is there and was not made with this key: %w; name another file with -o", name, err)
	}
	return siglist.Hashes(list)
}

// hashesOf are those of the kernels of a disk image, or of one kernel.
func hashesOf(name string) ([]authenticode.Hash, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(strings.ToLower(name), ".efi") {
		h, err := authenticode.HashOf(file, st.Size())
		return []authenticode.Hash{h}, err
	}
	info, err := image.Inspect(file, st.Size())
	if err != nil {
		return nil, err
	}
	return info.KernelHashes(file)
}
