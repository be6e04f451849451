package rootfs

import (
	"errors"
	"fmt"
	"io/fs"

	"spore/builder/privileged"
	"spore/builder/tree"
)

// maxAccounts bounds /etc/passwd and /etc/group, in bytes.
const maxAccounts = 4 << 20

// Privileged lists the files of the root that give rights of somebody else to whoever starts them, as they are in the
// root itself, whatever its manifest says.
func (i *Image) Privileged() ([]privileged.File, error) {
	passwd, err := i.accounts("/etc/passwd")
	if err != nil {
		return nil, err
	}
	group, err := i.accounts("/etc/group")
	if err != nil {
		return nil, err
	}
	return privileged.NewAccounts(passwd, group).List(func(yield func(string, *tree.Inode) bool) {
		for n := range i.Root.Entries {
			e := &i.Root.Entries[n]
			inode := &tree.Inode{Type: e.Type, Mode: e.Mode, UID: e.UID, GID: e.GID, Xattrs: e.Xattrs}
			if i.Origins != nil {
				inode.Origin = i.Origins[n]
			}
			if !yield(e.Path, inode) {
				return
			}
		}
	})
}

// accounts reads a file of accounts; a root without one has numbers alone.
func (i *Image) accounts(name string) ([]byte, error) {
	data, err := i.Root.ReadFile(name, maxAccounts)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the accounts of the root: %w", err)
	}
	return data, nil
}
