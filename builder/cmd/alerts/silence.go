package alerts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/cluster/facts"
	"spore/fleet/alerts"
	"spore/fleet/duration"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// every is the word for the alerts of all names.
const every = "all"

func silenceCommand() *cobra.Command {
	// A node that a certificate is not for may be what the silence is about.
	f := reach.Flags{Everybody: true}
	var s silence
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "silence [DIR] NAME",
		Short: "Have nobody told of alerts for a while",
		Long: `Silence has nobody told of the alert NAME for a while; ` + every + ` stands for the alerts of every name, and then needs --node
or --label. An alert is silenced that has all of what is given: the name, the node, each label. It goes on firing, and
spore alerts shows who silenced it. --dry-run says how many of those that fire now would be silenced.

The alert ` + metrics.Watchdog + ` always fires, so that somebody outside of the cluster sees when alerts do not arrive any more. What
would silence it is refused, but with --force ` + nodeapi.ForceWatchdog + `.`,
		Example: "  spore alerts silence NodeSilent --node edge-01 --for 2h --comment 'new power supply'\n" +
			"  spore alerts silence configs all --node edge-01 --for 2h --comment 'new power supply'\n" +
			"  spore alerts silence all --label job=press --for 3d --comment 'the press is rebuilt' --dry-run",
		Args: exit.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "configs"
			if len(args) == 2 {
				dir, args = args[0], args[1:]
			}
			v := verb.Row("alerts-silence")
			order, err := s.order(args[0])
			if err == nil {
				err = v.Check(order)
			}
			if err != nil {
				return exit.Usage(err)
			}
			c, err := verb.Open(cmd, f, dir, v)
			if err != nil {
				return err
			}
			if err := known(s.node, c.Nodes); err != nil {
				return exit.Usage(err)
			}
			answers, err := verb.InTurn(cmd, c, metrics.AlertsRole, v, order)
			if err != nil {
				return err
			}
			return verb.Tell(cmd, answers, asJSON, nil)
		},
	}
	f.Register(cmd, false)
	flags := cmd.Flags()
	flags.StringVar(&s.node, "node", "", "alerts of this node alone")
	flags.StringArrayVar(&s.labels, "label", nil, "alerts with this label alone, as NAME=VALUE (may be given again)")
	flags.StringVar(&s.length, "for", "", "for how long, such as 2h or 3d: 5m to 30d (needed)")
	flags.StringVar(&s.comment, "comment", "", "why (needed)")
	flags.StringVar(&s.force, "force", "", nodeapi.ForceWatchdog+" has the alert silenced, too, that always fires")
	flags.BoolVar(&s.dryRun, "dry-run", false, "change nothing, and say what would be done")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// silence is one as a person gives it.
type silence struct {
	node, length, comment, force string
	labels                       []string
	dryRun                       bool
}

// order is the order to the node.
func (s silence) order(name string) (nodeapi.Order, error) {
	o := nodeapi.Order{DryRun: s.dryRun, Force: s.force, Arguments: map[string]string{"comment": s.comment}}
	switch {
	case s.length == "":
		return o, errors.New("for how long? Write --for 2h, or --for 3d")
	case strings.TrimSpace(s.comment) == "":
		return o, errors.New("why? Others will want to know: write --comment 'new power supply'")
	case name == every && s.node == "" && len(s.labels) == 0:
		return o, fmt.Errorf("%s silences every alert; give --node or --label, too", every)
	}
	length, err := duration.Parse(s.length)
	if err != nil {
		return o, fmt.Errorf("--for: %w", err)
	}
	if length < nodeapi.MinSilence || length > nodeapi.MaxSilence {
		return o, fmt.Errorf("--for %s is not within 5m and 30d", s.length)
	}
	o.Arguments["for"] = length.String()
	if name != every {
		o.Arguments["name"] = name
	}
	if s.node != "" {
		o.Arguments["node"] = s.node
	}
	labels := map[string]string{}
	for _, pair := range s.labels {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" || value == "" {
			return o, fmt.Errorf("--label %q is not valid; write NAME=VALUE, such as job=press", pair)
		}
		if _, twice := labels[name]; twice {
			return o, fmt.Errorf("--label %s is given twice; a label has one value", name)
		}
		labels[name] = value
	}
	if len(labels) > 0 {
		if o.Arguments["labels"], err = nodeapi.Labels(labels); err != nil {
			return o, err
		}
	}
	return o, nil
}

// known refuses the name of a node that there is not: the silence would hold for nothing.
func known(name string, nodes []facts.Node) error {
	if name == "" || slices.ContainsFunc(nodes, func(n facts.Node) bool { return n.Name == name }) {
		return nil
	}
	return fmt.Errorf("there is no node %q; for another target write --label %s=%s", name, machine.AlertNode, name)
}

func silencesCommand() *cobra.Command {
	return verb.One{
		Use: "silences [DIR]", Verb: "alerts-silences", Role: metrics.AlertsRole, Short: "List silences, with who made them and why",
		Long:    "Silences lists the silences that hold now, or begin later; those that end first come first.",
		Example: "  spore alerts silences\n  spore alerts silences configs --json", Show: showSilences,
	}.Command()
}

func unsilenceCommand() *cobra.Command {
	return verb.One{
		Use: "unsilence [DIR] ID", Verb: "alerts-unsilence", Role: metrics.AlertsRole, Words: []string{"id"}, Short: "End a silence",
		Long:    "Unsilence ends a silence before its time, whoever made it. spore alerts silences lists the IDs.",
		Example: "  spore alerts unsilence 3d1219c7-c4c5-404a-aa1f-6d2a48adfda4",
	}.Command()
}

// showSilences prints a row for each silence.
func showSilences(w io.Writer, _ string, results []json.RawMessage) error {
	all, err := alerts.Read[machine.Silence](results)
	if err != nil || len(all) == 0 {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tALERTS\tBY\tUNTIL\tCOMMENT")
	for _, s := range all {
		until := s.Ends.UTC().Format(time.RFC3339)
		if s.Pending {
			until = "from " + s.Begins.UTC().Format(time.RFC3339) + " to " + until
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", cell(s.ID), matching(s.Matchers), cell(s.By), until, cell(s.Comment))
	}
	return t.Flush()
}

// matching is the matchers as PromQL has them.
func matching(all []machine.Matcher) string {
	var pairs []string
	for _, m := range all {
		pairs = append(pairs, fmt.Sprintf("%s%s%q", cell(m.Name), cell(m.Operator), m.Value))
	}
	return "{" + strings.Join(pairs, ", ") + "}"
}
