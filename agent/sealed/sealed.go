// Package sealed keeps secrets in files that this machine alone can open. systemd-creds(1) encrypts them: with a key in the
// machine's TPM 2.0 where it has one, else with the host key, /var/lib/systemd/credential.secret.
//
// A file that the TPM sealed is bound to that TPM and to none of its registers (PCRs): an update of firmware or image must
// not lock the node out. So it protects a disk that is taken out of its machine, and not a machine that is taken whole. The
// host key lies beside the file, and protects single files that get lost, such as a backup of them. On a state partition that is
// encrypted (package unlock) it is used all the same: what protects is the encryption of both.
package sealed

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"spore/storage/atomicfile"
)

// Kinds of keys.
const (
	TPM  = "tpm2"
	Host = "host"
)

// maxFile bounds a sealed file: systemd's CREDENTIAL_ENCRYPTED_SIZE_MAX in base64 with newlines.
const maxFile = (1<<20 + 128<<10) * 3 / 2

// kinds are the first 16 bytes of what systemd-creds writes (systemd, src/shared/creds-util.h).
var kinds = map[string]string{
	"5a1c6a86df9d4096b1d5a65e0862f19a": Host,
	"0c7cc07b117645919c4b0bea08bc20fe": TPM,
}

// Vault seals and opens.
type Vault struct {
	// Creds runs systemd-creds with data on its standard input and returns what it prints.
	Creds func(ctx context.Context, input []byte, args ...string) ([]byte, error)
	// HasTPM tells whether the machine has a TPM 2.0 that works.
	HasTPM func(ctx context.Context) bool
	// AwaitTPM waits for the device of the TPM that the firmware announces.
	AwaitTPM func(ctx context.Context)
	// MachineID is the content of /etc/machine-id, to which systemd binds the host key.
	MachineID string
	// HostKey is the file of the host key.
	HostKey string
	// Fleeting says that the machine id is another at each boot, so that the host key opens nothing later.
	Fleeting bool
	// Say reports what is not as it should be and does no harm.
	Say func(string)
}

// Seal writes data to path, so that it survives a power cut and this machine can open it: it has been read back.
func (v Vault) Seal(ctx context.Context, path, name string, data []byte) (kind string, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("seal %s: %w", name, err)
	}
	prune(path)
	if v.HasTPM(ctx) {
		err := v.seal(ctx, path, name, data, TPM)
		if err == nil {
			return TPM, nil
		}
		v.Say(fmt.Sprintf("the TPM does not seal, so the host key has to do: %v", err))
	}
	if v.Fleeting {
		return "", errors.New("there is no TPM, and nothing of this machine is the same at each boot, so that a key could be bound to it")
	}
	return Host, v.seal(ctx, path, name, data, Host)
}

func (v Vault) seal(ctx context.Context, path, name string, data []byte, kind string) error {
	args := []string{"encrypt", "--name=" + name, "--with-key=" + kind}
	if kind == TPM {
		args = append(args, "--tpm2-pcrs=")
	}
	out, err := v.Creds(ctx, data, append(args, "-", "-")...)
	if err != nil {
		return fmt.Errorf("seal %s: %w", name, err)
	}
	if len(out) > maxFile {
		return fmt.Errorf("seal %s: it has %d bytes, more than %d", name, len(out), maxFile)
	}
	if err := atomicfile.WriteDurable(path, out, 0o600); err != nil {
		return err
	}
	if err := forget(path); err != nil {
		return fmt.Errorf("seal %s: %w", name, err)
	}
	back, got, err := v.Open(ctx, path, name)
	switch {
	case err != nil:
		return fmt.Errorf("read back what was sealed: %w", err)
	case got != kind || !bytes.Equal(back, data):
		return fmt.Errorf("read back what was sealed: %s is not what was written", path)
	}
	return nil
}

// Open reads what Seal wrote. The error is fs.ErrNotExist when there is nothing.
func (v Vault) Open(ctx context.Context, path, name string) (data []byte, kind string, err error) {
	text, err := atomicfile.ReadLimited(path, maxFile)
	if err != nil {
		return nil, "", err
	}
	kind, err = kindOf(text)
	if err != nil {
		return nil, "", fmt.Errorf("open %s: %w", path, err)
	}
	if kind == TPM {
		v.AwaitTPM(ctx)
	} else if err := v.checkHostKey(); err != nil {
		return nil, kind, fmt.Errorf("open %s: %w", path, err)
	}
	data, err = v.Creds(ctx, text, "decrypt", "--name="+name, "-", "-")
	if err != nil && kind == TPM {
		return nil, kind, fmt.Errorf("open %s: this machine's TPM does not open it (was it cleared, or the disk moved?): %w", path, err)
	}
	if err != nil {
		return nil, kind, fmt.Errorf("open %s: the host key does not open it: %w", path, err)
	}
	return data, kind, nil
}

// kindOf tells by which key a file was sealed.
func kindOf(text []byte) (string, error) {
	head := strings.Join(strings.Fields(string(text[:min(len(text), 64)])), "")
	raw, err := base64.StdEncoding.DecodeString(head[:len(head)/4*4])
	if err != nil || len(raw) < 16 {
		return "", errors.New("it is damaged")
	}
	kind, ok := kinds[hex.EncodeToString(raw[:16])]
	if !ok {
		return "", errors.New("it is damaged, or was sealed in a way that this image does not know")
	}
	return kind, nil
}

// credentialApp is systemd's application id for the host key (src/shared/creds-util.c).
var credentialApp = []byte{0xd3, 0xac, 0xec, 0xba, 0x0d, 0xad, 0x4c, 0xdf, 0xb8, 0xc9, 0x38, 0x15, 0x28, 0x93, 0x6c, 0x58}

// checkHostKey refuses the host key of another machine: systemd-creds deletes it when it meets one, and the disk may still
// go back.
func (v Vault) checkHostKey() error {
	f, err := os.Open(v.HostKey)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("its key %s is gone", v.HostKey)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var of [16]byte
	if _, err := f.ReadAt(of[:], 0); err != nil {
		return fmt.Errorf("its key %s is damaged", v.HostKey)
	}
	id, err := hex.DecodeString(strings.TrimSpace(v.MachineID))
	if err != nil || len(id) != 16 {
		return errors.New("this machine has no valid machine id")
	}
	if of != appSpecific(id, credentialApp) {
		return errors.New("it was sealed on another machine, or before the mainboard was replaced")
	}
	return nil
}

// appSpecific is sd_id128_get_machine_app_specific(3).
func appSpecific(id, app []byte) (out [16]byte) {
	mac := hmac.New(sha256.New, id)
	mac.Write(app)
	copy(out[:], mac.Sum(nil))
	out[6] = out[6]&0x0f | 0x40
	out[8] = out[8]&0x3f | 0x80
	return out
}

// forget drops a file from the page cache, so that it is read from the disk the next time.
func forget(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// prune removes what writes that were cut off left beside path; all of it is sealed.
func prune(path string) {
	half, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"-*"))
	for _, p := range half {
		_ = os.Remove(p)
	}
}
