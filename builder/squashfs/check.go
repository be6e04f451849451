package squashfs

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"spore/builder/tree"
)

// Limits of the kernel (include/uapi/linux/limits.h, fs/squashfs) and of the format's fields.
const (
	maxName       = 255
	maxTarget     = 4095 // symbolic links; PATH_MAX with its zero
	maxXattrValue = 64 << 10
	maxMajor      = 1<<12 - 1
	maxMinor      = 1<<20 - 1
	maxIDs        = 1<<16 - 1
)

// xattrPrefixes are the namespaces that squashfs has numbers for, by number.
var xattrPrefixes = []string{"user.", "trusted.", "security."}

// checkInode refuses what a squashfs inode cannot hold.
func checkInode(n *tree.Inode) error {
	if n.Mode > 0o7777 {
		return fmt.Errorf("mode %#o has bits beside 07777", n.Mode)
	}
	if n.MTime < 0 || n.MTime > math.MaxUint32 {
		return fmt.Errorf("modification time %d is outside of 1970 to 2106", n.MTime)
	}
	switch n.Type {
	case tree.Dir, tree.Regular, tree.Fifo:
	case tree.Symlink:
		if n.Target == "" || len(n.Target) > maxTarget || strings.IndexByte(n.Target, 0) >= 0 {
			return fmt.Errorf("a symbolic link with a target of %d bytes, want 1 to %d without a zero byte", len(n.Target), maxTarget)
		}
	case tree.CharDevice, tree.BlockDevice:
		if n.Major > maxMajor || n.Minor > maxMinor {
			return fmt.Errorf("device %d:%d, and %d:%d is the largest", n.Major, n.Minor, maxMajor, maxMinor)
		}
	default:
		return fmt.Errorf("unknown inode type %d", n.Type)
	}
	return checkXattrs(n.Xattrs)
}

func checkXattrs(list []tree.Xattr) error {
	for i, x := range list {
		if _, _, err := xattrType(x.Name); err != nil {
			return err
		}
		if len(x.Name) > maxName || strings.IndexByte(x.Name, 0) >= 0 {
			return fmt.Errorf("xattr %q: a name of more than %d bytes, or with a zero byte", x.Name, maxName)
		}
		if len(x.Value) > maxXattrValue {
			return fmt.Errorf("xattr %s: a value of %d bytes, and %d is the most", x.Name, len(x.Value), maxXattrValue)
		}
		if i > 0 && list[i-1].Name >= x.Name {
			return fmt.Errorf("xattr %s: not sorted by name, or there twice", x.Name)
		}
	}
	return nil
}

// xattrType splits a name into the number of its namespace and the rest.
func xattrType(name string) (uint16, string, error) {
	for i, p := range xattrPrefixes {
		if rest, ok := strings.CutPrefix(name, p); ok {
			if rest == "" {
				return 0, "", errors.New("an xattr with a namespace and no name")
			}
			return uint16(i), rest, nil
		}
	}
	return 0, "", fmt.Errorf("xattr %q: squashfs has the namespaces user, trusted and security only", name)
}
