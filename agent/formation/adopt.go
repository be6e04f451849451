package formation

import (
	"errors"
	"fmt"
	"slices"
)

// NewNonce draws an incarnation for Adopt.
func NewNonce() string { return newNonce() }

// Adopt notes that this member has data that an operator brought back, under an incarnation of its own, and is the only
// member of what becomes of it: the others, which are empty or lost theirs, join it and never form. The operator has seen
// to it that no other member comes back with what was given up. It can be called again after a power cut. The service must
// not be starting.
func Adopt(dir, service, cluster, node string, initial []string, nonce string) error {
	if !validNonce(nonce) {
		return errors.New("internal error: a nonce is 32 hexadecimal digits")
	}
	_, err := change(dir, service, func(file *State) (State, error) {
		if file != nil && (file.Cluster != cluster || file.Node != node) {
			return State{}, fmt.Errorf("what is known of the formation of %s is that of member %s of cluster %s, and this is %s of %s", service, file.Node, file.Cluster, node, cluster)
		}
		if file != nil && file.Nonce == nonce && file.Made {
			return *file, nil // done before the power cut, and the service may have run since
		}
		initial = slices.Clone(initial)
		slices.Sort(initial)
		s := empties(cluster, node, initial, nonce)
		s.Record = &Record{Writer: node, Forced: true, Members: map[string]string{node: nonce}}
		s.Made, s.Formed = true, true
		return s, nil
	})
	if err != nil {
		return fmt.Errorf("note that %s was restored: %w", service, err)
	}
	return nil
}
