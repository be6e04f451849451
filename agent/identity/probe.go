package identity

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"spore/agent/arp"
	"spore/agent/nic"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/wait"
	"spore/cluster/facts"
	"spore/storage/atomicfile"
)

// Longest waits for a carrier before a probe; without one there is nobody to ask. networkd has to make a bond or VLAN first.
const (
	probeCarrier     = 4 * time.Second
	probeMadeCarrier = 15 * time.Second
)

// Probe probes the static addresses before networkd starts, beside everything else that does not need the network.
// When it fails, networkd uses the addresses as they are written.
func Probe(ctx context.Context, m *node.Machine) error {
	_, c, n, err := m.Node()
	if err != nil || n == nil {
		return err
	}
	used, _ := probe(ctx, m, staticAddresses(n), probeCarrier)
	setConflicts(m, used)
	m.Record("probe")
	if len(used) == 0 {
		return nil
	}
	_, err = writeNetwork(m, c, n, used)
	return err
}

// wantProbe leaves a file when the node has addresses to probe, so that the unit is not started for nothing.
func wantProbe(m *node.Machine, n *facts.Node) error {
	if n != nil && len(staticAddresses(n)) > 0 {
		_, err := atomicfile.Write(m.Root.At(paths.Probe), nil, 0o644)
		return err
	}
	if err := os.Remove(m.Root.At(paths.Probe)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("forget the probe: %w", err)
	}
	return nil
}

// static is a static IPv4 address of the node: on a card, or on a bond or VLAN with a name.
type static struct {
	mac, name string
	ip        netip.Addr
}

// on finds the interface of the address.
func (s static) on(cards []nic.Card) (nic.Card, bool) {
	if s.name != "" {
		return nic.Made(s.name)
	}
	return nic.ByMAC(cards, s.mac)
}

// staticAddresses lists the addresses that are probed before networkd starts: those on cards.
func staticAddresses(n *facts.Node) []static { return addressesOn(n, false) }

// madeAddresses lists those on bonds and VLANs. networkd makes these and does not use an address that another machine has
// (package network). It tells nobody, so they are probed here as well, once they are there.
func madeAddresses(n *facts.Node) []static { return addressesOn(n, true) }

func addressesOn(n *facts.Node, made bool) []static {
	var out []static
	for _, i := range n.Interfaces {
		if made != (i.Bond != nil || i.VLAN != nil) {
			continue
		}
		for _, a := range i.Addresses {
			if p, err := netip.ParsePrefix(a); err == nil && p.Addr().Is4() {
				out = append(out, static{i.MAC, i.Name, p.Addr()})
			}
		}
	}
	return out
}

// ExpectedAddresses lists the static addresses of a node that nobody else has.
func ExpectedAddresses(m *node.Machine, n *facts.Node) []netip.Addr {
	used := Conflicts(m)
	var out []netip.Addr
	for _, i := range n.Interfaces {
		for _, s := range i.Addresses {
			p, err := netip.ParsePrefix(s)
			if err == nil && !slices.ContainsFunc(used, func(u arp.Used) bool { return u.IP == p.Addr() }) {
				out = append(out, p.Addr())
			}
		}
	}
	return out
}

// probe probes static addresses and returns those that other machines have, and those that could not be probed since there
// is no carrier. At boot the latter count as free: a node without a cable has to come up.
func probe(ctx context.Context, m *node.Machine, wanted []static, bound time.Duration) (used []arp.Used, unasked []static) {
	if len(wanted) == 0 {
		return nil, nil
	}
	cards, err := carriers(ctx, m, wanted, bound)
	if err != nil {
		m.Say(err.Error())
	}
	var checks []arp.Check
	for _, w := range wanted {
		if c, ok := w.on(cards); ok && c.Carrier {
			checks = append(checks, arp.Check{IP: w.ip, Index: c.Index, MAC: c.MAC})
		} else {
			unasked = append(unasked, w)
		}
	}
	if used, err = arp.Run(ctx, checks, arp.Scaled); err != nil {
		m.Say(err.Error())
	}
	return used, unasked
}

// setConflicts notes the addresses that other machines have, and says which are new.
func setConflicts(m *node.Machine, used []arp.Used) {
	before := Conflicts(m)
	for _, u := range used {
		if !slices.Contains(before, u) {
			m.Say(fmt.Sprintf("%s is not used: the machine with the MAC %s has it", u.IP, u.MAC))
		}
	}
	if used == nil {
		used = []arp.Used{}
	}
	if err := atomicfile.WriteJSON(m.Root.At(paths.Conflicts), used); err != nil {
		m.Say(err.Error())
	}
}

// ProbeMade finds out which addresses of bonds and VLANs networkd did not use because other machines have them. The files
// of networkd are written without them; it need not read them now.
func ProbeMade(ctx context.Context, m *node.Machine, c *facts.Cluster, n *facts.Node) error {
	wanted := slices.DeleteFunc(madeAddresses(n), func(s static) bool {
		i, ok := s.on(nil)
		return ok && nic.Has(i.Index, s.ip)
	})
	found, _ := probe(ctx, m, wanted, probeMadeCarrier)
	if len(found) == 0 {
		return nil
	}
	used := slices.DeleteFunc(Conflicts(m), func(u arp.Used) bool {
		return slices.ContainsFunc(wanted, func(s static) bool { return s.ip == u.IP })
	})
	used = append(used, found...)
	setConflicts(m, used)
	_, err := writeNetwork(m, c, n, used)
	return err
}

// ProbeTaken probes the addresses that other machines had. freed tells that some became free; networkd's files have them
// then. What cannot be probed is not free: its machine may be there again when the cable is.
func ProbeTaken(ctx context.Context, m *node.Machine, c *facts.Cluster, n *facts.Node) (freed bool, err error) {
	before := Conflicts(m)
	taken := func(s static) bool {
		return slices.ContainsFunc(before, func(u arp.Used) bool { return u.IP == s.ip })
	}
	wanted := slices.DeleteFunc(append(staticAddresses(n), madeAddresses(n)...), func(s static) bool { return !taken(s) })
	used, unasked := probe(ctx, m, wanted, probeCarrier)
	for _, u := range before {
		if slices.ContainsFunc(unasked, func(s static) bool { return s.ip == u.IP }) {
			used = append(used, u)
		}
	}
	setConflicts(m, used)
	if len(used) == len(before) {
		return false, nil
	}
	_, err = writeNetwork(m, c, n, used)
	return err == nil, err
}

// carriers brings the cards up and waits for the carriers of all interfaces.
func carriers(ctx context.Context, m *node.Machine, wanted []static, bound time.Duration) ([]nic.Card, error) {
	cards, err := m.Cards()
	if err != nil {
		return nil, err
	}
	for _, w := range wanted {
		if c, ok := nic.ByMAC(cards, w.mac); ok && !c.Up {
			if err := nic.SetUp(c.Index); err != nil {
				m.Say(err.Error())
			}
		}
	}
	done := make(chan struct{})
	defer close(done)
	changed, err := nic.Changes(done)
	if err != nil {
		m.Say(err.Error())
	}
	err = wait.Until(ctx, wait.Condition{
		For: "a carrier on every interface with a static address", Bound: bound, Every: 100 * time.Millisecond, Changes: changed,
		Met: func() bool {
			now, err := m.Cards()
			if err != nil {
				return true
			}
			cards = now
			for _, w := range wanted {
				// A card that is not there will not come; a bond or VLAN will.
				if c, ok := w.on(cards); (ok || w.name != "") && !c.Carrier {
					return false
				}
			}
			return true
		},
	})
	return cards, err
}
