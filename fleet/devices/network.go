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

// ShowNetwork prints how a node is connected.
func ShowNetwork(w io.Writer, _ string, results []json.RawMessage) error {
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
