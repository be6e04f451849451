// Package logs is the command `spore logs`: the journals of the nodes of a running cluster.
package logs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/moment"
	"spore/builder/cmd/reach"
	"spore/cluster/role"
	"spore/services"
	"spore/services/logs"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// silence is after how long without a sign of the node a follower gives up. The node gives one every 15 seconds.
const silence = time.Minute

// maxSpan bounds --for.
const maxSpan = 24 * time.Hour

// options are what the command is called with.
type options struct {
	reach.Flags
	all, follow, asJSON      bool
	direct                   bool
	roles, units, sources    []string
	pod, around              string
	span                     time.Duration
	since, until             string
	priority, grep, boot     string
	lines                    int
	output                   string
	linesGiven, severalNodes bool
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

Where a node has the role ` + logs.Role + `, its store is asked instead of the nodes, unless with --direct or --follow.
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
an object as journalctl -o json prints it on the node; of several nodes, with the fields cluster and node. Audit
records and the lines of pods are for operators and admins, or for whom logRights of cluster.yaml names.`,
		Example: "  spore logs edge-01 mosquitto\n  spore logs configs kafka-01 kafka --follow\n" +
			"  spore logs configs --all --since 1h --priority warning\n" +
			"  spore logs configs --role kafka-broker --since 2026-11-24T12:00:00Z --grep 'ISR|fenced' --json\n" +
			"  spore logs configs --all --since 2d --output plant.log.zst\n" +
			"  spore logs configs --pod plant/press-0 --since 1h --grep '\\btimeout\\b'\n" +
			"  spore logs configs --around NodeSilent",
		Args: exit.Args(cobra.MaximumNArgs(3)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.linesGiven = cmd.Flags().Changed("lines")
			return o.run(cmd, args, time.Now())
		},
	}
	o.Register(cmd, true)
	flags := cmd.Flags()
	flags.BoolVar(&o.all, "all", false, "show the journals of all nodes")
	flags.StringArrayVar(&o.roles, "role", nil, "show the nodes with this role, and of them its units (may be given again)")
	flags.StringVar(&o.pod, "pod", "", "show what a pod writes instead, as NAMESPACE/POD or NAMESPACE/POD/CONTAINER")
	flags.StringVar(&o.around, "around", "", "show what nodes said around an alert: of its nodes, or of those of --node")
	flags.DurationVar(&o.span, "for", 10*time.Minute, "how long a time --around shows, half of it before the alert")
	flags.StringArrayVar(&o.sources, "source", nil, "show this source of the store: journal, pod or audit, the audit log of Kubernetes (may be given again; default: journal)")
	flags.BoolVar(&o.direct, "direct", false, "ask the nodes themselves, and not the store of logs")
	flags.StringArrayVar(&o.units, "unit", nil, "show this unit alone (may be given again)")
	flags.StringVar(&o.since, "since", "", "the begin: a time such as 2026-11-24T12:00:00Z, or how long ago, such as 90m or 3d")
	flags.StringVar(&o.until, "until", "", "the end, in the same way")
	flags.StringVar(&o.priority, "priority", "", "leave out what is less urgent: 0 to 7, or emerg, alert, crit, err, warning, notice, info, debug")
	flags.StringVar(&o.grep, "grep", "", "show the lines whose message matches this expression (RE2)")
	flags.StringVar(&o.boot, "boot", "", "a start of the machine: 0 for the one that runs, -1 for the one before")
	flags.BoolVarP(&o.follow, "follow", "f", false, "print new lines until you interrupt it")
	flags.IntVarP(&o.lines, "lines", "n", nodeapi.DefaultLines, "how many of the last lines to show: of each node, or of all together where a store answers")
	flags.BoolVar(&o.asJSON, "json", false, "print an object a line")
	flags.StringVarP(&o.output, "output", "o", "", "write to this file instead; compressed when its name ends with .zst")
	return cmd
}

func (o *options) run(cmd *cobra.Command, args []string, now time.Time) error {
	dir, args, err := o.arguments(args)
	if err != nil {
		return exit.Usage(err)
	}
	q, err := o.question(now)
	if err != nil {
		return exit.Usage(err)
	}
	need := nodeapi.Reader
	if o.pod != "" || slices.Contains(o.sources, machine.LogPod) || slices.Contains(o.sources, machine.LogAudit) {
		need, o.Least = nodeapi.Operator, nodeapi.Reader // The cluster may let readers.
	}
	c, err := o.Open(cmd, dir, need)
	if err != nil {
		return err
	}
	if o.around != "" {
		if q.Since, q.Until, err = o.find(cmd, c, now); err != nil {
			return err
		}
	}
	asks, err := o.asks(c, q, args)
	if err != nil {
		return exit.Usage(err)
	}
	stores := o.stores(c)
	if len(stores) == 0 && o.onlyStore() {
		return exit.Usage(fmt.Errorf("--source is of a store of logs; give a node the role %s, and ask it without --direct", logs.Role))
	}
	return show(cmd, c, asks, stores, o)
}

// onlyStore tells whether nobody else than a store can answer.
func (o *options) onlyStore() bool {
	if len(o.sources) == 0 {
		return false
	}
	return !slices.Equal(o.sources, []string{machine.LogJournal}) && !(o.pod != "" && slices.Equal(o.sources, []string{machine.LogPod}))
}

// arguments are the folder, and the node and the unit where they are not given by flags.
func (o *options) arguments(args []string) (dir string, rest []string, err error) {
	dir = "configs"
	if o.around != "" {
		o.severalNodes = true
		switch {
		case o.all || len(o.roles) > 0 || o.follow || o.boot != "" || o.since != "" || o.until != "":
			return "", nil, errors.New("--around has its nodes and its time from the alert; give it without --all, --role, --since, " +
				"--until, --boot and --follow")
		case !alertName(o.around):
			return "", nil, fmt.Errorf("%.64q is not the name of an alert", o.around)
		case o.span <= 0 || o.span > maxSpan:
			return "", nil, fmt.Errorf("--for %s is not possible; give up to %s", o.span, maxSpan)
		case len(args) > 1:
			return "", nil, fmt.Errorf("with --around, %q is too much; name units with --unit", args[len(args)-1])
		case len(args) == 1:
			dir = args[0]
		}
		return dir, nil, nil
	}
	if o.pod != "" && len(o.units) > 0 {
		return "", nil, errors.New("a pod is no unit; give --pod without --unit")
	}
	if o.pod != "" && !o.all && len(o.Nodes)+len(o.roles) == 0 {
		o.all = true // It may be anywhere.
	}
	if o.all || len(o.Nodes) > 0 || len(o.roles) > 0 {
		o.severalNodes = true
		switch {
		case o.pod != "" && len(args) > 1:
			return "", nil, fmt.Errorf("with --pod, %q is too much; name nodes with --node", args[len(args)-1])
		case o.all && len(o.Nodes)+len(o.roles) > 0:
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
	case len(o.sources) > 0:
		return "", nil, errors.New("--source is of several nodes; choose them with --all, --node or --role")
	case len(o.units) > 0:
		return "", nil, errors.New("name the unit behind the node, or both with --node and --unit")
	case len(args) == 3:
		dir, args = args[0], args[1:]
	}
	o.Nodes = args[:1]
	return dir, args, nil
}

// question is what each node is asked, without units.
func (o *options) question(now time.Time) (q nodeapi.Logs, err error) {
	q = nodeapi.Logs{Lines: o.lines, Follow: o.follow, Grep: o.grep, Pod: o.pod}
	most := nodeapi.MaxLines
	if o.severalNodes && !o.direct && !o.follow {
		most = nodeapi.MaxStoreLines
	}
	if q.Lines < 0 || q.Lines > most {
		return q, fmt.Errorf("%d lines cannot be asked for; choose 0 to %d", q.Lines, most)
	}
	for _, s := range o.sources {
		if !slices.Contains(machine.LogSources(), s) {
			return q, fmt.Errorf("%.64q is not a source of logs; choose from %s", s, strings.Join(machine.LogSources(), ", "))
		}
	}
	if o.since != "" {
		if q.Since, err = moment.Parse(o.since, now); err != nil {
			return q, fmt.Errorf("--since: %w", err)
		}
	}
	if (o.since != "" || o.around != "") && !o.linesGiven {
		q.Lines = most
	}
	if o.until != "" {
		if q.Until, err = moment.Parse(o.until, now); err != nil {
			return q, fmt.Errorf("--until: %w", err)
		}
	}
	if o.priority != "" {
		if q.Priority, err = nodeapi.ParsePriority(o.priority); err != nil {
			return q, err
		}
	}
	if _, err = nodeapi.ParseGrep(o.grep); err != nil {
		return q, err
	}
	if o.boot != "" {
		if q.Boot, err = nodeapi.ParseBoot(o.boot); err != nil {
			return q, err
		}
	}
	if !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return q, fmt.Errorf("--until %s is not behind --since %s", o.until, o.since)
	}
	_, err = nodeapi.ParseLogs(direct(q).Values()) // Such as --follow with --until.
	return q, err
}

// ofUnits tells whether units can be chosen of what is asked for.
func (o *options) ofUnits() bool {
	return o.pod == "" && (len(o.sources) == 0 || slices.Contains(o.sources, machine.LogJournal))
}

// direct is a question for a node itself, which answers with fewer lines than a store.
func direct(q nodeapi.Logs) nodeapi.Logs {
	q.Lines = min(q.Lines, nodeapi.MaxLines)
	return q
}

// ask is what one node is asked.
type ask struct {
	node string
	nodeapi.Logs
}

// asks are the nodes that were chosen, each with its units.
func (o *options) asks(c *reach.Cluster, q nodeapi.Logs, args []string) ([]ask, error) {
	names := o.units
	if !o.severalNodes {
		names = args[1:]
	}
	units, err := unitsOf(c, names)
	if err != nil {
		return nil, err
	}
	for _, r := range o.roles {
		if len(c.Facts.Members[r]) == 0 {
			return nil, fmt.Errorf("no node has the role %.64q; see the roles with `spore status`", r)
		}
	}
	var out []ask
	for _, n := range c.Nodes {
		a := ask{node: n.Name, Logs: q}
		own := units
		if len(o.roles) > 0 {
			var has []string
			for _, r := range o.roles {
				if slices.Contains(c.Facts.Members[r], n.Name) {
					has = append(has, r)
				}
			}
			if len(has) == 0 {
				continue
			}
			if len(names) == 0 && o.ofUnits() {
				// Without units, the question would be for the journal of all.
				if own = unitsOfRoles(c, has); len(own) == 0 {
					return nil, fmt.Errorf("%s runs no unit for the role %s; name units with --unit", n.Name, strings.Join(has, ", "))
				}
			}
		}
		if len(own) > 0 {
			a.Unit, a.More = own[0], own[1:]
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("none of %s has the role %s", strings.Join(o.Nodes, ", "), strings.Join(o.roles, ", "))
	}
	return out, nil
}

// unitsOf are the full names of units; the name of a role of roles/ stands for those of its logs.
func unitsOf(c *reach.Cluster, names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		full, err := nodeapi.UnitName(name)
		if err != nil {
			return nil, err
		}
		if units := roleUnits(c, name); len(units) > 0 {
			out = append(out, units...)
			continue
		}
		out = append(out, full)
	}
	return out, nil
}

// roleUnits are the units whose journal belongs to a role that the configuration has of its own.
func roleUnits(c *reach.Cluster, name string) []string {
	own, _ := services.Of(&c.Facts).Own(name)
	d, ok := own.(*role.Definition)
	if !ok {
		return nil
	}
	return d.LogUnits()
}

// unitsOfRoles are the units of roles; a template stands for all its instances.
func unitsOfRoles(c *reach.Cluster, roles []string) []string {
	list := services.Of(&c.Facts)
	var out []string
	for _, r := range roles {
		if units := roleUnits(c, r); len(units) > 0 {
			out = append(out, units...)
			continue
		}
		if row, ok := list.Lookup(r); ok {
			for _, p := range services.RolePrograms(&c.Facts, row) {
				out = append(out, p.Unit)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
