// Package disks is the command `spore disks`: the disks of nodes, whose they are, and what a node's file names them by.
package disks

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "disks [DIR]",
		Short: "Show the disks of nodes, and what selects them",
		Long: `Disks shows each disk of the nodes of the cluster in DIR (configs when left out): its size, how it is attached, whose it
is, and what is on it. The line of selectors has what can be written in nodes/NAME.yaml for it:

  disks:
    - {use: kafka, selector: {serial: "S5Y1NG0R"}}

A selector that would match a second disk of the machine is left out.`,
		Example: "  spore disks\n  spore disks configs --node kafka-01\n  spore disks --node storage-01 --json",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := verb.Row("disks")
			c, err := verb.Open(cmd, f, inputs.Dir(args), v)
			if err != nil {
				return err
			}
			return verb.Tell(cmd, verb.Ask(cmd, c, v, verb.Same(nodeapi.Order{}), nil), asJSON, Show)
		},
	}
	f.Register(cmd, true)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// Show prints the disks of a node: each a line, and below it its names and parts.
func Show(w io.Writer, node string, results []json.RawMessage) error {
	for _, part := range results {
		var d machine.Disk
		if err := json.Unmarshal(part, &d); err != nil {
			return fmt.Errorf("the answer is malformed: %w", err)
		}
		if err := one(w, node, d); err != nil {
			return err
		}
	}
	return nil
}

func one(w io.Writer, node string, d machine.Disk) error {
	var about []string
	for _, a := range []struct {
		is   bool
		text string
	}{
		{d.Model != "", d.Model}, {d.Transport != "", d.Transport}, {d.Rotational, "rotating"}, {d.Removable, "removable"}, {d.ReadOnly, "read-only"},
	} {
		if a.is {
			about = append(about, a.text)
		}
	}
	clean := nodeapi.Harmless
	fmt.Fprintf(w, "%s: %s, %s (%s)\n", clean(node), clean(d.Name), bytes(d.Size), clean(strings.Join(about, ", ")))
	fmt.Fprintf(w, "  %s: %s\n", clean(d.Whose), clean(d.About))
	fmt.Fprintf(w, "  selectors: %s\n", clean(selectors(d)))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(d.Partitions) > 0 {
		fmt.Fprintln(t, "  PART\tSIZE\tLABEL\tPARTUUID\tFILE SYSTEM\tMOUNTED ON\tFILLED")
	}
	for _, p := range d.Partitions {
		number := strconv.Itoa(p.Number)
		if p.Number == 0 {
			number = "whole"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\n", number, bytes(p.Size), column(p.Label), column(p.UUID),
			column(p.FileSystem), column(strings.Join(p.Mounts, " "), strings.Join(p.Uses, " ")), filled(p.Fill))
	}
	return t.Flush()
}

// selectors are as YAML has them.
func selectors(d machine.Disk) string {
	if len(d.Selectors) == 0 {
		return "none: nothing that it reports is its own"
	}
	var out []string
	for _, s := range d.Selectors {
		out = append(out, fmt.Sprintf("{%s: %q}", s.Key, s.Value))
	}
	return strings.Join(out, "  ")
}

// column is the first text that there is.
func column(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return nodeapi.Harmless(text)
		}
	}
	return "-"
}

func filled(f *machine.Fill) string {
	if f == nil || f.Size <= 0 {
		return "-"
	}
	out := fmt.Sprintf("%.0f%%, %s free", 100*float64(f.Used)/float64(f.Size), bytes(f.Free))
	if f.Inodes > 0 && f.FreeInodes*10 < f.Inodes {
		out += fmt.Sprintf(", %d files more", f.FreeInodes)
	}
	return out
}

// bytes is an amount with a unit of powers of 1024.
func bytes(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }
