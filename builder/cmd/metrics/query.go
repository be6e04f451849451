package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// maxQueried bounds what Query takes of one answer, in bytes.
const maxQueried = 64 << 20

// Query asks the stores of metrics one after the other until one answers, and returns its node as well. The order is one
// of the verb metrics-query. An error that a store itself gives, such as that of a malformed query, is the answer.
func Query(ctx context.Context, c *reach.Cluster, o nodeapi.Order) (series []machine.Series, store string, err error) {
	v := verb.Row("metrics-query")
	if err := v.Check(o); err != nil {
		return nil, "", err
	}
	var problems []error
	for _, node := range c.Facts.Members[metrics.Role] {
		results, err := verb.Results(ctx, c, node, v, o, maxQueried)
		if err == nil {
			series, err = read(results)
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

// read puts the parts of an answer together.
func read(results []json.RawMessage) (out []machine.Series, err error) {
	for _, part := range results {
		var some []machine.Series
		if err := json.Unmarshal(part, &some); err != nil {
			return nil, fmt.Errorf("the answer is malformed: %w", err)
		}
		out = append(out, some...)
	}
	return out, nil
}
