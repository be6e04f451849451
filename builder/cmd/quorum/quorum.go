// Package quorum is the command `spore quorum`: how the quorums of a node formed, and forming one anew by force.
package quorum

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/verb"
	"spore/wire/nodeapi"
)

// Command returns the command.
func Command() *cobra.Command {
	cmd := &cobra.Command{Use: "quorum", Short: "Show how quorums formed, or form one anew by force", Args: exit.Args(cobra.NoArgs)}
	cmd.AddCommand(
		verb.One{
			Use: "show [DIR] NODE", Verb: "quorum-show", Short: "Show the members of a node's quorums, and for whom it waits",
			Long:    "Show asks NODE who the members of its quorums are and whether they have data (docs/formation.md).",
			Example: "  spore quorum show kafka-01\n  spore quorum show configs master-01 --json", Show: show,
		}.Command(),
		verb.One{
			Use: "form [DIR] NODE QUORUM", Verb: "quorum-form", Words: []string{"quorum"},
			Short: "Form a quorum anew, when most of its members lost their data for good",
			Long: `Form has NODE and those other members that are empty form a new QUORUM (etcd, kafka, ceph-mon). Whatever the members
have or may have that --lose names is given up: none of them may ever come back with it. Run it with --dry-run first: it
says how each member is, and which have to be named. See docs/formation.md.`,
			Example: "  spore quorum form kafka-03 kafka --dry-run\n  spore quorum form configs kafka-03 kafka --lose kafka-01,kafka-02",
			Options: map[string]string{"lose": "the members whose data is given up, with commas between them"},
			Confirm: func(_ string, words []string) string { return words[0] },
			Lost: func(node string, words []string) string {
				return "a new " + words[0] + " is formed by " + node + ", and the data of the members that are named is given up"
			},
		}.Command(),
		verb.One{
			Use: "forget [DIR] NODE QUORUM", Verb: "quorum-forget", Words: []string{"quorum"},
			Short: "Give up the data of a member whose quorum was formed anew",
			Long: `Forget renames what NODE has of a QUORUM (kafka, ceph-mon) that was formed anew without it, and has it join. It refuses
where the other members that serve are no majority. For etcd there is spore etcd forget.`,
			Example: "  spore quorum forget kafka-01 kafka --dry-run\n  spore quorum forget configs kafka-01 kafka --confirm kafka-01",
			Confirm: func(node string, _ []string) string { return node },
			Lost: func(node string, words []string) string {
				return "what " + words[0] + " of " + node + " has is given up; it is renamed and kept"
			},
		}.Command(),
	)
	return cmd
}

func show(w io.Writer, _ string, results []json.RawMessage) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "QUORUM\tMEMBER\tSTATE\tPROBLEM")
	for _, part := range results {
		var quorums []struct {
			Service, Waiting string
			Members          []struct{ Name, State, Problem string }
		}
		if err := json.Unmarshal(part, &quorums); err != nil {
			return fmt.Errorf("the answer is malformed: %w", err)
		}
		for _, q := range quorums {
			for _, m := range q.Members {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", nodeapi.Harmless(q.Service), nodeapi.Harmless(m.Name), nodeapi.Harmless(m.State), nodeapi.Harmless(m.Problem))
			}
			if q.Waiting != "" {
				fmt.Fprintf(t, "%s\t-\t%s\t\n", nodeapi.Harmless(q.Service), nodeapi.Harmless(q.Waiting))
			}
		}
	}
	return t.Flush()
}
