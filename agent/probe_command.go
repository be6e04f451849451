package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"time"

	"spore/agent/arp"
	"spore/agent/atomicfile"
	"spore/agent/nic"
	"spore/agent/paths"
	"spore/agent/wait"
	"spore/cluster/facts"
)

// probeCarrier is the longest wait for a carrier before a probe; without one there is nobody to ask.
const probeCarrier = 4 * time.Second

// probeCommand probes the static addresses before networkd starts, beside everything else that does not need the network.
// When it fails, networkd uses the addresses as they are written.
func probeCommand(ctx context.Context, m *machine, args []string) error {
	if len(args) > 0 {
		return usageError{"usage: spore-agent probe"}
	}
	_, c, n, err := m.node()
	if err != nil || n == nil {
		return err
	}
	used := probe(ctx, m, n)
	m.record("probe")
	if len(used) == 0 {
		return nil
	}
	_, err = m.writeNetwork(c, n, used)
	return err
}

// wantProbe leaves a file when the node has addresses to probe, so that the unit is not started for nothing.
func wantProbe(m *machine, n *facts.Node) error {
	if n != nil && len(staticAddresses(n)) > 0 {
		_, err := atomicfile.Write(m.root.At(paths.Probe), nil, 0o644)
		return err
	}
	if err := os.Remove(m.root.At(paths.Probe)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("forget the probe: %w", err)
	}
	return nil
}

// static is a static IPv4 address on a card.
type static struct {
	mac string
	ip  netip.Addr
}

// staticAddresses lists the addresses that the agent probes: those on cards. Bonds and VLANs do not exist before networkd
// makes them; their addresses networkd probes itself.
func staticAddresses(n *facts.Node) []static {
	var out []static
	for _, i := range n.Interfaces {
		if i.Bond != nil || i.VLAN != nil {
			continue
		}
		for _, a := range i.Addresses {
			if p, err := netip.ParsePrefix(a); err == nil && p.Addr().Is4() {
				out = append(out, static{i.MAC, p.Addr()})
			}
		}
	}
	return out
}

// probe probes the node's static addresses, notes and returns those that other machines have. What cannot be probed counts
// as free: a node without a cable has to come up.
func probe(ctx context.Context, m *machine, n *facts.Node) []arp.Used {
	wanted := staticAddresses(n)
	if len(wanted) == 0 {
		return nil
	}
	cards, err := carriers(ctx, m, wanted)
	if err != nil {
		m.say(err.Error())
	}
	var checks []arp.Check
	for _, w := range wanted {
		if c, ok := nic.ByMAC(cards, w.mac); ok && c.Carrier {
			checks = append(checks, arp.Check{IP: w.ip, Index: c.Index, MAC: c.MAC})
		}
	}
	used, err := arp.Run(ctx, checks, arp.Scaled)
	if err != nil {
		m.say(err.Error())
	}
	for _, u := range used {
		m.say(fmt.Sprintf("%s is not used: the machine with the MAC %s has it", u.IP, u.MAC))
	}
	if used == nil {
		used = []arp.Used{}
	}
	if err := atomicfile.WriteJSON(m.root.At(paths.Conflicts), used); err != nil {
		m.say(err.Error())
	}
	return used
}

// carriers brings the cards up and waits for their carriers.
func carriers(ctx context.Context, m *machine, wanted []static) ([]nic.Card, error) {
	cards, err := m.cards()
	if err != nil {
		return nil, err
	}
	for _, w := range wanted {
		if c, ok := nic.ByMAC(cards, w.mac); ok && !c.Up {
			if err := nic.SetUp(c.Index); err != nil {
				m.say(err.Error())
			}
		}
	}
	done := make(chan struct{})
	defer close(done)
	changed, err := nic.Changes(done)
	if err != nil {
		m.say(err.Error())
	}
	err = wait.Until(ctx, wait.Condition{
		For: "a carrier on every card with a static address", Bound: probeCarrier, Every: 100 * time.Millisecond, Changes: changed,
		Met: func() bool {
			now, err := m.cards()
			if err != nil {
				return true
			}
			cards = now
			for _, w := range wanted {
				if c, ok := nic.ByMAC(cards, w.mac); ok && !c.Carrier {
					return false
				}
			}
			return true
		},
	})
	return cards, err
}
