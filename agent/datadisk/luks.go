package datadisk

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"spore/agent/luks"
	"spore/storage/gpt"
)

const encrypted = "it is encrypted with LUKS"

// encrypt makes a LUKS2 header on a partition. The key is random and as long as the cipher's, so that stretching it would
// cost time at each boot and add nothing.
func (o Options) encrypt(ctx context.Context, node string, want gpt.GUID) error {
	if err := o.key(); err != nil {
		return err
	}
	if _, err := os.Stat(mapped(want)); err == nil { // An attempt of this boot did not come to its end.
		if err := o.Exec(ctx, nil, "cryptsetup", "close", "--disable-locks", mapped(want)); err != nil {
			return err
		}
	}
	return o.Exec(ctx, nil, "cryptsetup", "luksFormat", "--batch-mode", "--disable-locks", "--type", "luks2", "--cipher", luks.Cipher, "--key-size", "512", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000",
		"--uuid", want.String(), "--key-file", o.KeyFile, node)
}

// decrypt maps an encrypted partition, where it is not mapped yet.
func (o Options) decrypt(ctx context.Context, node string, want gpt.GUID) (string, error) {
	device := mapped(want)
	if _, err := os.Stat(device); err == nil {
		return device, nil
	}
	if what, err := signature(node); err != nil || what != encrypted {
		if err == nil {
			err = fmt.Errorf("it should be encrypted with LUKS, and %s; nothing was changed", what)
		}
		return "", err
	}
	if err := o.key(); err != nil {
		return "", err
	}
	if err := checkCipher(node); err != nil {
		return "", fmt.Errorf("%w; nothing was changed", err)
	}
	err := o.Exec(ctx, nil, "cryptsetup", "open", "--batch-mode", "--disable-locks", "--type", "luks2", "--key-file", o.KeyFile, node, filepath.Base(device))
	if err != nil {
		return "", fmt.Errorf("the key of the bundle does not open it: %w", err)
	}
	return device, nil
}

// checkCipher refuses a header that says of another cipher than those that are made (luks.CheckCipher).
func checkCipher(node string) error {
	f, err := os.Open(node)
	if err != nil {
		return err
	}
	defer f.Close()
	return luks.CheckCipher(f)
}

// mapped is what an encrypted partition is decrypted to.
func mapped(want gpt.GUID) string { return "/dev/mapper/spore-" + want.String() }

func (o Options) key() error {
	if o.KeyFile == "" {
		return fmt.Errorf("the node's bundle has no key for encrypted disks")
	}
	if _, err := os.Stat(o.KeyFile); err != nil {
		return fmt.Errorf("the key for encrypted disks: %w", err)
	}
	return nil
}
