package customize

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"spore/builder/customize"
)

// printDiff shows a diff to a person: nodes that differ in files alone, as all do after an edit of cluster.yaml, share a line.
func printDiff(w io.Writer, d *customize.Diff) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if len(d.Cluster) > 0 {
		fmt.Fprintln(t, "cluster")
		printValues(t, "", d.Cluster)
	}
	type group struct{ names, files []string }
	var filesOnly []group
	for _, n := range d.Nodes {
		if n.Change != "changed" || len(n.Roles)+len(n.Identity)+len(n.Services)+len(n.Network)+len(n.Other) > 0 {
			printNode(t, n)
			continue
		}
		i := slices.IndexFunc(filesOnly, func(g group) bool { return slices.Equal(g.files, n.Files) })
		if i < 0 {
			i = len(filesOnly)
			filesOnly = append(filesOnly, group{files: n.Files})
		}
		filesOnly[i].names = append(filesOnly[i].names, n.Name)
	}
	for _, g := range filesOnly {
		what := "node"
		if len(g.names) > 1 {
			what = "nodes"
		}
		fmt.Fprintf(t, "%s %s\n", what, strings.Join(g.names, ", "))
		fmt.Fprintf(t, "  files\t%s\n", strings.Join(g.files, ", "))
	}
	if len(d.Files) > 0 {
		fmt.Fprintln(t, "files of the cluster part")
	}
	for _, f := range d.Files {
		fmt.Fprintf(t, "  %s\t%s\n", f.Change, f.Path)
	}
	fmt.Fprintln(t, "medium")
	for _, v := range d.Medium {
		if v.Old == v.New {
			fmt.Fprintf(t, "  %s\t%s  stays\n", v.Name, v.Old)
			continue
		}
		fmt.Fprintf(t, "  %s\t%s → %s\n", v.Name, v.Old, v.New)
	}
	return t.Flush()
}

func printNode(w io.Writer, n customize.Node) {
	fmt.Fprintf(w, "node %s %s\n", n.Name, n.Change)
	for _, g := range []struct {
		name   string
		values []customize.Value
	}{{"roles", n.Roles}, {"identity", n.Identity}, {"services", n.Services}, {"network", n.Network}, {"other", n.Other}} {
		printValues(w, g.name, g.values)
	}
	if len(n.Files) > 0 {
		fmt.Fprintf(w, "  files\t%s\n", strings.Join(n.Files, ", "))
	}
}

// printValues names the group in its first line.
func printValues(w io.Writer, group string, values []customize.Value) {
	for _, v := range values {
		name := v.Name
		if group != "" && group != name {
			name = group + "\t" + name
		}
		fmt.Fprintf(w, "  %s\t%s → %s\n", name, cmp.Or(v.Old, "-"), cmp.Or(v.New, "-"))
		if group != "" {
			group = " "
		}
	}
}
