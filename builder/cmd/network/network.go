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
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
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
	return verb.Tell(cmd, verb.Ask(cmd, c, v, verb.Same(nodeapi.Order{}), nil), w.asJSON, Show)
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

// Show prints how a node is connected.
func Show(w io.Writer, _ string, results []json.RawMessage) error {
	for _, part := range results {
		var n machine.Network
		if err := json.Unmarshal(part, &n); err != nil {
			return fmt.Errorf("the answer is malformed: %w", err)
		}
		if err := showAll(w, n); err != nil {
			return err
		}
	}
	return nil
}

func showAll(w io.Writer, n machine.Network) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(columns ...string) {
		for i, c := range columns {
			if columns[i] = nodeapi.Harmless(c); c == "" {
				columns[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(columns, "\t"))
	}
	row("LINK", "KIND", "MAC", "STATE", "SPEED", "MTU", "PART OF", "RECEIVED", "SENT", "ERRORS", "DROPPED", "ADDRESSES")
	for _, l := range n.Links {
		c := l.Counters
		row(l.Name, kind(l), mac(l), state(l), speed(l), strconv.Itoa(l.MTU), partOf(l), humanize.IBytes(c.ReceivedBytes),
			humanize.IBytes(c.SentBytes), strconv.FormatUint(c.ReceivedErrors+c.SentErrors, 10),
			strconv.FormatUint(c.ReceivedDropped+c.SentDropped, 10), strings.Join(l.Addresses, " "))
	}
	row2 := func(header ...string) { fmt.Fprintln(t); row(header...) }
	row2("ROUTE TO", "VIA", "LINK", "SOURCE", "METRIC", "FROM", "KIND")
	for _, r := range n.Routes {
		row(r.To, r.Via, r.Link, r.Source, strconv.Itoa(r.Metric), r.Protocol, r.Kind)
	}
	if len(n.Neighbours) > 0 {
		row2("NEIGHBOUR", "MAC", "LINK", "STATE")
	}
	for _, x := range n.Neighbours {
		row(x.IP, x.MAC, x.Link, x.State)
	}
	if len(n.LLDP) > 0 {
		row2("LLDP ON", "NAME", "PORT", "VLAN", "CHASSIS", "ABOUT")
	}
	for _, s := range n.LLDP {
		row(s.Link, s.Name, strings.TrimSpace(s.Port+" "+s.PortIs), vlan(s.VLAN), s.Chassis, s.About)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(n.LLDP) == 0 {
		fmt.Fprintln(w, "\nLLDP: "+nodeapi.Harmless(orElse(n.Warning, "no switch or router was heard")))
	}
	fmt.Fprintln(w, "DNS servers: "+nodeapi.Harmless(orElse(strings.Join(n.DNS, " "), "none")))
	if n.Left > 0 {
		fmt.Fprintf(w, "%d more rows were left out\n", n.Left)
	}
	return nil
}

func orElse(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}

func kind(l machine.Link) string {
	switch {
	case l.Kind == "device":
		return "card"
	case l.Mode != "":
		return l.Kind + " " + l.Mode
	case l.VLAN > 0:
		return l.Kind + " " + vlan(l.VLAN)
	}
	return l.Kind
}

// mac is the address, with that of the card where it has another one.
func mac(l machine.Link) string {
	if l.Permanent != "" && l.Permanent != l.MAC {
		return l.MAC + " (card " + l.Permanent + ")"
	}
	return l.MAC
}

func state(l machine.Link) string {
	switch {
	case !l.Up:
		return "down"
	case !l.Carrier:
		return "no carrier"
	}
	return "up"
}

func speed(l machine.Link) string {
	if l.Speed == 0 {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%d Mbit/s %s", l.Speed, l.Duplex))
}

func partOf(l machine.Link) string {
	switch {
	case l.Master != "":
		return l.Master
	case l.Parent != "":
		return "on " + l.Parent
	case l.Active != "":
		return "uses " + l.Active
	}
	return ""
}

func vlan(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
