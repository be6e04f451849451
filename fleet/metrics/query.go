// Package metrics asks the store of metrics of a cluster.
package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spore/fleet"
	"spore/fleet/verbs"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// maxQueried bounds what Query takes of one answer, in bytes.
const maxQueried = 64 << 20

// Query asks the stores of metrics one after the other until one answers, and returns its node as well. The order is one
// of the verb metrics-query. An error that a store itself gives, such as that of a malformed query, is the answer.
func Query(ctx context.Context, c *fleet.Cluster, o nodeapi.Order) (series []machine.Series, store string, err error) {
	v := verbs.Row("metrics-query")
	if err := v.Check(o); err != nil {
		return nil, "", err
	}
	var problems []error
	for _, node := range c.Facts.Members[metrics.Role] {
		results, err := verbs.Results(ctx, c, node, v, o, maxQueried)
		if err == nil {
			series, err = Read(results)
		}
		if err == nil {
			return series, node, nil
		}
		var failed nodeapi.Failed
		if problems = append(problems, fmt.Errorf("%s: %w", node, err)); errors.As(err, &failed) || ctx.Err() != nil {
			break
		}
	}
	if len(problems) == 0 {
		return nil, "", fmt.Errorf("no node has the role %s", metrics.Role)
	}
	return nil, "", errors.Join(problems...)
}

// Read puts the parts of an answer together.
func Read(results []json.RawMessage) (out []machine.Series, err error) {
	for _, part := range results {
		var some []machine.Series
		if err := json.Unmarshal(part, &some); err != nil {
			return nil, fmt.Errorf("the answer is malformed: %w", err)
		}
		out = append(out, some...)
	}
	return out, nil
}

// Name is a series as PromQL has it, without what a terminal or a page would take for a command.
func Name(labels map[string]string) string {
	var pairs []string
	for k, v := range labels {
		if k != "__name__" {
			pairs = append(pairs, fmt.Sprintf("%s=%q", nodeapi.Harmless(k), v))
		}
	}
	slices.Sort(pairs)
	if len(pairs) == 0 && labels["__name__"] == "" {
		return "{}"
	}
	if len(pairs) == 0 {
		return nodeapi.Harmless(labels["__name__"])
	}
	return nodeapi.Harmless(labels["__name__"]) + "{" + strings.Join(pairs, ", ") + "}"
}
