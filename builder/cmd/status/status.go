// Package status is the command `spore status`: what the nodes of a running cluster say of themselves.
package status

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/builder/cmd/reach"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

// Node is what --json prints of a node.
type Node struct {
	Node string `json:"node"`
	// Status is the node's status line, as it is.
	Status json.RawMessage `json:"status,omitempty"`
	// Error says why there is none.
	Error string `json:"error,omitempty"`
}

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status [DIR]",
		Short: "Show the status of the nodes of a running cluster",
		Long: `Status asks the nodes of the cluster in DIR (configs when left out), all at the same time, and shows one line for each:
the state of its system, the image and the update that run, its roles, what its next start would take, and what is
wrong. With --json it prints each node's whole status line.

It fails when a node does not answer, and says why.`,
		Example: "  spore status\n  spore status configs --node edge-01 --json\n  spore status configs --address edge-01=127.0.0.1:48643",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := inputs.Dir(args)
			c, err := f.Open(cmd, dir, nodeapi.Reader)
			if err != nil {
				return err
			}
			return run(cmd, c, asJSON)
		},
	}
	f.Register(cmd, true)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// line is a node's status line, and what is shown of it.
type line struct {
	raw    []byte
	status nodeapi.Status
}

func run(cmd *cobra.Command, c *reach.Cluster, asJSON bool) error {
	answers := reach.Each(cmd.Context(), c, func(ctx context.Context, n facts.Node) (line, error) {
		data, err := c.Client.Read(ctx, n.Name, nodeapi.Request{Path: nodeapi.StatusPath}, nodeapi.MaxStatus)
		if err != nil {
			return line{}, err
		}
		s, err := nodeapi.ParseStatus(data, c.Facts.Name, n.Name)
		return line{data, s}, err
	})
	var err error
	if asJSON {
		err = printJSON(cmd.OutOrStdout(), answers)
	} else {
		err = printTable(cmd.OutOrStdout(), answers)
	}
	if err != nil {
		return err
	}
	silent := 0
	for _, a := range answers {
		if a.Err != nil {
			silent++
		}
	}
	if silent > 0 {
		return fmt.Errorf("%d of %d nodes do not answer", silent, len(answers))
	}
	return nil
}

func printJSON(w io.Writer, answers []reach.Answer[line]) error {
	out := []Node{}
	for _, a := range answers {
		if a.Err != nil {
			out = append(out, Node{Node: a.Node.Name, Error: a.Err.Error()})
			continue
		}
		out = append(out, Node{Node: a.Node.Name, Status: a.Value.raw})
	}
	return nodeapi.WriteJSON(w, out, "")
}

func printTable(w io.Writer, answers []reach.Answer[line]) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tSYSTEM\tVERSION\tROLES\tADDRESSES\tREMARKS")
	for _, a := range answers {
		if a.Err != nil {
			fmt.Fprintf(t, "%s\t-\t-\t-\t-\t%s\n", a.Node.Name, nodeapi.Harmless(a.Err.Error()))
			continue
		}
		s := a.Value.status
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", a.Node.Name, column(s.System), column(version(s)...), column(s.Roles...),
			column(s.Addresses...), column(remarks(s)...))
	}
	return t.Flush()
}

// column is a cell of the table: what comes from a node is shown as it is and does nothing to the terminal.
func column(parts ...string) string {
	text := strings.Join(parts, ", ")
	if text == "" {
		return "-"
	}
	return nodeapi.Harmless(text)
}

// version is the image that runs, and the update that brought its configuration.
func version(s nodeapi.Status) []string {
	var out []string
	if text := s.Version(); text != "" {
		out = append(out, text)
	}
	if c := s.Configuration; c != nil && c.Serial > 0 {
		out = append(out, fmt.Sprintf("update %d", c.Serial))
	}
	return out
}

// remarks is what a person should know: what comes, and what is not as it should be.
func remarks(s nodeapi.Status) []string {
	var out []string
	if s.Problem != "" {
		out = append(out, s.Problem)
	}
	if c := s.NoCloud; c != nil {
		if c.Problem != "" && !strings.Contains(s.Problem, c.Problem) {
			out = append(out, "NoCloud: "+c.Problem)
		}
		for _, key := range c.NotTaken {
			out = append(out, "not taken: "+key)
		}
	}
	for _, open := range s.Shells {
		out = append(out, open.Text())
	}
	if s.Configuration != nil {
		out = append(out, systemRemarks(*s.Configuration)...)
	}
	if u := s.Updates; u != nil && u.Problem != "" {
		out = append(out, "looked for updates at "+u.At.UTC().Format(time.RFC3339)+": "+u.Problem)
	}
	if w := s.Watchdog; w != nil {
		out = append(out, watchdogRemarks(*w)...)
	}
	for _, h := range s.Held {
		out = append(out, h.Role+" is held: "+h.Reason)
	}
	for _, service := range slices.Sorted(maps.Keys(s.Waiting)) {
		out = append(out, service+": "+s.Waiting[service])
	}
	for _, unit := range s.Failed {
		out = append(out, unit+" failed")
	}
	for _, unit := range slices.Sorted(maps.Keys(s.Services)) {
		if is := s.Services[unit]; is == "activating" {
			out = append(out, unit+" is "+is)
		}
	}
	return out
}

// systemRemarks is what becomes of the system that runs, and what became of the one that was pushed.
func systemRemarks(c nodeapi.Configuration) []string {
	var out []string
	if c.Trial {
		out = append(out, "on trial")
	}
	switch {
	case c.StagedRoot != "":
		out = append(out, "starts the root "+nodeapi.Version(c.StagedRoot, 0)+" next")
	case c.Staged != "" && !c.Live:
		out = append(out, "starts another configuration next")
	}
	if c.Problem != "" {
		out = append(out, c.Problem)
	}
	if c.Loader != "" {
		out = append(out, c.Loader)
	}
	return out
}

// watchdogRemarks is what a person should know of the timer that restarts a machine that hangs. One that is held needs
// nobody.
func watchdogRemarks(w nodeapi.Watchdog) []string {
	var out []string
	if !w.Held {
		out = append(out, strings.TrimSpace("its watchdog "+w.Identity)+" is not in use")
	}
	if w.HasReset {
		out = append(out, "it hung, and its watchdog restarted it")
	}
	return out
}
