// Package network is the command `spore net`: how a node is connected, and what it reaches.
package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/fleet/devices"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// kinds are the words for a probe.
var kinds = []string{machine.Ping, machine.DNS, machine.TCP}

// wanted is what the arguments and flags ask for.
type wanted struct {
	dir, node    string
	kind, target string
	server       string
	count        int
	asJSON, dry  bool
}

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	w := wanted{count: machine.DefaultProbes}
	cmd := &cobra.Command{
		Use:   "net [DIR] NODE [ping HOST | dns NAME | tcp HOST:PORT]",
		Short: "Show how a node is connected, or have it probe another machine",
		Long: `Net shows the interfaces of a node of the cluster in DIR (configs when left out) with their counters, its addresses,
routes and neighbours, the switches and routers that it hears by LLDP, and its DNS servers. For that a reader's
certificate is enough.

With ping, dns or tcp the node itself asks: whether a host answers, what each of its DNS servers (or --server) says of a
name, whether something listens on a port. An operator may do that. A name for dns is a whole one. The command fails
when nothing was answered.`,
		Example: "  spore net edge-01\n  spore net edge-01 ping 10.77.0.1\n  spore net configs edge-01 dns registry.example.org --server 10.77.0.53\n" +
			"  spore net edge-01 tcp kafka-01.plant.example:9093 --count 1",
		Args: exit.Args(cobra.RangeArgs(1, 4)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := w.read(args); err != nil {
				return exit.Usage(err)
			}
			f.Nodes = []string{w.node}
			if w.kind == "" {
				return list(cmd, f, w)
			}
			return probe(cmd, f, w)
		},
	}
	f.Register(cmd, false)
	flags := cmd.Flags()
	flags.BoolVar(&w.asJSON, "json", false, "print JSON")
	flags.IntVarP(&w.count, "count", "c", w.count, fmt.Sprintf("how often to probe, at most %d times", machine.MaxProbes))
	flags.StringVar(&w.server, "server", "", "address of the DNS server that dns asks (default: those of the node)")
	flags.BoolVar(&w.dry, "dry-run", false, "say what would be probed")
	return cmd
}

// read takes [DIR] NODE [KIND TARGET].
func (w *wanted) read(args []string) error {
	if len(args) > 2 {
		w.kind, w.target = args[len(args)-2], args[len(args)-1]
		args = args[:len(args)-2]
		if !slices.Contains(kinds, w.kind) {
			return fmt.Errorf("%q is not a probe; choose one of %s", w.kind, strings.Join(kinds, ", "))
		}
	} else if len(args) == 2 && slices.Contains(kinds, args[1]) {
		return fmt.Errorf("say what to probe by %s", args[1])
	}
	w.dir = "configs"
	if len(args) == 2 {
		w.dir, args = args[0], args[1:]
	}
	w.node = args[0]
	if w.server != "" && w.kind != machine.DNS {
		return errors.New("--server is for dns")
	}
	return nil
}

func list(cmd *cobra.Command, f reach.Flags, w wanted) error {
	v := verb.Row("net")
	c, err := verb.Open(cmd, f, w.dir, v)
	if err != nil {
		return err
	}
	return verb.Tell(cmd, verb.Ask(cmd, c, v, verb.Same(nodeapi.Order{}), nil), w.asJSON, devices.ShowNetwork)
}

// errNoAnswer is when a probe was made and nothing came back.
var errNoAnswer = errors.New("nothing was answered")

func probe(cmd *cobra.Command, f reach.Flags, w wanted) error {
	v := verb.Row("probe")
	order := nodeapi.Order{DryRun: w.dry, Arguments: map[string]string{
		"kind": w.kind, "target": w.target, "server": w.server, "count": strconv.Itoa(w.count),
	}}
	if err := v.Check(order); err != nil {
		return exit.Usage(err)
	}
	c, err := verb.Open(cmd, f, w.dir, v)
	if err != nil {
		return err
	}
	answered := w.dry
	var results []json.RawMessage
	answers := verb.Ask(cmd, c, v, verb.Same(order), func(_ string, part json.RawMessage) error {
		var p machine.Probe
		if err := json.Unmarshal(part, &p); err != nil {
			return fmt.Errorf("the answer is malformed: %w", err)
		}
		answered = answered || p.Problem == ""
		results = append(results, part)
		if w.asJSON {
			return nil
		}
		return showProbe(cmd.OutOrStdout(), p)
	})
	for i := range answers {
		answers[i].Value.Results = results
	}
	if err := verb.Tell(cmd, answers, w.asJSON, nil); err != nil {
		return err
	}
	if !answered {
		return errNoAnswer
	}
	return nil
}

func showProbe(w io.Writer, p machine.Probe) error {
	text := p.Problem
	if text == "" {
		text = fmt.Sprintf("%.2f ms: %s", p.Milliseconds, p.Answer)
	}
	_, err := fmt.Fprintf(w, "%d  %s  %s\n", p.Number, nodeapi.Harmless(p.To), nodeapi.Harmless(text))
	return err
}
