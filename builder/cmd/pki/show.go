package pki

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	tree "spore/pki"
)

func showCommand(world outside) *cobra.Command {
	c := common{world: world}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [DIR]",
		Short: "List authorities, certificates, secrets and bundles with their expiry",
		Long: `Show lists what is in the operator's folder of the cluster in DIR (configs when left out), when it ends and when it is
to be renewed, against what the configuration wants now. No secret is shown. States:

  ok, given       as it should be; you brought the value
  due, expired    renew it
  changed         the configuration or its authority changed; renew it
  missing         it was never made (bundle: never handed out)
  outdated        the node's last bundle lacks what is there now
  next, previous  the other half of a rotation, trusted too
  unused          nothing in the configuration needs it`,
		Example: "  spore pki show\n  spore pki show configs --json",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.args(args)
			s, err := c.open(cmd)
			if err != nil {
				return err
			}
			defer s.vault.Close()
			lines, err := s.vault.Tree.Show(s.cluster, s.nodes, world.now())
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(lines)
			}
			return printLines(cmd.OutOrStdout(), lines)
		},
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printLines(w io.Writer, lines []tree.Line) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KIND\tNAME\tFOR\tSIGNED BY\tMADE\tRENEW\tEXPIRES\tSTATE")
	date := func(d *time.Time) string {
		if d == nil {
			return "-"
		}
		return d.UTC().Format(time.DateOnly)
	}
	for _, l := range lines {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Kind, l.Name, cmp.Or(l.For, "-"), cmp.Or(l.By, "-"), date(l.Made), date(l.Due), date(l.Expires), l.State)
	}
	return t.Flush()
}
