// Package dm makes device-mapper devices by its ioctls (Linux include/uapi/linux/dm-ioctl.h), without libdevmapper and
// without udev: one target, read-only, never changed again.
package dm

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Numbers of linux/dm-ioctl.h. The size of struct dm_ioctl is part of the request.
const (
	headerSize = 312
	specSize   = 40
	nameLen    = 128
	uuidLen    = 129
	typeLen    = 16

	request    = 0xc0000000 | headerSize<<16 | 0xfd<<8 // _IOWR(0xfd, cmd, struct dm_ioctl)
	devCreate  = 3
	devRemove  = 4
	devSuspend = 6
	tableLoad  = 9

	readOnlyFlag = 1 << 0
	// deferredFlag has a device that is in use go away with its last user.
	deferredFlag = 1 << 17
	bufferSize   = 16 << 10

	// Version of the interface: 4.0.0 is understood by every kernel with dm-verity.
	versionMajor = 4
)

// Target is what a device maps to.
type Target struct {
	// Type is the target's name, such as "verity".
	Type string
	// Sectors is the size in units of 512 bytes.
	Sectors int64
	// Params are the target's arguments.
	Params string
}

// Create makes the read-only device name with the one target and returns its number in the form dm-N, which is also its
// node's name under /dev. control is an open /dev/mapper/control. The UUID is for later reading by others, such as
// "CRYPT-VERITY-…-root", by which systemd and lsblk know verity devices. A device that cannot be finished is removed.
//
// No udev cookie is handed in: in the initramfs nobody listens, and the "add" that a later coldplug makes carries none.
func Create(control *os.File, name, uuid string, t Target) (string, error) {
	if len(name) >= nameLen || len(uuid) >= uuidLen || len(t.Type) >= typeLen || headerSize+specSize+len(t.Params)+8 > bufferSize {
		return "", fmt.Errorf("internal error: device-mapper %s: name, UUID or table is too long", name)
	}
	b := newBuffer(name, uuid, 0)
	if err := ioctl(control, devCreate, b); err != nil {
		return "", fmt.Errorf("device-mapper: creating %s: %w", name, err)
	}
	dev := binary.LittleEndian.Uint64(b[40:])
	b = newBuffer(name, "", readOnlyFlag)
	putTarget(b, t)
	err := ioctl(control, tableLoad, b)
	if err != nil {
		err = fmt.Errorf("device-mapper: loading the %s table of %s: %w (is the module loaded, and its hash?)", t.Type, name, err)
	} else if err = ioctl(control, devSuspend, newBuffer(name, "", 0)); err != nil {
		err = fmt.Errorf("device-mapper: starting %s: %w", name, err)
	}
	if err != nil {
		_ = ioctl(control, devRemove, newBuffer(name, "", 0)) // the first error is the one to tell
		return "", err
	}
	return fmt.Sprintf("dm-%d", unix.Minor(dev)), nil
}

// Remove removes a device; one that is in use goes away with its last user.
func Remove(control *os.File, name string) error {
	if err := ioctl(control, devRemove, newBuffer(name, "", deferredFlag)); err != nil {
		return fmt.Errorf("device-mapper: removing %s: %w", name, err)
	}
	return nil
}

// newBuffer returns a struct dm_ioctl with room for a target behind it.
func newBuffer(name, uuid string, flags uint32) []byte {
	b := make([]byte, bufferSize)
	le := binary.LittleEndian
	le.PutUint32(b[0:], versionMajor)
	le.PutUint32(b[12:], bufferSize)
	le.PutUint32(b[16:], headerSize)
	le.PutUint32(b[28:], flags)
	copy(b[48:48+nameLen-1], name)
	copy(b[48+nameLen:48+nameLen+uuidLen-1], uuid)
	return b
}

// putTarget writes the one struct dm_target_spec and its arguments behind the header.
func putTarget(b []byte, t Target) {
	le := binary.LittleEndian
	le.PutUint32(b[20:], 1)
	spec := b[headerSize:]
	le.PutUint64(spec[8:], uint64(t.Sectors))
	le.PutUint32(spec[20:], uint32(specSize+len(t.Params)+8)&^7)
	copy(spec[24:24+typeLen-1], t.Type)
	copy(spec[specSize:], t.Params)
}

func ioctl(control *os.File, cmd uintptr, b []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, control.Fd(), request|cmd, uintptr(unsafe.Pointer(&b[0])))
	if errno != 0 {
		return errno
	}
	return nil
}
