package verbs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"spore/fleet"
	"spore/wire/nodeapi"
)

// Results has one node carry out a verb for somebody who is shown nothing meanwhile, and returns the parts of its
// result, which have at most so many bytes together.
func Results(ctx context.Context, c *fleet.Cluster, node string, v nodeapi.Verb, o nodeapi.Order, most int) (out []json.RawMessage, err error) {
	if err := v.Check(o); err != nil {
		return nil, err
	}
	body, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, max(v.Bound, time.Minute)+silence, errors.New("its answer has no end"))
	defer cancel()
	size := 0
	q := nodeapi.Request{Method: http.MethodPost, Path: nodeapi.VerbsPath + v.Name, Body: bytes.NewReader(body)}
	err = c.Stream(ctx, node, q, max(c.Timeout, silence), func(r io.Reader) error {
		_, err := nodeapi.ReadEvents(r, func(e nodeapi.Event) error {
			if size += len(e.Result); size > most {
				return fmt.Errorf("its answer has more than %d MiB; ask for less", most>>20)
			}
			if e.Result != nil {
				out = append(out, e.Result)
			}
			return nil
		})
		return err
	})
	return out, err
}
