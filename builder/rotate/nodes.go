package rotate

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"spore/fleet"
	"spore/wire/nodeapi"
)

// Usual times of a phase.
const (
	// NodeBound is the longest that one node may take to restart what it has to, quorum services with all their waiting.
	NodeBound = 30 * time.Minute
	// LookEvery is how often a node is asked meanwhile.
	LookEvery = 2 * time.Second
)

const (
	// askBound is how long one question to a node may take.
	askBound = 15 * time.Second
	// maxAnswer bounds what a node answers, in bytes.
	maxAnswer = 1 << 20
)

// Nodes is a fleet that is asked by the API of nodes.
type Nodes struct{ Client nodeapi.Client }

// Ask implements Fleet.
func (n Nodes) Ask(ctx context.Context, node string) (r nodeapi.Renewal, err error) {
	return fleet.Renewal(ctx, n.Client, node)
}

// Send implements Fleet.
func (n Nodes) Send(ctx context.Context, node string, bundle []byte) error {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	q := nodeapi.Request{Method: http.MethodPost, Path: nodeapi.BundlePath, Body: bytes.NewReader(bundle)}
	_, err := n.Client.Read(ctx, node, q, maxAnswer)
	return err
}

// Sleep is Phase.Sleep of the real clock.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
