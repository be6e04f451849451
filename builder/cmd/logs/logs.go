// Package logs is the command `spore logs`: the journals of the nodes of a running cluster.
package logs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/fleet/logs"
	store "spore/services/logs"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// options are what the command is called with.
type options struct {
	reach.Flags
	logs.Options
	all, asJSON bool
	span        time.Duration
	output      string
}

// Command returns the command.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "logs [DIR] NODE UNIT | logs [DIR] --all | --node NODE | --role ROLE | --pod POD | --around ALERT",
		Short: "Show or follow the logs (journals) of one node or of many",
		Long: `Logs shows the last lines of journals of the cluster in DIR (configs when left out) and, with --follow, what is written
from then on. With NODE and UNIT it is what a unit of one node has written. With --all, --node and --role it is what
several nodes have, in the order of time, each line with the name of its node; --unit chooses units, and without it the
journal of all units and of the kernel is meant. With --role it is the units of that role, unless --unit names others.
In the place of a unit, the name of a role of roles/ means the units of its logs.

Where a node has the role ` + store.Role + `, its store is asked instead of the nodes, unless with --direct or --follow.
It also has what a machine said that is gone. Of two stores the first that answers is asked; when none does, the nodes
are, and a message says so. Where the store has had nothing of a node for ten minutes, a message says that, too. --pod
shows what the containers of a pod write, and --source what else the store has. --around shows what the nodes of an
alert said around the time when it last began to fire.

Without --since the last lines are shown: of each node, or of all together where a store answers. With it, up to 10,000
of each node are, or 100,000 of a store; where there are more, a message says so. Nodes whose clock is more than two
seconds off are named: their lines are in the order of their clock. A node that does not answer is named, and the exit
status is 1; the others are shown. With --follow, a node that goes is asked again until it is back, and continues where
it was.

Times are UTC. Bytes that are not text, and control sequences of terminals, are shown as \xHH. With --json each line is
an object as journalctl -o json prints it on the node, where such characters are \uHHHH; of several nodes, with the
fields cluster and node. Audit records and the lines of pods are for operators and admins, or for whom logRights of
cluster.yaml names.`,
		Example: "  spore logs edge-01 mosquitto\n  spore logs configs kafka-01 kafka --follow\n" +
			"  spore logs configs --all --since 1h --priority warning\n" +
			"  spore logs configs --role kafka-broker --since 2026-11-24T12:00:00Z --grep 'ISR|fenced' --json\n" +
			"  spore logs configs --all --since 2d --output plant.log.zst\n" +
			"  spore logs configs --pod plant/press-0 --since 1h --grep '\\btimeout\\b'\n" +
			"  spore logs configs --around NodeSilent",
		Args: exit.Args(cobra.MaximumNArgs(3)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.LinesGiven = cmd.Flags().Changed("lines")
			return o.run(cmd, args, time.Now())
		},
	}
	o.Register(cmd, true)
	flags := cmd.Flags()
	flags.BoolVar(&o.all, "all", false, "show the journals of all nodes")
	flags.StringArrayVar(&o.Roles, "role", nil, "show the nodes with this role, and of them its units (may be given again)")
	flags.StringVar(&o.Pod, "pod", "", "show what a pod writes instead, as NAMESPACE/POD or NAMESPACE/POD/CONTAINER")
	flags.StringVar(&o.Around, "around", "", "show what nodes said around an alert: of its nodes, or of those of --node")
	flags.DurationVar(&o.span, "for", 10*time.Minute, "how long a time --around shows, half of it before the alert")
	flags.StringArrayVar(&o.Sources, "source", nil, "show this source of the store: journal, pod or audit, the audit log of Kubernetes (may be given again; default: journal)")
	flags.BoolVar(&o.Direct, "direct", false, "ask the nodes themselves, and not the store of logs")
	flags.StringArrayVar(&o.Units, "unit", nil, "show this unit alone (may be given again)")
	flags.StringVar(&o.Since, "since", "", "the begin: a time such as 2026-11-24T12:00:00Z, or how long ago, such as 90m or 3d")
	flags.StringVar(&o.Until, "until", "", "the end, in the same way")
	flags.StringVar(&o.Priority, "priority", "", "leave out what is less urgent: 0 to 7, or emerg, alert, crit, err, warning, notice, info, debug")
	flags.StringVar(&o.Grep, "grep", "", "show the lines whose message matches this expression (RE2)")
	flags.StringVar(&o.Boot, "boot", "", "a start of the machine: 0 for the one that runs, -1 for the one before")
	flags.BoolVarP(&o.Follow, "follow", "f", false, "print new lines until you interrupt it")
	flags.IntVarP(&o.Lines, "lines", "n", nodeapi.DefaultLines, "how many of the last lines to show: of each node, or of all together where a store answers")
	flags.BoolVar(&o.asJSON, "json", false, "print an object a line")
	flags.StringVarP(&o.output, "output", "o", "", "write to this file instead; compressed when its name ends with .zst")
	return cmd
}

func (o *options) run(cmd *cobra.Command, args []string, now time.Time) error {
	dir, args, err := o.arguments(args)
	if err != nil {
		return exit.Usage(err)
	}
	q, err := o.Question(now)
	if err != nil {
		return exit.Usage(err)
	}
	need := nodeapi.Reader
	if o.Pod != "" || slices.Contains(o.Sources, machine.LogPod) || slices.Contains(o.Sources, machine.LogAudit) {
		need, o.Least = nodeapi.Operator, nodeapi.Reader // The cluster may let readers.
	}
	c, err := o.Open(cmd, dir, need)
	if err != nil {
		return err
	}
	if o.Around != "" {
		around := logs.Event{Alert: o.Around, Span: o.span, Chosen: len(o.Nodes) > 0}
		if q.Since, q.Until, err = logs.Find(cmd.Context(), c, around, now, cmd.ErrOrStderr()); err != nil {
			return err
		}
	}
	var units []string
	if !o.Several {
		units = args[1:] // Behind the node.
	}
	asks, err := o.Asks(c, q, units)
	if err != nil {
		return exit.Usage(err)
	}
	stores := o.Stores(c)
	if len(stores) == 0 && o.OnlyStore() {
		return exit.Usage(fmt.Errorf("--source is of a store of logs; give a node the role %s, and ask it without --direct", store.Role))
	}
	return show(cmd, c, asks, stores, o)
}

// arguments are the folder, and the node and the unit where they are not given by flags.
func (o *options) arguments(args []string) (dir string, rest []string, err error) {
	dir = "configs"
	if o.Around != "" {
		o.Several = true
		switch {
		case o.all || len(o.Roles) > 0 || o.Follow || o.Boot != "" || o.Since != "" || o.Until != "":
			return "", nil, errors.New("--around has its nodes and its time from the alert; give it without --all, --role, --since, " +
				"--until, --boot and --follow")
		case !logs.AlertName(o.Around):
			return "", nil, fmt.Errorf("%.64q is not the name of an alert", o.Around)
		case o.span <= 0 || o.span > logs.MaxSpan:
			return "", nil, fmt.Errorf("--for %s is not possible; give up to %s", o.span, logs.MaxSpan)
		case len(args) > 1:
			return "", nil, fmt.Errorf("with --around, %q is too much; name units with --unit", args[len(args)-1])
		case len(args) == 1:
			dir = args[0]
		}
		return dir, nil, nil
	}
	if o.Pod != "" && len(o.Units) > 0 {
		return "", nil, errors.New("a pod is no unit; give --pod without --unit")
	}
	if o.Pod != "" && !o.all && len(o.Nodes)+len(o.Roles) == 0 {
		o.all = true // It may be anywhere.
	}
	if o.all || len(o.Nodes) > 0 || len(o.Roles) > 0 {
		o.Several = true
		switch {
		case o.Pod != "" && len(args) > 1:
			return "", nil, fmt.Errorf("with --pod, %q is too much; name nodes with --node", args[len(args)-1])
		case o.all && len(o.Nodes)+len(o.Roles) > 0:
			return "", nil, errors.New("--all is every node; give it without --node and --role")
		case len(args) > 1:
			return "", nil, fmt.Errorf("with --all, --node or --role, %q is too much; name units with --unit", args[len(args)-1])
		case len(args) == 1:
			dir = args[0]
		}
		return dir, nil, nil
	}
	switch {
	case len(args) < 2:
		return "", nil, errors.New("name a node and a unit, or choose nodes with --all, --node or --role")
	case len(o.Sources) > 0:
		return "", nil, errors.New("--source is of several nodes; choose them with --all, --node or --role")
	case len(o.Units) > 0:
		return "", nil, errors.New("name the unit behind the node, or both with --node and --unit")
	case len(args) == 3:
		dir, args = args[0], args[1:]
	}
	o.Nodes = args[:1]
	return dir, args, nil
}

// show asks the stores, or the nodes, and prints what they answer.
func show(cmd *cobra.Command, c *reach.Cluster, asks []logs.Ask, stores []string, o *options) (err error) {
	out, done, err := o.writer(cmd)
	if err != nil {
		return err
	}
	defer func() { err = done(err) }()
	return logs.Show(cmd.Context(), c, logs.Output{Lines: out, Said: cmd.ErrOrStderr(), JSON: o.asJSON}, asks, stores, &o.Options)
}
