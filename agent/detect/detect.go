// Package detect finds out which node this machine is: phase one from what the machine itself knows, phase two from what
// DHCP says. The matching is package identity's; this package gathers the facts, waits for them with bounds, and puts into
// words what a person has to do when there is no answer.
package detect

import (
	"context"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"spore/agent/dhcplease"
	"spore/agent/nic"
	"spore/agent/smbios"
	"spore/agent/wait"
	"spore/cluster/identity"
)

// Bounds of the waits.
const (
	// UdevBound is for drivers and names; a large disk shelf takes tens of seconds.
	UdevBound = 60 * time.Second
	// CardBound is for the first network card after udev is done (USB cards come late).
	CardBound = 10 * time.Second
	// CarrierBound is for a carrier after a card was brought up; autonegotiation takes up to three seconds.
	CarrierBound = 5 * time.Second
	// LeaseBound is for DHCP; a switch port with spanning tree forwards after 30 seconds.
	LeaseBound = 45 * time.Second
	// SilentBound is for the first answer where no card got any: after a power cut the server comes up with the machines.
	SilentBound = 5 * time.Minute
)

// Seen is what the machine knows of itself.
type Seen struct {
	MACs      []string `json:"macs,omitempty"`
	IPs       []string `json:"ips,omitempty"`
	Hostnames []string `json:"hostnames,omitempty"`
	Serial    string   `json:"serial,omitempty"`
	UUID      string   `json:"uuid,omitempty"`
}

// Identity is the result of detection (/run/spore/identity.json).
type Identity struct {
	identity.Result
	// Seen is what was looked at.
	Seen Seen `json:"seen"`
	// Card is the MAC of the card by whose lease phase two recognised the node.
	Card string `json:"card,omitempty"`
	// Advice says what to add to which file when the machine does not match any node.
	Advice string `json:"advice,omitempty"`
}

// Known tells whether the machine is a node.
func (i Identity) Known() bool { return i.Node != "" }

// Machine is where facts come from.
type Machine struct {
	// Sys is the content of /sys.
	Sys fs.FS
	// Cmdline is the kernel command line.
	Cmdline string
	// Credentials is the service's credentials directory; empty when it has none.
	Credentials string
	// ESPNode is the node that the ESP chooses (boot info).
	ESPNode string
	// Cards lists the network cards.
	Cards func() ([]nic.Card, error)
	// Settled waits until udev has worked off coldplug.
	Settled func(context.Context) error
	// Leases is the content of /run/systemd/netif/leases.
	Leases fs.FS
	// Changed delivers a value when cards or leases may have changed; may be nil.
	Changed <-chan struct{}
	// Match is the identity index's.
	Match func(identity.Facts) (identity.Result, error)
	// Say reports what is waited for.
	Say func(string)
	// Bounds replaces the package's bounds in tests.
	CardBound, CarrierBound, LeaseBound, SilentBound time.Duration
}

// PhaseOne decides by what the machine knows of itself. An explicit choice is taken without a look at the hardware. A
// result with neither node nor problem means that only the network can tell.
func PhaseOne(ctx context.Context, m Machine) (Identity, error) {
	f := identity.Facts{Cmdline: Argument(m.Cmdline, "spore.node"), SMBIOS: m.credential("spore.node"), ESP: m.ESPNode}
	sys := smbios.Read(m.Sys)
	id := Identity{Seen: Seen{Serial: sys.Serial, UUID: sys.UUID}}
	if strings.TrimSpace(f.Cmdline+f.SMBIOS+f.ESP) == "" {
		if err := m.Settled(ctx); err != nil {
			m.Say(err.Error())
		}
		if err := m.awaitCard(ctx); err != nil {
			m.Say(err.Error())
		}
	}
	cards, err := m.Cards()
	if err != nil {
		return id, err
	}
	for _, c := range cards {
		id.Seen.MACs = append(id.Seen.MACs, c.MAC)
	}
	f.MACs, f.Serial, f.UUID = id.Seen.MACs, sys.Serial, sys.UUID
	id.Result, err = m.Match(f)
	if id.Problem != "" {
		id.explain()
	}
	return id, err
}

// PhaseTwo decides by DHCP, after phase one found nothing. It returns when every card with a carrier has a lease or the
// bound is reached; a card without a carrier is not waited for.
func PhaseTwo(ctx context.Context, m Machine, one Identity) (Identity, error) {
	id := Identity{Seen: one.Seen}
	start := time.Now()
	var cards []nic.Card
	var listErr error
	pending := func() (names []string) {
		if cards, listErr = m.Cards(); listErr != nil {
			return nil
		}
		for _, c := range cards {
			_, leased := dhcplease.Read(m.Leases, c.Index)
			young := time.Since(start) < bound(m.CarrierBound, CarrierBound)
			if !leased && (c.Carrier || young) {
				names = append(names, c.MAC)
			}
		}
		return names
	}
	err := wait.Until(ctx, wait.Condition{
		For: "an answer of a DHCP server on every network card with a carrier", Bound: bound(m.LeaseBound, LeaseBound),
		Met: func() bool { return len(pending()) == 0 }, Changes: m.Changed, Every: 250 * time.Millisecond, Patience: 5 * time.Second, Say: m.Say,
	})
	if err != nil {
		m.Say(err.Error() + "; no answer for " + strings.Join(pending(), ", "))
		m.awaitAnswer(ctx, &cards)
	}
	if listErr != nil {
		return id, listErr
	}
	id.Seen.MACs = nil
	said := map[string]string{}
	for _, c := range cards {
		id.Seen.MACs = append(id.Seen.MACs, c.MAC)
		l, ok := dhcplease.Read(m.Leases, c.Index)
		if !ok {
			continue
		}
		if a, err := netip.ParseAddr(l.Address); err == nil {
			id.Seen.IPs = append(id.Seen.IPs, a.String())
			said[a.String()] = c.MAC
		}
		if l.Hostname != "" {
			names := []string{l.Hostname}
			if l.Domain != "" && !strings.Contains(l.Hostname, ".") {
				names = append(names, l.Hostname+"."+l.Domain)
			}
			id.Seen.Hostnames = append(id.Seen.Hostnames, names...)
			for _, n := range names {
				said[strings.ToLower(n)] = c.MAC
			}
		}
	}
	id.Result, err = m.Match(identity.Facts{MACs: id.Seen.MACs, Serial: id.Seen.Serial, UUID: id.Seen.UUID, IPs: id.Seen.IPs, Hostnames: id.Seen.Hostnames})
	id.Card = said[strings.ToLower(id.Value)]
	if err == nil && !id.Known() {
		if id.Problem == "" {
			id.Problem = "this machine is in no file of the configuration"
		}
		id.explain()
	}
	return id, err
}

// awaitAnswer goes on waiting where there are carriers and no DHCP server has answered at all.
func (m Machine) awaitAnswer(ctx context.Context, cards *[]nic.Card) {
	err := wait.Until(ctx, wait.Condition{
		For: "any answer of a DHCP server", Bound: bound(m.SilentBound, SilentBound), Changes: m.Changed, Say: m.Say,
		Met: func() bool {
			now, err := m.Cards()
			if err != nil {
				return true
			}
			*cards = now
			carriers := 0
			for _, c := range now {
				if _, leased := dhcplease.Read(m.Leases, c.Index); leased {
					return true
				}
				if c.Carrier {
					carriers++
				}
			}
			return carriers == 0
		},
	})
	if err != nil {
		m.Say(err.Error())
	}
}

// awaitCard waits for the first network card: without one neither phase can say anything.
func (m Machine) awaitCard(ctx context.Context) error {
	return wait.Until(ctx, wait.Condition{
		For: "a network card", Bound: bound(m.CardBound, CardBound), Changes: m.Changed, Every: 250 * time.Millisecond, Say: m.Say,
		Met: func() bool {
			cards, err := m.Cards()
			return err != nil || len(cards) > 0
		},
	})
}

func bound(own, usual time.Duration) time.Duration {
	if own != 0 {
		return own
	}
	return usual
}

// credential reads a credential of the service; a long or missing one is empty.
func (m Machine) credential(name string) string {
	if m.Credentials == "" {
		return ""
	}
	st, err := os.Stat(filepath.Join(m.Credentials, name))
	if err != nil || st.Size() > 512 {
		return ""
	}
	data, err := os.ReadFile(filepath.Join(m.Credentials, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Argument returns the last value of key= on a kernel command line, without quotes.
func Argument(cmdline, key string) string {
	value := ""
	for _, word := range strings.Fields(cmdline) {
		if k, v, ok := strings.Cut(word, "="); ok && k == key {
			value = strings.Trim(v, `"`)
		}
	}
	return value
}
