package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"spore/wire/nodeapi"
)

const (
	// renewalBound is how long the question may take, and maxRenewal bounds the answer in bytes.
	renewalBound = 15 * time.Second
	maxRenewal   = 1 << 20
)

// Renewal asks a node how far it is with its certificates.
func Renewal(ctx context.Context, c nodeapi.Client, node string) (r nodeapi.Renewal, err error) {
	ctx, cancel := context.WithTimeout(ctx, renewalBound)
	defer cancel()
	data, err := c.Read(ctx, node, nodeapi.Request{Path: nodeapi.RenewalPath}, maxRenewal)
	if err != nil {
		return r, err
	}
	if err = json.Unmarshal(data, &r); err != nil {
		err = fmt.Errorf("its answer is malformed: %w", err)
	}
	return r, err
}
