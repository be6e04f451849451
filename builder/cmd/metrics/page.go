package metrics

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/spf13/cobra"

	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/builder/entrance"
	"spore/builder/metricspage"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// page serves the store's own page on this machine until the command is stopped.
func page(cmd *cobra.Command, f reach.Flags, dir string) error {
	v := verb.Row("metrics-page")
	c, err := verb.Open(cmd, f, dir, v)
	if err != nil {
		return err
	}
	if err := verb.Answering(cmd, c, metrics.Role); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("open a port on this machine: %w", err)
	}
	host := l.Addr().String()
	h, path, err := metricspage.New(metricspage.Options{Host: host, Random: rand.Reader, Check: v.Check, Ask: asker(c, v)})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "The page of %s is here until you press Ctrl-C. Whoever has the address can read all metrics:\n", c.Nodes[0].Name)
	fmt.Fprintf(cmd.OutOrStdout(), "http://%s%s\n", host, path)
	return entrance.Serve(cmd.Context(), l, h)
}

// asker asks the one node of a cluster.
func asker(c *reach.Cluster, v nodeapi.Verb) func(context.Context, nodeapi.Order, func(machine.Page) error) error {
	return func(ctx context.Context, o nodeapi.Order, take func(machine.Page) error) error {
		body, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("internal error: %w", err)
		}
		q := nodeapi.Request{Method: http.MethodPost, Path: nodeapi.VerbsPath + v.Name, Body: bytes.NewReader(body)}
		return c.Stream(ctx, c.Nodes[0].Name, q, v.Bound, func(r io.Reader) error {
			_, err := nodeapi.ReadEvents(r, func(e nodeapi.Event) error {
				if e.Result == nil {
					return nil
				}
				var p machine.Page
				if err := json.Unmarshal(e.Result, &p); err != nil {
					return fmt.Errorf("the node's answer is malformed: %w", err)
				}
				return take(p)
			})
			return err
		})
	}
}
