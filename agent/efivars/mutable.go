// Package efivars reads, writes and removes variables of the firmware in efivarfs. The kernel protects those whose
// names it does not know: they take CAP_LINUX_IMMUTABLE to write. Those of the boot manager it knows, and they do not.
package efivars

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// immutable is FS_IMMUTABLE_FL (linux/fs.h).
const immutable = 0x10

// Mutable takes the flag off that efivarfs protects variables with against rm -r (Linux,
// Documentation/filesystems/efivarfs.rst). That takes CAP_LINUX_IMMUTABLE, but where the flag is not set. One that is
// not there is fine.
func Mutable(name string) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil // not efivarfs
	}
	if err != nil || flags&immutable == 0 {
		return err
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags&^immutable)
}
