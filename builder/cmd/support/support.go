// Package support is the command `spore support`: what somebody else needs to help, of all nodes, in one file.
package support

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/builder/support"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

// Command returns the command.
func Command(version string) *cobra.Command {
	var f reach.Flags
	var out string
	var summary bool
	lines := 20000
	cmd := &cobra.Command{
		Use:   "support [DIR] -o FILE",
		Short: "Collect from all nodes what somebody else needs to help",
		Long: `Support asks the nodes of the cluster in DIR (configs when left out), all at the same time, for their status, health,
the journal of this start and the last, the kernel's log, units, disks, network, versions and configuration, and writes
it into one .tar.zst with an index.html to read it by. A node that does not answer is named there, and delays nothing.

It has no secrets: each node replaces those of its bundle, and what looks like one, before it sends anything. Names,
addresses and what programs wrote are in it; in the index, reasons of health are shown as nodes give them. With
--summary it prints how the nodes are, and collects nothing.`,
		Example: "  spore support -o plant.tar.zst\n  spore support configs --node edge-01 -o edge.tar.zst --lines 2000\n  spore support --summary",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := verb.Row("support")
			if summary == (out != "") {
				return exit.Usage(errors.New("name a file with --output, or ask for --summary"))
			}
			order := nodeapi.Order{Arguments: map[string]string{"lines": strconv.Itoa(lines)}}
			if err := v.Check(order); err != nil {
				return exit.Usage(err)
			}
			need := nodeapi.Least(v.Who)
			if summary {
				need = nodeapi.Reader
			}
			c, err := f.Open(cmd, inputs.Dir(args), need)
			if err != nil {
				return err
			}
			index := support.Index{Cluster: c.Facts.Name, Made: time.Now(), By: version, Nodes: look(cmd.Context(), c)}
			if summary {
				return printSummary(cmd.OutOrStdout(), index.Nodes)
			}
			return collect(cmd, c, v, order, index, out)
		},
	}
	f.Register(cmd, true)
	flags := cmd.Flags()
	flags.StringVarP(&out, "output", "o", "", "write it to this file, which must not be there yet")
	flags.BoolVar(&summary, "summary", false, "print how the nodes are, and collect nothing")
	flags.IntVar(&lines, "lines", lines, "how many of the last entries of each journal")
	return cmd
}

// look asks all nodes for their status and health.
func look(ctx context.Context, c *reach.Cluster) []support.Node {
	answers := reach.Each(ctx, c, func(ctx context.Context, n facts.Node) (support.Node, error) {
		out := support.Node{Name: n.Name}
		visit, err := c.Client.Visit(n.Name)
		if err != nil {
			return out, err
		}
		defer visit.End()
		data, err := visit.Read(ctx, nodeapi.Request{Path: nodeapi.StatusPath}, nodeapi.MaxStatus)
		if err != nil {
			return out, err
		}
		s, err := nodeapi.ParseStatus(data, c.Facts.Name, n.Name)
		if err != nil {
			return out, err
		}
		out.System, out.Roles, out.Version = s.System, s.Roles, s.Version()
		if data, err = visit.Read(ctx, nodeapi.Request{Path: nodeapi.HealthPath}, nodeapi.MaxHealth); err != nil {
			return out, err
		}
		h, err := nodeapi.ParseHealth(data, c.Facts.ID, n.Name)
		if err != nil {
			return out, err
		}
		for _, condition := range h.Conditions {
			if condition.State != nodeapi.OK {
				out.Conditions = append(out.Conditions, condition)
			}
		}
		return out, nil
	})
	var nodes []support.Node
	for _, a := range answers {
		if a.Value.Name = a.Node.Name; a.Err != nil {
			a.Value.Problem = a.Err.Error()
		}
		nodes = append(nodes, a.Value)
	}
	return nodes
}

// collect fetches from all nodes at once, and writes the archive.
func collect(cmd *cobra.Command, c *reach.Cluster, v nodeapi.Verb, order nodeapi.Order, index support.Index, file string) (err error) {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil && !errors.Is(err, verb.ErrSome) {
			_ = os.Remove(file)
		}
	}()
	dir, err := os.MkdirTemp(filepath.Dir(file), ".spore-support-*")
	if err != nil {
		return fmt.Errorf("gather what nodes send: %w", err)
	}
	defer os.RemoveAll(dir)
	problems := gather(cmd, c, v, order, dir)
	failed := false
	for i := range index.Nodes {
		n := &index.Nodes[i]
		if p := problems[n.Name]; p != nil {
			n.Problem = p.Error()
		}
		if n.Problem != "" {
			failed = true
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", n.Name, verb.Words(n.Problem))
		}
	}
	if err := support.Write(out, dir, index); err != nil {
		return err
	}
	st, err := out.Stat()
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %d nodes, %s; unpack it and open index.html\n", file, len(index.Nodes),
		humanize.IBytes(uint64(max(st.Size(), 0))))
	if failed {
		return verb.ErrSome
	}
	return nil
}

// gather has each node's folder filled, and returns why one is not whole.
func gather(cmd *cobra.Command, c *reach.Cluster, v nodeapi.Verb, order nodeapi.Order, dir string) map[string]error {
	var mu sync.Mutex
	folders, problems := map[string]*support.Folder{}, map[string]error{}
	fail := func(node string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if problems[node] == nil {
			problems[node] = err
		}
	}
	for _, n := range c.Nodes {
		f, err := support.NewFolder(dir, n.Name)
		if err != nil {
			fail(n.Name, err)
			continue
		}
		folders[n.Name] = f
	}
	answers := verb.Ask(cmd, c, v, verb.Same(order), func(node string, part json.RawMessage) error {
		var p struct{ File, Text string }
		if err := json.Unmarshal(part, &p); err != nil {
			return fmt.Errorf("its answer is malformed: %w", err)
		}
		if folders[node] == nil {
			return errors.New("there is no folder for it")
		}
		return folders[node].Append(p.File, p.Text)
	})
	for _, a := range answers {
		if a.Err != nil {
			fail(a.Node.Name, a.Err)
		}
	}
	return problems
}

// printSummary prints a row for each node.
func printSummary(w io.Writer, nodes []support.Node) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tSYSTEM\tVERSION\tFAILING\tWARNINGS\tFIRST PROBLEM")
	silent := false
	for _, n := range nodes {
		failing, warnings, first := 0, 0, ""
		for _, c := range n.Conditions {
			if c.State == nodeapi.Failing {
				failing++
			} else {
				warnings++
			}
			if first == "" {
				first = c.Name + ": " + c.Reason
			}
		}
		if n.Problem != "" {
			first, silent = n.Problem, true
		}
		if first == "" {
			first = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\n", n.Name, nodeapi.Harmless(n.System), nodeapi.Harmless(n.Version), failing, warnings, nodeapi.Harmless(first))
	}
	err := t.Flush()
	if err == nil && silent {
		return verb.ErrSome
	}
	return err
}
