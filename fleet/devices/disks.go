// Package devices shows people the disks and the network of a node, as text.
package devices

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// ShowDisks prints the disks of a node: each a line, and below it its names and parts.
func ShowDisks(w io.Writer, node string, results []json.RawMessage) error {
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
