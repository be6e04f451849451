// Package clean is the command `spore clean`: nodes make room on their state.
package clean

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/wire/nodeapi"
)

// thing is a file or a folder, as a node answers (agent/verbs/clean).
type thing struct {
	Path  string `json:"path"`
	About string `json:"about"`
	Bytes int64  `json:"bytes"`
}

// answer is what a node answers.
type answer struct {
	Things  []thing `json:"things"`
	Folders []thing `json:"folders"`
}

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	var asJSON, all, givenUp bool
	var confirm string
	var journal int
	order := nodeapi.Order{}
	cmd := &cobra.Command{
		Use:   "clean [DIR] --node NODE",
		Short: "Make room on the state of nodes",
		Long: `Clean has nodes of the cluster in DIR (configs when left out) remove what they can do without: closed journals beyond
64 MiB, dumps of programs that crashed, and pieces of an update that are kept for other nodes. It shows the folders of
/var that take most; with --dry-run that is all.

Images of containers, logs of pods and snapshots have bounds of their own, and no data of a service is touched. With
--given-up a node removes former data of services that was kept when you gave it up (spore etcd restore, spore quorum
form): for one node, confirmed by its name.`,
		Example: "  spore clean --node edge-01 --dry-run\n" +
			"  spore clean configs --all\n" +
			"  spore clean configs --node master-1 --given-up --confirm master-1",
		Args: exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "clean"
			switch {
			case len(f.Nodes) == 0 && !all:
				return exit.Usage(errors.New("no node is named: give --node NODE, or --all"))
			case len(f.Nodes) > 0 && all:
				return exit.Usage(errors.New("give --node or --all, not both"))
			case givenUp && len(f.Nodes) != 1:
				return exit.Usage(errors.New("--given-up deletes data: name one node"))
			case givenUp:
				name = "clean-given-up"
			default:
				order.Arguments = map[string]string{"journal": strconv.Itoa(journal)}
			}
			v := verb.Row(name)
			checked := order
			checked.Confirm = ""
			checked.DryRun = true
			if err := v.Check(checked); err != nil {
				return exit.Usage(err)
			}
			c, err := verb.Open(cmd, f, inputs.Dir(args), v)
			if err != nil {
				return err
			}
			if givenUp && !order.DryRun {
				lost := "This deletes the former data of services on " + f.Nodes[0]
				if order.Confirm, err = verb.Confirm(cmd, confirm, f.Nodes[0], lost); err != nil {
					return err
				}
			}
			return verb.Tell(cmd, verb.Ask(cmd, c, v, verb.Same(order), nil), asJSON, show)
		},
	}
	f.Register(cmd, true)
	cmd.Flags().Lookup("node").Usage = "which node (may be given again)"
	cmd.Flags().BoolVar(&all, "all", false, "all nodes")
	cmd.Flags().IntVar(&journal, "journal", 64, "how much of the journal stays, in MiB (16 to 4096)")
	cmd.Flags().BoolVar(&givenUp, "given-up", false, "remove former data of services, which you gave up, instead")
	cmd.Flags().StringVar(&confirm, "confirm", "", "with --given-up: the name of the node, instead of typing it")
	cmd.Flags().BoolVar(&order.DryRun, "dry-run", false,
		"remove nothing, and show what would be removed and what takes most")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// show prints what is removed and which folders take most.
func show(w io.Writer, node string, results []json.RawMessage) error {
	clean := nodeapi.Harmless
	for _, part := range results {
		var a answer
		if err := json.Unmarshal(part, &a); err != nil {
			return fmt.Errorf("the answer is malformed: %w", err)
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, f := range a.Folders {
			fmt.Fprintf(t, "%s\ttakes\t%s\t%s\n", clean(node), bytes(f.Bytes), clean(f.Path))
		}
		for _, f := range a.Things {
			fmt.Fprintf(t, "%s\tremove\t%s\t%s (%s)\n", clean(node), bytes(f.Bytes), clean(f.Path), clean(f.About))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func bytes(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }
