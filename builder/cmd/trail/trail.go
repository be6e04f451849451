// Package trail is the command `spore trail`: who had nodes change something, and what came of it.
package trail

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/builder/cmd/reach"
	"spore/cluster/facts"
	"spore/fleet"
	"spore/fleet/trail"
	"spore/wire/nodeapi"
)

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	var show trail.Question
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "trail [DIR]",
		Short: "Show who had nodes change something",
		Long: `Trail shows the calls that had nodes of the cluster in DIR (configs when left out) change something: when, which
node, who, with which certificate and role, from where, what, and what came of it. Calls that the table of rights
refused are in the journal of spore-api.service instead.

Each node keeps its records, and has one other node keep them as well. The command asks all nodes and shows each call
once. The last column says where a record is only on another node: because the node is off or was reset, or because
somebody removed it there.

It fails when a node does not answer, and shows what the others have.`,
		Example: "  spore trail\n  spore trail configs --since 7d --user anna\n  spore trail configs --node edge-1 --json",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := inputs.Dir(args)
			c, err := f.Open(cmd, dir, nodeapi.Reader)
			if err != nil {
				return err
			}
			for _, name := range show.Nodes {
				if _, err := facts.Find(c.Nodes, name, filepath.Join(dir, "cluster.yaml")); err != nil {
					return exit.Usage(err)
				}
			}
			return run(cmd, c, show, asJSON)
		},
	}
	f.Register(cmd, false)
	flags := cmd.Flags()
	flags.StringArrayVar(&show.Nodes, "node", nil, "show calls of this node alone (may be given again)")
	flags.StringVar(&show.User, "user", "", "show calls of this person alone")
	flags.StringVar(&show.Since, "since", "24h", "how far to look back, such as 12h or 30d")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func run(cmd *cobra.Command, c *reach.Cluster, show trail.Question, asJSON bool) error {
	found, err := trail.Ask(cmd.Context(), c, show, time.Now())
	if err != nil {
		return exit.Usage(err)
	}
	if asJSON {
		err = nodeapi.WriteJSON(cmd.OutOrStdout(), found.Calls, "")
	} else {
		err = print(cmd.OutOrStdout(), found.Calls)
	}
	if err != nil || len(found.Failed) == 0 {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(found.Failed)) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", name, nodeapi.Harmless(found.Failed[name].Error()))
	}
	return fmt.Errorf("%d of %d nodes do not answer; what they alone have is not shown", len(found.Failed), found.Asked)
}

func print(w io.Writer, calls []trail.Call) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TIME\tNODE\tUSER\tROLE\tCERTIFICATE\tFROM\tCALL\tRESULT\tREMARKS")
	for _, c := range calls {
		cells := []string{
			c.Time.UTC().Format(time.RFC3339), c.Node, c.User, fleet.RoleName(c.Role), short(c.Serial), c.From,
			c.What(), c.Outcome(), c.Remarks(),
		}
		for i, text := range cells {
			if cells[i] = oneCell(text); text == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// oneCell is text that comes from a node, without what would begin another cell.
func oneCell(text string) string {
	return strings.ReplaceAll(nodeapi.Harmless(text), "\t", " ")
}

// short is the beginning of a serial number, which is enough to find it in the list of spore access --list.
func short(serial string) string {
	if len(serial) > 12 {
		return serial[:12] + "…"
	}
	return serial
}
