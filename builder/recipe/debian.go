package recipe

import (
	"spore/builder/accounts"
	"spore/builder/tree"
)

// Debian makes the first half alone: the root that dpkg and the maintainer scripts would have made. Tests compare it
// with Debian's own.
func Debian(packages []Package, o Options) (*tree.Tree, error) {
	b, err := newBuild(packages, o)
	if err != nil {
		return nil, err
	}
	return b.tree, b.run(debianSteps)
}

// Accounts are the users and groups of the root that Compose makes of the same packages and options: none of its other
// steps adds one. It needs no Hardware, ModuleIndexes, Units, Overlay, Agent or Payloads.
func Accounts(packages []Package, o Options) (*accounts.DB, error) {
	b, err := newBuild(packages, o)
	if err != nil {
		return nil, err
	}
	if err := b.run(debianSteps); err != nil {
		return nil, err
	}
	return b.accounts, nil
}
