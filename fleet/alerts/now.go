// Package alerts asks the nodes that know it which alerts fire.
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

	"spore/cluster/facts"
	"spore/fleet"
	"spore/fleet/verbs"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// maxNow bounds what a node answers, in bytes.
const maxNow = 16 << 20

// Now asks the nodes with the role, all at once, and puts together what those know that answer, as the command does. It
// is an error where none answers.
func Now(ctx context.Context, c *fleet.Cluster) ([]machine.Alert, error) {
	these := *c
	these.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n facts.Node) bool { return !slices.Contains(n.Roles, metrics.AlertsRole) })
	if len(these.Nodes) == 0 {
		return nil, fmt.Errorf("no node that is asked has the role %s", metrics.AlertsRole)
	}
	var told []fleet.Answer[verbs.Reply]
	var problems []error
	for _, a := range fleet.Each(ctx, &these, func(ctx context.Context, n facts.Node) (verbs.Reply, error) { return one(ctx, c, n.Name) }) {
		if a.Err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", a.Node.Name, a.Err))
			continue
		}
		told = append(told, a)
	}
	if len(told) == 0 {
		return nil, errors.Join(problems...)
	}
	all, err := Merged(told)
	if err != nil {
		return nil, err
	}
	return Read[machine.Alert](all.Value.Results)
}

// one asks one node.
func one(ctx context.Context, c *fleet.Cluster, node string) (out verbs.Reply, err error) {
	body, err := json.Marshal(nodeapi.Order{})
	if err != nil {
		return out, fmt.Errorf("internal error: %w", err)
	}
	size := 0
	q := nodeapi.Request{Method: http.MethodPost, Path: nodeapi.VerbsPath + verbs.Row("alerts").Name, Body: bytes.NewReader(body)}
	err = c.Stream(ctx, node, q, c.Timeout, func(r io.Reader) (err error) {
		out.Done, err = nodeapi.ReadEvents(r, func(e nodeapi.Event) error {
			if size += len(e.Result); size > maxNow {
				return fmt.Errorf("it answers more than %d MiB", maxNow>>20)
			}
			if e.Result != nil {
				out.Results = append(out.Results, e.Result)
			}
			return nil
		})
		return err
	})
	return out, err
}
