package pki

import (
	"fmt"
	"time"

	wire "spore/wire/update"
)

// SignUpdate signs an update of running nodes, whose cluster, serial and time of issue it sets; objects may follow what
// it returns. The serial counts with those of bundles. The tree is to be kept afterwards.
func (t *Tree) SignUpdate(h wire.Head, now time.Time) ([]byte, wire.Head, error) {
	key, err := t.signingKey()
	if err != nil {
		return nil, h, err
	}
	h.Cluster, h.Serial, h.Issued = t.Cluster, t.Serial+1, now.UTC().Truncate(time.Second)
	data, err := wire.Sign(h, key)
	if err != nil {
		return nil, h, fmt.Errorf("sign the update: %w", err)
	}
	t.Serial = h.Serial
	return data, h, nil
}
