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
	"slices"
	"strings"
	"time"

	"spore/agent/dhcplease"
	"spore/agent/nic"
	"spore/agent/nocloud"
	"spore/agent/smbios"
	"spore/agent/wait"
	"spore/cluster/identity"
	"spore/cluster/spec"
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
	// VolumeBound is for a volume that the serial number announces; USB drives come a second late.
	VolumeBound = 10 * time.Second
	// SilentBound is for the first answer where no card got any: after a power cut the server comes up with the machines.
	SilentBound = 5 * time.Minute
)

// Seen is what the machine knows of itself.
type Seen struct {
	MACs      []string `json:"macs,omitempty"`
	IPs       []string `json:"ips,omitempty"`
	Hostnames []string `json:"hostnames,omitempty"`
	// LocalHostname is what NoCloud calls the machine.
	LocalHostname string `json:"localHostname,omitempty"`
	Serial        string `json:"serial,omitempty"`
	UUID          string `json:"uuid,omitempty"`
}

// Identity is the result of detection (/run/spore/identity.json).
type Identity struct {
	identity.Result
	// Seen is what was looked at.
	Seen Seen `json:"seen"`
	// Card is the MAC of the card by whose lease phase two recognised the node.
	Card string `json:"card,omitempty"`
	// NoCloud is what a hypervisor said; nil where it said nothing.
	NoCloud *nocloud.Found `json:"nocloud,omitempty"`
	// Network is the network of NoCloud on the cards of this machine, for a node that the configuration gives none.
	Network []spec.Interface `json:"network,omitempty"`
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
	// Dev is the directory with the nodes of devices.
	Dev string
	// Virtual says that the machine is a virtual one.
	Virtual bool
	// FindDisks has udev load the drivers of storage controllers that coldplug left out; may be nil.
	FindDisks func(context.Context)
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
	CardBound, CarrierBound, LeaseBound, SilentBound, VolumeBound time.Duration
}

// PhaseOne decides by what the machine knows of itself. An explicit choice is taken without a look at the hardware, unless
// a volume is to be looked for (wantsVolumes), or NoCloud describes the network. A result with neither node nor problem
// means that only the network can tell.
func PhaseOne(ctx context.Context, m Machine) (Identity, error) {
	f := identity.Facts{Cmdline: Argument(m.Cmdline, "spore.node"), SMBIOS: m.credential("spore.node"), ESP: m.ESPNode}
	sys := smbios.Read(m.Sys)
	id := Identity{Seen: Seen{Serial: sys.Serial, UUID: sys.UUID}}
	volumes, settled := m.wantsVolumes(f, sys.Serial), false
	settle := func() {
		if settled {
			return
		}
		settled = true
		if err := m.Settled(ctx); err != nil {
			m.Say(err.Error())
		}
	}
	if volumes {
		settle()
	}
	cloud := m.noCloud(ctx, sys.Serial, volumes)
	// Cards tell who a machine is that nobody chose, and have the network that NoCloud describes.
	if strings.TrimSpace(f.Cmdline+f.SMBIOS+f.ESP) == "" || cloud.Network != nil {
		settle()
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
	id.takeCloud(cloud, cards)
	if cloud.Disputed {
		id.Result = identity.Result{By: identity.ByNoCloud, Phase: 1, Problem: cloud.Problem}
		id.explain()
		return id, nil
	}
	f.MACs, f.Serial, f.UUID, f.NoCloud = id.Seen.MACs, sys.Serial, sys.UUID, cloud.Node
	if id.Result, err = m.Match(f); err == nil && !id.Known() && id.Problem == "" && len(id.Network) > 0 && !cloud.Network.WantsDHCP() {
		// The network is described and asks no DHCP server: what it says is all that there will be.
		f.IPs, f.Hostnames = id.cloudEvidence()
		id.Result, err = m.Match(f)
	}
	if id.Problem != "" {
		id.explain()
	}
	return id, err
}

// PhaseTwo decides by DHCP, after phase one found nothing. It returns when every card with a carrier has a lease or the
// bound is reached; a card without a carrier is not waited for.
func PhaseTwo(ctx context.Context, m Machine, one Identity) (Identity, error) {
	id := Identity{Seen: one.Seen, NoCloud: one.NoCloud, Network: one.Network}
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
	id.Seen.MACs, id.Seen.IPs, id.Seen.Hostnames = nil, nil, nil
	var leased []string
	said := map[string]string{}
	for _, c := range cards {
		id.Seen.MACs = append(id.Seen.MACs, c.MAC)
		l, ok := dhcplease.Read(m.Leases, c.Index)
		if !ok {
			continue
		}
		leased = append(leased, c.MAC)
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
	ips, hostnames := id.cloudEvidence()
	id.Result, err = m.Match(identity.Facts{
		MACs: id.Seen.MACs, Serial: id.Seen.Serial, UUID: id.Seen.UUID, IPs: slices.Concat(id.Seen.IPs, ips), Hostnames: slices.Concat(id.Seen.Hostnames, hostnames),
	})
	if id.Card = said[strings.ToLower(id.Value)]; id.Card == "" && id.Known() && id.ByLocalHostname() && len(leased) == 1 {
		id.Card = leased[0] // Its name is NoCloud's; the lease is the only one there is.
	}
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
