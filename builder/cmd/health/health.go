// Package health is the command `spore health`: whether a running cluster is as it should be, and what is not.
package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/builder/cmd/reach"
	"spore/cluster/facts"
	"spore/fleet/clusterhealth"
	"spore/wire/nodeapi"
)

// errUnhealthy is the error for a cluster that is not healthy; what is not was printed.
var errUnhealthy = errors.New("the cluster is not healthy")

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "health [DIR]",
		Short: "Check the health of a running cluster, and show what fails",
		Long: `Health asks the nodes of the cluster in DIR (configs when left out), all at the same time. Each answers with conditions
in a fixed order, with a reason for each. A condition depends on those before it, so begin with the first that fails.
Then come the conditions of the cluster: whether all nodes answer, and how many members of each quorum serve.

It prints the conditions that are not ok; with --all it prints all. It exits with 1 when a condition fails or a node
does not answer; a warning does not make it fail.`,
		Example: "  spore health\n  spore health configs --all --node kafka-01\n  spore health configs --json",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := inputs.Dir(args)
			c, err := f.Open(cmd, dir, nodeapi.Reader)
			if err != nil {
				return err
			}
			return run(cmd, c, asJSON, all)
		},
	}
	f.Register(cmd, true)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with all conditions")
	cmd.Flags().BoolVar(&all, "all", false, "also show the conditions that are ok")
	return cmd
}

func run(cmd *cobra.Command, c *reach.Cluster, asJSON, all bool) error {
	answers := reach.Each(cmd.Context(), c, func(ctx context.Context, n facts.Node) (nodeapi.Health, error) {
		data, err := c.Client.Read(ctx, n.Name, nodeapi.Request{Path: nodeapi.HealthPath}, nodeapi.MaxHealth)
		if err != nil {
			return nodeapi.Health{}, err
		}
		return nodeapi.ParseHealth(data, c.Facts.ID, n.Name)
	})
	found := clusterhealth.Judge(c.Facts.Name, answers)
	var err error
	if asJSON {
		err = nodeapi.WriteJSON(cmd.OutOrStdout(), found, "")
	} else {
		err = printTable(cmd.OutOrStdout(), found, all)
	}
	if err == nil && !found.Healthy {
		err = errUnhealthy
	}
	return err
}

// printTable prints a row for each condition that is not ok, and one for a node that has none.
func printTable(w io.Writer, c clusterhealth.Cluster, all bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tCONDITION\tSTATE\tREASON")
	row := func(node string, c nodeapi.Condition) {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", node, nodeapi.Harmless(c.Name), c.State, nodeapi.Harmless(c.Reason))
	}
	rows := func(node string, list []nodeapi.Condition) {
		shown := 0
		for _, c := range list {
			if all || c.State != nodeapi.OK {
				row(node, c)
				shown++
			}
		}
		if shown == 0 {
			fmt.Fprintf(t, "%s\t-\tok\t%d conditions\n", node, len(list))
		}
	}
	for _, n := range c.Nodes {
		if n.Health == nil {
			row(n.Node, nodeapi.Condition{Name: "answers", State: nodeapi.Failing, Reason: n.Error})
			continue
		}
		rows(n.Node, n.Health.Conditions)
	}
	rows("(cluster)", c.Conditions)
	return t.Flush()
}
