// Package ceph is the command `spore ceph`: how the storage cluster is, and what is done with its OSDs and monitors.
package ceph

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/verb"
	"spore/fleet/cephstatus"
	"spore/wire/nodeapi"
)

// role is that of nodes with a monitor, of which one is asked.
const role = "ceph-mon"

// Command returns the command.
func Command() *cobra.Command {
	cmd := &cobra.Command{Use: "ceph", Short: "Look after the storage cluster", Args: exit.Args(cobra.NoArgs)}
	noWait := "do not wait until all data has its copies"
	cmd.AddCommand(
		verb.One{
			Use: "status [DIR]", Verb: "ceph-status", Role: role, Short: "Show how Ceph is: health, OSDs, pools",
			Long:    "Status asks a monitor for the health in words, the OSDs by host, and the pools. --json has all that Ceph says.",
			Example: "  spore ceph status\n  spore ceph status configs --node storage-01 --json", Show: showStatus,
		}.Command(),
		verb.One{
			Use: "osd-out [DIR] NUMBER", Verb: "ceph-osd-out", Role: role, Words: []string{"osd"}, Short: "Move the data of an OSD to the others",
			Long: `Osd-out has Ceph move the data of an OSD to the others, before its disk or its machine is taken away, and waits until
all data has its copies. spore ceph osd-in ends it.`,
			Example: "  spore ceph osd-out 3\n  spore ceph osd-out configs 3 --wait no", Options: map[string]string{"wait": "no: " + noWait},
		}.Command(),
		verb.One{
			Use: "osd-in [DIR] NUMBER", Verb: "ceph-osd-in", Role: role, Words: []string{"osd"}, Short: "Give an OSD data again",
			Long:    "Osd-in has Ceph give an OSD data again, and waits until all data is where it belongs.",
			Example: "  spore ceph osd-in 3\n  spore ceph osd-in configs 3 --wait no", Options: map[string]string{"wait": "no: " + noWait},
		}.Command(),
		verb.One{
			Use: "osd-purge [DIR] NUMBER", Verb: "ceph-osd-purge", Role: role, Words: []string{"osd"}, Short: "Forget an OSD that is lost for good",
			Long: `Osd-purge forgets an OSD: its number, its key and its place. It refuses one that runs, and, without --force ceph-mon,
one that may have the last copy of something. Before, take the OSD out (osd-out), stop its machine (spore shutdown), and
wait until status shows no degraded data any more.`,
			Example: "  spore ceph osd-purge 3 --dry-run\n  spore ceph osd-purge configs 3 --confirm osd.3",
			Confirm: func(_ string, words []string) string { return "osd." + words[0] },
			Lost: func(_ string, words []string) string {
				return "osd." + words[0] + " is forgotten, and what only it has is lost"
			},
		}.Command(),
		verb.One{
			Use: "monitor-remove [DIR] NAME", Verb: "ceph-monitor-remove", Role: role, Words: []string{"monitor"}, Short: "Take a monitor out of the quorum that is lost for good",
			Long: `Monitor-remove takes a monitor out, so that the others are a smaller quorum until its machine is replaced. It refuses
where fewer monitors would serve than a majority needs.`,
			Example: "  spore ceph monitor-remove storage-03 --dry-run\n  spore ceph monitor-remove configs storage-03 --confirm storage-03",
			Confirm: func(_ string, words []string) string { return words[0] },
			Lost:    func(_ string, words []string) string { return "the monitor " + words[0] + " is no member any more" },
		}.Command(),
	)
	return cmd
}

const gib = 1 << 30

func showStatus(w io.Writer, _ string, results []json.RawMessage) error {
	a, err := cephstatus.Read(results)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s\n", nodeapi.Harmless(a.Status.Health.Status))
	for _, name := range slices.Sorted(maps.Keys(a.Status.Health.Checks)) {
		c := a.Status.Health.Checks[name]
		fmt.Fprintf(t, "  %s\t%s\n", nodeapi.Harmless(name), nodeapi.Harmless(c.Summary.Message))
	}
	fmt.Fprintf(t, "monitors in the quorum\t%d\n", len(a.Status.QuorumNames))
	for _, n := range a.OSDs.Nodes {
		switch n.Type {
		case "host":
			fmt.Fprintf(t, "%s\n", nodeapi.Harmless(n.Name))
		case "osd":
			in := "in"
			if n.Reweight == 0 {
				in = "out"
			}
			fmt.Fprintf(t, "  %s\t%s, %s\t%.1f of %.1f GiB\t%d placement groups\n", nodeapi.Harmless(n.Name), nodeapi.Harmless(n.Status), in,
				n.KBUsed*1024/gib, n.KB*1024/gib, n.PGs)
		}
	}
	for _, p := range a.Pools.Pools {
		fmt.Fprintf(t, "pool %s\t%.1f GiB stored\t%.1f GiB free\t%.0f %% full\n", nodeapi.Harmless(p.Name), p.Stats.Stored/gib,
			p.Stats.MaxAvail/gib, p.Stats.Percent*100)
	}
	return t.Flush()
}
