package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"spore/agent/luks"
	"spore/storage/atomicfile"
)

// systemd-repart runs mkfs.TYPE DEVICE for a Format= that it does not know itself (systemd, src/shared/mkfs-util.c,
// make_filesystem), as ever before the table names the partition. The device is a loop device of where that will be.
const (
	// encryptedType is the type of encrypted state: systemd-repart calls mkfs.spore for it, which is Format.
	encryptedType = "spore"
	// optionsVariable has what follows DEVICE (systemd, docs/ENVIRONMENT.md, $SYSTEMD_REPART_MKFS_OPTIONS_<FSTYPE>).
	optionsVariable = "SYSTEMD_REPART_MKFS_OPTIONS_SPORE"
	// forming is the name of the mapping until its file system is made.
	forming = "spore-state-new"
	// maxKeyFile bounds a key's file.
	maxKeyFile = 4096
	// reasonSuffix ends the name of the file with the reason of a failure.
	reasonSuffix = ".reason"
)

// Formatting is one run of Format.
type Formatting struct {
	// Device is what becomes state, KeyFile what opens it.
	Device, KeyFile string
	// Exec runs a program and returns its error with what it printed.
	Exec func(ctx context.Context, env []string, name string, args ...string) error
}

// Format makes encrypted state with an empty file system on a block device, in place of whatever was there. It has the
// key open the volume as it does at boot, so that nothing becomes state that does not open. It can be cut off at any
// point and run again.
//
// systemd-repart could encrypt it too (Encrypt=). libcryptsetup would then stretch the key by Argon2id, for two seconds of
// all processors and in up to half of the memory that is free, and again each time that the key is asked for.
func Format(ctx context.Context, f Formatting) error {
	err := f.run(ctx)
	if err != nil {
		// systemd-repart says it besides, on its own output.
		_ = os.WriteFile(f.KeyFile+reasonSuffix, []byte(err.Error()), 0o600)
	}
	return err
}

// because adds to an error of systemd-repart why Format failed, where it did: systemd-repart ends with the words that mkfs
// has failed.
func because(err error, keyFile string) error {
	why, rerr := atomicfile.ReadLimited(keyFile+reasonSuffix, maxKeyFile)
	if rerr != nil {
		return err
	}
	_ = os.Remove(keyFile + reasonSuffix)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s (%w)", why, err)
}

func (f Formatting) run(ctx context.Context) error {
	if _, err := os.Stat("/dev/mapper/" + forming); err == nil { // An attempt of this boot did not come to its end.
		if err := f.close(ctx); err != nil {
			return err
		}
	}
	if err := f.checkKey(); err != nil {
		return fmt.Errorf("make encrypted state on %s: the key: %w", f.Device, err)
	}
	sector, err := f.header(ctx)
	if err != nil {
		return fmt.Errorf("make encrypted state on %s: %w", f.Device, err)
	}
	return f.open(ctx, sector)
}

// checkKey refuses an empty key, which cryptsetup takes.
func (f Formatting) checkKey() error {
	key, err := atomicfile.ReadLimited(f.KeyFile, maxKeyFile)
	if err != nil {
		return err
	}
	defer clear(key)
	if len(bytes.TrimSpace(key)) == 0 {
		return fmt.Errorf("%s is empty", f.KeyFile)
	}
	return nil
}

// open opens the volume, makes the file system and closes it, whatever went wrong.
func (f Formatting) open(ctx context.Context, sector int) error {
	// It waits for nobody and tries once, as package unlock does.
	if err := f.Exec(ctx, nil, "systemd-cryptsetup", "attach", forming, f.Device, f.KeyFile, "luks,headless=true,tries=1"); err != nil {
		return err
	}
	err := f.fileSystem(ctx, sector)
	if closed := f.close(ctx); err == nil {
		err = closed
	}
	return err
}

func (f Formatting) close(ctx context.Context) error {
	return f.Exec(ctx, nil, "systemd-cryptsetup", "detach", forming)
}

// header makes the LUKS header, and returns the size of the device's sectors in bytes, which is what data is encrypted in:
// a power cut leaves no half of one.
//
// The key slot is of PBKDF2 with few rounds, as systemd-cryptenroll(1) has it for keys of 256 random bits, which are as
// good without being stretched.
func (f Formatting) header(ctx context.Context) (sector int, err error) {
	if sector, err = sectorSize(f.Device); err != nil {
		return 0, err
	}
	return sector, f.Exec(ctx, nil, "cryptsetup", "luksFormat", "--batch-mode", "--disable-locks", "--type", "luks2",
		"--label", Label, "--cipher", luks.Cipher, "--key-size", "512", "--sector-size", strconv.Itoa(sector),
		"--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", f.KeyFile, f.Device)
}

// sectorSize is the size of the sectors of a block device in bytes.
func sectorSize(device string) (int, error) {
	d, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	size, err := unix.IoctlGetInt(int(d.Fd()), unix.BLKSSZGET)
	if err != nil {
		return 0, errors.New("it is not a block device, and systemd-repart has one where the kernel has its module loop")
	}
	return size, nil
}

// fileSystem makes the file system behind the cipher as systemd-repart makes that of state without encryption.
func (f Formatting) fileSystem(ctx context.Context, sector int) error {
	device := "/dev/mapper/" + forming
	if err := f.Exec(ctx, []string{fmt.Sprintf("MKE2FS_DEVICE_SECTSIZE=%d", sector)}, "mkfs.ext4", mkfsOptions(device)...); err != nil {
		return err
	}
	d, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("write the new file system to the disk: %w", err)
	}
	return nil
}

// mkfsOptions are those of systemd-repart with --discard=no. It names the UUID besides, which is of chance here.
func mkfsOptions(device string) []string {
	return []string{"-L", Label, "-I", "256", "-m", "0", "-E", "nodiscard,lazy_itable_init=1", "-b", "4096", "-T", "default", device}
}
