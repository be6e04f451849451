package pki

import (
	"fmt"

	"spore/wire/shell"
)

// SignShell signs a grant of an emergency shell, whose cluster it sets, with the key that signs bundles and updates:
// whoever has that key can give nodes any root, so that a grant gives its holder nothing new.
func (t *Tree) SignShell(g shell.Grant) ([]byte, error) {
	key, err := t.signingKey()
	if err != nil {
		return nil, err
	}
	g.Cluster = t.Cluster
	data, err := shell.Sign(g, key)
	if err != nil {
		return nil, fmt.Errorf("sign the grant: %w", err)
	}
	return data, nil
}
