// Package kubernetes is the command `spore kubernetes`: how the nodes, workloads, pods and volumes are.
package kubernetes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/verb"
	"spore/fleet/kubernetesstatus"
	"spore/wire/nodeapi"
)

// Command returns the command.
func Command() *cobra.Command {
	cmd := &cobra.Command{Use: "kubernetes", Short: "Look at Kubernetes", Args: exit.Args(cobra.NoArgs)}
	cmd.AddCommand(verb.One{
		Use: "status [DIR]", Verb: "kubernetes-status", Role: "control-plane",
		Short: "Show nodes, workloads, pods that are not well, and volumes",
		Long: `Status asks a master for the nodes, for the workloads that lack pods, for pods that are not well and why, and volumes
that are not bound. Each list has 200 rows at most. A pod that runs, is not ready and belongs to no Deployment,
StatefulSet, DaemonSet or Job is not found. It needs no kubeconfig, and the master can change nothing by it.`,
		Example: "  spore kubernetes status\n  spore kubernetes status configs --node master-01 --json", Show: show,
	}.Command())
	return cmd
}

func show(w io.Writer, _ string, results []json.RawMessage) error {
	k, err := kubernetesstatus.Read(results)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) {
		for i, c := range cells {
			cells[i] = cmp.Or(nodeapi.Harmless(strings.ReplaceAll(c, "\n", " ")), "-")
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	row("NODE", "READY", "VERSION", "WHAT IS WRONG")
	for _, n := range k.Nodes {
		row(n.Name, n.Ready, n.Version, kubernetesstatus.Wrong(n))
	}
	fmt.Fprintln(t)
	row("KIND", "ALL", "WELL")
	for _, c := range k.Counts {
		row(c.Kind, fmt.Sprint(c.All), fmt.Sprint(c.Well))
	}
	if len(k.Behind) > 0 {
		fmt.Fprintln(t)
		row("LACKS PODS", "KIND", "READY")
	}
	for _, b := range k.Behind {
		row(b.Namespace+"/"+b.Name, b.Kind, fmt.Sprintf("%d of %d", b.Ready, b.Wanted))
	}
	if len(k.Pods) > 0 {
		fmt.Fprintln(t)
		row("POD", "NODE", "PHASE", "RESTARTS", "WHY", "LAST END")
	}
	for _, p := range k.Pods {
		row(p.Namespace+"/"+p.Name, p.Node, p.Phase, fmt.Sprint(p.Restarts), p.Why, p.Ended)
	}
	if len(k.Volumes) > 0 {
		fmt.Fprintln(t)
		row("VOLUME", "KIND", "STATE", "CLASS", "SIZE", "WHY")
	}
	for _, v := range k.Volumes {
		row(strings.TrimPrefix(v.Namespace+"/"+v.Name, "/"), v.Kind, v.State, v.Class, v.Size, v.Why)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(k.More) > 0 {
		_, err = fmt.Fprintf(w, "\nThere are more: %s\n", nodeapi.Harmless(strings.Join(k.More, ", ")))
	}
	return err
}
