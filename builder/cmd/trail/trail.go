// Package trail is the command `spore trail`: who had nodes change something, and what came of it.
package trail

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/duration"
	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/builder/cmd/reach"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

// maxRecords bounds what is read of one node's answer: its own two files and those of others, in records.
const maxRecords = 200_000

// Question says which calls are asked for. What is empty leaves nothing out.
type Question struct {
	Nodes []string
	User  string
	// Since is how far to look back, such as 12h or 30d.
	Since string
}

// Answer is what came of a question.
type Answer struct {
	// Calls are in the order of time.
	Calls []Call
	// Failed says by node why it does not answer; what it alone has is missing. Asked is how many were asked.
	Failed map[string]error
	Asked  int
}

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	var show Question
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

func run(cmd *cobra.Command, c *reach.Cluster, show Question, asJSON bool) error {
	found, err := Ask(cmd.Context(), c, show, time.Now())
	if err != nil {
		return exit.Usage(err)
	}
	if asJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(found.Calls)
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

// Ask asks all nodes, for each keeps records of others. An error is one of the question.
func Ask(ctx context.Context, c *reach.Cluster, show Question, now time.Time) (Answer, error) {
	back, err := duration.Parse(show.Since)
	if err != nil {
		return Answer{}, err
	}
	q := nodeapi.Request{Path: nodeapi.TrailPath, Query: url.Values{
		nodeapi.TrailSince: {now.Add(-back).UTC().Format(time.RFC3339)},
	}}
	answers := reach.Each(ctx, c, func(ctx context.Context, n facts.Node) ([]nodeapi.TrailRecord, error) {
		return ask(ctx, &c.Client, n.Name, q, show)
	})
	kept, failed := map[string][]nodeapi.TrailRecord{}, map[string]error{}
	for _, a := range answers {
		if a.Err != nil {
			failed[a.Node.Name] = a.Err
			continue
		}
		kept[a.Node.Name] = a.Value
	}
	return Answer{Calls: merge(kept), Failed: failed, Asked: len(answers)}, nil
}

// ask reads what one node has of the calls that are to be shown.
func ask(
	ctx context.Context, c *nodeapi.Client, node string, q nodeapi.Request, show Question,
) (out []nodeapi.TrailRecord, err error) {
	body, err := c.Ask(ctx, node, q)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	seen := 0
	_, err = nodeapi.ReadTrail(body, func(r nodeapi.TrailRecord) error {
		if seen++; seen > maxRecords {
			return fmt.Errorf("it has more than %d records; look back for a shorter time (--since)", maxRecords)
		}
		if (len(show.Nodes) == 0 || slices.Contains(show.Nodes, r.Node)) && (show.User == "" || show.User == r.User) {
			out = append(out, r)
		}
		return nil
	})
	return out, err
}

func print(w io.Writer, calls []Call) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TIME\tNODE\tUSER\tROLE\tCERTIFICATE\tFROM\tCALL\tRESULT\tREMARKS")
	for _, c := range calls {
		cells := []string{
			c.Time.UTC().Format(time.RFC3339), c.Node, c.User, reach.RoleName(c.Role), short(c.Serial), c.From,
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

// What is the call in words: its name, and what it was given.
func (c Call) What() string {
	words := []string{c.Call}
	for _, name := range slices.Sorted(maps.Keys(c.Arguments)) {
		words = append(words, name+"="+c.Arguments[name])
	}
	if c.Force != "" {
		words = append(words, "force="+c.Force)
	}
	if c.Confirm != "" {
		words = append(words, "confirm="+c.Confirm)
	}
	if c.DryRun {
		words = append(words, "(dry run)")
	}
	return strings.Join(words, " ")
}

// Outcome says what came of a call. A node that restarts for it cannot say so any more.
func (c Call) Outcome() string {
	switch {
	case c.Ended.IsZero():
		return "not known: it goes on, or the node stopped meanwhile"
	case c.Stage == nodeapi.Erred:
		return "failed: " + c.Result
	}
	return c.Result
}

// Remarks says where a record is, if it is not on the node.
func (c Call) Remarks() string {
	if slices.Contains(c.Kept, c.Node) {
		return ""
	}
	kept := "only " + strings.Join(c.Kept, " and ") + " has it"
	if len(c.Kept) > 1 {
		kept = "only " + strings.Join(c.Kept, " and ") + " have it"
	}
	if c.Lost {
		return kept + "; " + c.Node + " answers, and has lost it"
	}
	return kept + "; " + c.Node + " does not answer"
}
