package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// pcrSignature says where systemd's stub lays what the image says of the TPM's PCR 11, its sections .pcrsig and .pcrpkey, and
// where systemd's programs look for it (systemd-stub(7), systemd-creds(1)).
var pcrSignature = []struct{ from, to string }{
	{"/.extra/tpm2-pcr-signature.json", "/run/systemd/tpm2-pcr-signature.json"},
	{"/.extra/tpm2-pcr-public-key.pem", "/run/systemd/tpm2-pcr-public-key.pem"},
}

// maxPCRSignature bounds each of the two files, in bytes.
const maxPCRSignature = 64 << 10

// handOverPCRSignature lets the main system bind secrets to images of whoever signed this one. An image without the
// signature has nothing to hand over.
func (b *boot) handOverPCRSignature() (string, error) {
	for _, p := range pcrSignature {
		if err := copyPublic(p.from, p.to); errors.Is(err, fs.ErrNotExist) {
			return "", nil
		} else if err != nil {
			return "", err
		}
	}
	return "the image has a signature of PCR 11", nil
}

// copyPublic copies a small file that everybody may read.
func copyPublic(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPCRSignature+1))
	if err != nil {
		return err
	}
	if len(data) > maxPCRSignature {
		return fmt.Errorf("%s has more than %d bytes", from, maxPCRSignature)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o444)
}
