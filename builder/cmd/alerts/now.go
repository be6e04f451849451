package alerts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// maxNow bounds what a node answers, in bytes.
const maxNow = 16 << 20

// Now asks the nodes with the role one after the other, until one tells which alerts fire.
func Now(ctx context.Context, c *reach.Cluster) ([]machine.Alert, error) {
	v := verb.Row("alerts")
	body, err := json.Marshal(nodeapi.Order{})
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	var problems []error
	for _, n := range c.Nodes {
		if !slices.Contains(n.Roles, metrics.AlertsRole) {
			continue
		}
		var parts []json.RawMessage
		size := 0
		q := nodeapi.Request{Method: http.MethodPost, Path: nodeapi.VerbsPath + v.Name, Body: bytes.NewReader(body)}
		err := c.Stream(ctx, n.Name, q, c.Timeout, func(r io.Reader) error {
			_, err := nodeapi.ReadEvents(r, func(e nodeapi.Event) error {
				if size += len(e.Result); size > maxNow {
					return fmt.Errorf("it answers more than %d MiB", maxNow>>20)
				}
				if e.Result != nil {
					parts = append(parts, e.Result)
				}
				return nil
			})
			return err
		})
		if err == nil {
			return read[machine.Alert](parts)
		}
		problems = append(problems, fmt.Errorf("%s: %w", n.Name, err))
	}
	if len(problems) == 0 {
		return nil, fmt.Errorf("no node that is asked has the role %s", metrics.AlertsRole)
	}
	return nil, errors.Join(problems...)
}
