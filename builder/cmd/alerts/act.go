package alerts

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/dashboard"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// Silence has nobody told of alerts for a while, as the command does, and returns what was done. The node of a wish that
// is none of the cluster is what the label of an alert's node is held to.
func Silence(ctx context.Context, c *reach.Cluster, w dashboard.Wish) (string, error) {
	s := silence{node: w.Node, length: w.For, comment: w.Comment, labels: slices.Clone(w.Labels)}
	if s.node != "" && known(s.node, c.Nodes) != nil {
		s.node, s.labels = "", append(s.labels, machine.AlertNode+"="+s.node)
	}
	v := verb.Row("alerts-silence")
	o, err := s.order(w.Name)
	if err == nil {
		err = v.Check(o)
	}
	if err != nil {
		return "", err
	}
	return act(ctx, c, v, o)
}

// Unsilence ends a silence, as the command does, and returns what was done.
func Unsilence(ctx context.Context, c *reach.Cluster, id string) (string, error) {
	v := verb.Row("alerts-unsilence")
	o := nodeapi.Order{Arguments: map[string]string{"id": id}}
	if err := v.Check(o); err != nil {
		return "", err
	}
	return act(ctx, c, v, o)
}

// act has the first node with the role do it that can.
func act(ctx context.Context, c *reach.Cluster, v nodeapi.Verb, o nodeapi.Order) (string, error) {
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	cmd.SetErr(io.Discard) // What a node says on the way is for a terminal.
	answers, err := verb.InTurn(cmd, c, metrics.AlertsRole, v, o)
	if err != nil {
		return "", err
	}
	a := answers[0]
	if a.Err != nil {
		return "", fmt.Errorf("%s: %w", a.Node.Name, a.Err)
	}
	return a.Value.Done, nil
}
