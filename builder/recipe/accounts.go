package recipe

import (
	"fmt"

	"spore/builder/accounts"
	"spore/builder/tree"
)

// beginAccounts takes the accounts that every image has, and those of its programs. Scripts add theirs.
func beginAccounts(b *build) error {
	fixed, err := accounts.Fixed()
	if err != nil {
		return err
	}
	b.accounts = accounts.New(fixed, b.opts.Locked, b.opts.Programs...)
	return b.beginReplay()
}

// checkOwners compares the accounts with those of base-passwd, so that a new one of Debian is seen, and refuses files
// whose owner has no account: they would belong to whoever gets that number one day.
func checkOwners(b *build) error {
	fixed, err := accounts.Fixed()
	if err != nil {
		return err
	}
	if b.present["base-passwd"] != nil {
		for file, groups := range map[string]bool{"/usr/share/base-passwd/passwd.master": false, "/usr/share/base-passwd/group.master": true} {
			data, err := b.tree.ReadFile(file)
			if err != nil {
				return err
			}
			if err := fixed.CheckMaster(file, string(data), groups); err != nil {
				return err
			}
		}
	}
	return b.tree.Walk(func(p string, n *tree.Inode) error {
		if !b.accounts.Owned(n.UID, n.GID) {
			return fmt.Errorf("%s of %s belongs to %d:%d, and no account has these numbers", p, n.Origin, n.UID, n.GID)
		}
		return nil
	})
}
