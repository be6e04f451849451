package recipe

import "spore/builder/tree"

// Debian runs only the steps that stand for dpkg and the maintainer scripts.
func Debian(packages []Package, o Options) (*tree.Tree, error) {
	b, err := newBuild(packages, o)
	if err != nil {
		return nil, err
	}
	return b.tree, b.run(debianSteps)
}
