package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"spore/agent/firmware"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/tpm"
	"spore/agent/unlock"
	"spore/storage/atomicfile"
)

// measured is what the TPM measured of this start.
func Measured(m *node.Machine) (unlock.Start, error) {
	root := os.DirFS(m.Root.At("/"))
	var start unlock.Start
	if f := firmware.Read(root); f != nil {
		start.SecureBoot = f.SecureBoot
	}
	var err error
	if start.Keys, err = tpm.Read(root, tpm.Keys); err != nil {
		return start, err
	}
	start.Words, err = tpm.Read(root, tpm.Words)
	return start, err
}

// openTPM opens the device of a TPM for one command after the other. os.OpenFile would make it non-blocking, since it
// can be polled, and then the kernel runs the command behind our back and says of its answer that there is none yet
// (drivers/char/tpm/tpm-dev-common.c).
func openTPM(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// endOpening has the TPM open the state to nobody any more in this boot, once: every later start of the command finds
// it done. The register changes on a machine without encrypted state too, so that its value tells the same everywhere.
func endOpening(ctx context.Context, m *node.Machine) error {
	done := m.Root.At(paths.StateMeasured)
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	m.AwaitTPM(ctx)
	device, err := openTPM(m.Root.At("/dev/tpmrm0"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the TPM: %w", err)
	}
	defer device.Close()
	if err := tpm.Extend(device, tpm.Image, []byte(tpm.StateOpen)); err != nil {
		return err
	}
	_, err = atomicfile.Write(done, nil, 0o644)
	return err
}
