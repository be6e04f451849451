package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"spore/agent/efi"
	"spore/agent/firmware"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/quote"
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

// spoiled tells whether an image was measured before the one that runs, and a restart brings a start without it. The
// boot loader says which entry it has counted in this start: that one is tried first the next time, too, and has lost a
// try. So there are no more restarts than tries; an entry that nobody counts would be tried for ever, and is no reason
// for one.
func spoiled(m *node.Machine) bool {
	if !efi.HasCounted(os.DirFS(m.Root.At(paths.EFIVars))) {
		return false
	}
	data, err := atomicfile.ReadLimited(m.Root.At("/"+quote.Log), tpm.MaxLog)
	if err != nil {
		m.Say(err.Error())
		return false
	}
	log, err := tpm.ParseLog(data)
	if err != nil {
		m.Say(err.Error())
		return false
	}
	return log.Images() > 1
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
