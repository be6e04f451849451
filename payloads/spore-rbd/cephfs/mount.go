package cephfs

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Type is how the kernel calls the file system.
const Type = "ceph"

// Mounter is what the kernel has to know of a storage cluster.
type Mounter struct {
	// FSID is the cluster's id, Monitors the addresses and ports of its monitors, User the client without "client.".
	FSID     string
	Monitors []netip.AddrPort
	User     string
	// KeyFile holds the user's key and nothing else. It is read for each mount, so that a newer one is taken.
	KeyFile string
}

// maxKey bounds a key in bytes; those of cephx have 40.
const maxKey = 256

var keyForm = regexp.MustCompile(`^[A-Za-z0-9+/]+=*$`)

// Source is what a folder of a file system is called in the table of mounts (Documentation/filesystems/ceph.rst of Linux).
func (m Mounter) Source(filesystem, folder string) string {
	return m.User + "@" + m.FSID + "." + filesystem + "=" + folder
}

// Mount mounts a folder of a file system. The kernel waits up to a minute for Ceph.
func (m Mounter) Mount(filesystem, folder, target string, options []string) error {
	if err := CheckPath(folder); err != nil {
		return err
	}
	flags, err := Flags(options)
	if err != nil {
		return err
	}
	key, err := m.key()
	if err != nil {
		return err
	}
	source := m.Source(filesystem, folder)
	// The options hold the key, so that they are in no command line and no error.
	if err := unix.Mount(source, target, Type, flags, m.data(key)); err != nil {
		return explain(fmt.Errorf("mount %s: %w", source, err))
	}
	return nil
}

// data are the kernel's options. ms_mode is msgr2 with encryption, the only thing that our monitors and servers speak.
// recover_session lets a client that Ceph has shut out, because it was away for minutes, come back by itself: what it had
// not synced is lost, and so are its locks, which is said to those who have them; without, all that is left is to unmount.
func (m Mounter) data(key string) string {
	var monitors []string
	for _, a := range m.Monitors {
		monitors = append(monitors, a.String())
	}
	return strings.Join([]string{"mon_addr=" + strings.Join(monitors, "/"), "secret=" + key, "ms_mode=secure", "recover_session=clean"}, ",")
}

func (m Mounter) key() (string, error) {
	f, err := os.Open(m.KeyFile)
	if err != nil {
		return "", fmt.Errorf("read the key of %s: %w", m.User, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return "", fmt.Errorf("read the key of %s: %w", m.User, err)
	}
	key := strings.TrimSpace(string(data))
	if len(data) > maxKey || !keyForm.MatchString(key) {
		return "", fmt.Errorf("%s holds no key of Ceph", m.KeyFile)
	}
	return key, nil
}

// explain adds to an error of mount(2) what it says for this file system.
func explain(err error) error {
	for _, row := range []struct {
		is   error
		says string
	}{
		{unix.ENOENT, "there is no such folder or file system, or the user may not see it"},
		{unix.EACCES, "the user may not mount it"},
		{unix.EPERM, "the user may not mount it, or the key is not Ceph's"},
		// The kernel tries again for a minute where a metadata server refuses it.
		{unix.ETIMEDOUT, "no monitor or metadata server answers, or the user may not mount this folder"},
		{unix.EHOSTUNREACH, "no metadata server serves the file system, or the monitors cannot be spoken to"},
		{unix.ENODEV, "the kernel has no module ceph"},
	} {
		if errors.Is(err, row.is) {
			return fmt.Errorf("%w (%s; the kernel may say more: journalctl -k)", err, row.says)
		}
	}
	return fmt.Errorf("%w (the kernel says more: journalctl -k)", err)
}

// mountFlags are the options of mount(8) that hold for every file system.
var mountFlags = map[string]uintptr{
	"rw": 0, "ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
	"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME, "sync": unix.MS_SYNCHRONOUS, "dirsync": unix.MS_DIRSYNC,
}

// Flags translates mount options. Those of the file system itself are chosen here and nowhere else.
func Flags(options []string) (uintptr, error) {
	var flags uintptr
	for _, o := range options {
		flag, ok := mountFlags[o]
		if !ok {
			known := slices.Sorted(maps.Keys(mountFlags))
			return 0, fmt.Errorf("mount option %.50q is not provided; there are %s", o, strings.Join(known, ", "))
		}
		flags |= flag
	}
	return flags, nil
}

// ParseMonitors reads addresses and ports with slashes between them.
func ParseMonitors(s string) ([]netip.AddrPort, error) {
	var out []netip.AddrPort
	for _, one := range strings.Split(s, "/") {
		a, err := netip.ParseAddrPort(one)
		if err != nil {
			return nil, fmt.Errorf("read the addresses of monitors: %w; write ADDRESS:PORT/ADDRESS:PORT", err)
		}
		out = append(out, a)
	}
	return out, nil
}
