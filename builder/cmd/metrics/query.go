package metrics

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// maxQueried bounds what Query takes of one answer, in bytes, and silence is after how long without a sign of the node it
// gives up. The node gives one every 15 seconds.
const (
	maxQueried = 64 << 20
	silence    = time.Minute
)

// Query asks the stores of metrics one after the other until one answers, and returns its node as well. The order is one
// of the verb metrics-query. An error that a store itself gives, such as that of a malformed query, is the answer.
func Query(ctx context.Context, c *reach.Cluster, o nodeapi.Order) (series []machine.Series, store string, err error) {
	v := verb.Row("metrics-query")
	if err := v.Check(o); err != nil {
		return nil, "", err
	}
	var problems []error
	for _, node := range c.Facts.Members[metrics.Role] {
		series, err := queryOne(ctx, c, node, v, o)
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

func queryOne(ctx context.Context, c *reach.Cluster, node string, v nodeapi.Verb, o nodeapi.Order) ([]machine.Series, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, v.Bound+silence, errors.New("its answer has no end"))
	defer cancel()
	var results []json.RawMessage
	size := 0
	q := nodeapi.Request{Method: http.MethodPost, Path: nodeapi.VerbsPath + v.Name, Body: bytes.NewReader(body)}
	err = c.Stream(ctx, node, q, max(c.Timeout, silence), func(r io.Reader) error {
		_, err := nodeapi.ReadEvents(r, func(e nodeapi.Event) error {
			if size += len(e.Result); size > maxQueried {
				return fmt.Errorf("its answer has more than %d MiB; ask for less", maxQueried>>20)
			}
			if e.Result != nil {
				results = append(results, e.Result)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return read(results)
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
