// Package network writes the files of systemd-networkd (systemd.network(5), systemd.netdev(5)) for a node. Cards are
// matched by their permanent hardware address and never by the name that the kernel gives them; bonds and VLANs are made
// here, so they are matched by the name that they are made with.
//
// It does not talk to networkd.
package network

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spore/cluster/spec"
	"spore/storage/atomicfile"
)

// Dir is where networkd reads the files.
const Dir = "/etc/systemd/network"

// prefix marks the files that are ours, so that those of an earlier identity can be told and removed.
const prefix = "10-spore-"

// Options adapts the files to the machine.
type Options struct {
	// Current holds MACs of cards without a permanent address (a container); they are matched by the current one.
	Current map[string]bool
	// Withheld holds addresses that another machine uses; they are left out.
	Withheld map[netip.Addr]bool
	// AskNTP lets DHCP name time servers.
	AskNTP bool
	// Pods says that the node runs pods, whose interfaces calico makes.
	Pods bool
	// SendHostname tells the DHCP server the machine's name; only a machine that knows its node has one to tell.
	SendHostname bool
}

// Files are file contents by name.
type Files map[string]string

// Everywhere asks for an address by DHCP on every card.
func Everywhere(o Options) Files {
	body := "\n[Network]\nDHCP=ipv4\n" + dhcp(o)
	f := podFiles(o)
	f[prefix+"dhcp.network"] = "# Every card: an Ethernet interface that nobody made.\n[Match]\nType=ether\nKind=!*\n" + body
	if len(o.Current) > 0 {
		f[prefix+"container.network"] = "[Match]\nVirtualization=container\nName=host0\n" + body
	}
	return f
}

// ForNode describes the interfaces of a node; DHCP on every card when there are none.
func ForNode(interfaces []spec.Interface, o Options) Files {
	if len(interfaces) == 0 {
		return Everywhere(o)
	}
	f := podFiles(o)
	vlans := map[string][]string{}
	for _, i := range interfaces {
		if i.VLAN != nil {
			vlans[key(i.VLAN.Parent)] = append(vlans[key(i.VLAN.Parent)], i.Name)
		}
	}
	described := map[string]bool{}
	for _, i := range interfaces {
		var match string
		id := i.Name
		switch {
		case i.Bond != nil:
			bond(f, i, o)
			match = "Name=" + i.Name
		case i.VLAN != nil:
			f[prefix+i.Name+".netdev"] = fmt.Sprintf("[NetDev]\nName=%s\nKind=vlan\n\n[VLAN]\nId=%d\n", i.Name, i.VLAN.ID)
			match = "Name=" + i.Name
		default:
			match, id = matchMAC(i.MAC, o), fileID(i.MAC)
		}
		described[key(i.MAC)], described[key(i.Name)] = true, true
		f[prefix+id+".network"] = interfaceFile(match, i, vlans[parentKey(i)], o)
	}
	for _, parent := range slices.Sorted(maps.Keys(vlans)) {
		if !described[parent] {
			f[prefix+fileID(parent)+".network"] = "# Carries VLANs and has no address of its own.\n" +
				interfaceFile(matchMAC(parent, o), spec.Interface{}, vlans[parent], o)
		}
	}
	return f
}

// podFiles leave the interfaces of pods and the tunnel between nodes to calico: networkd configures none of them, and udev
// gives them no address of its own, which would take the place of the one that calico has told the other nodes. Their
// names are longer than that of any interface that a user may make.
func podFiles(o Options) Files {
	if !o.Pods {
		return Files{}
	}
	const names = "cali* vxlan.calico vxlan-v6.calico"
	return Files{
		prefix + "interfaces-of-pods.network": "[Match]\nName=" + names + "\n\n[Link]\nUnmanaged=yes\n",
		prefix + "interfaces-of-pods.link":    "[Match]\nOriginalName=" + names + "\n\n[Link]\nNamePolicy=keep\nMACAddressPolicy=none\n",
	}
}

// interfaceFile is the .network file of one interface.
func interfaceFile(match string, i spec.Interface, vlans []string, o Options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[Match]\n%s\n", match)
	if i.MTU > 0 {
		fmt.Fprintf(&b, "\n[Link]\nMTUBytes=%d\n", i.MTU)
	}
	b.WriteString("\n[Network]\n")
	if i.DHCP {
		b.WriteString("DHCP=ipv4\n")
	} else {
		// Addresses and routers are written down; none comes from router advertisements.
		b.WriteString("IPv6AcceptRA=no\n")
	}
	if !i.DHCP && len(i.Addresses) == 0 {
		b.WriteString("LinkLocalAddressing=no\n")
	}
	for _, v := range vlans {
		fmt.Fprintf(&b, "VLAN=%s\n", v)
	}
	used := usable(i.Addresses, o)
	for _, g := range i.Gateways {
		if reaches(used, g) {
			fmt.Fprintf(&b, "Gateway=%s\n", g)
		}
	}
	for _, a := range used {
		fmt.Fprintf(&b, "\n[Address]\nAddress=%s\n", a)
		if i.Bond != nil || i.VLAN != nil {
			// The agent probes cards before networkd starts; this interface does not exist before, so networkd probes
			// it itself (RFC 5227).
			b.WriteString("DuplicateAddressDetection=both\n")
		}
	}
	if i.DHCP {
		b.WriteString(dhcp(o))
	}
	return b.String()
}

// usable leaves out the addresses that another machine uses.
func usable(addresses []string, o Options) []string {
	var out []string
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a); err == nil && !o.Withheld[p.Addr()] {
			out = append(out, a)
		}
	}
	return out
}

// reaches tells whether one of the addresses is of the router's family; networkd waits for ever to set any other route.
func reaches(addresses []string, router string) bool {
	r, err := netip.ParseAddr(router)
	for _, a := range addresses {
		if p, perr := netip.ParsePrefix(a); err == nil && perr == nil && p.Addr().Is4() == r.Is4() {
			return true
		}
	}
	return false
}

// bond makes the bond and enslaves its members. It keeps the address of its first member, so that a DHCP server knows it.
func bond(f Files, i spec.Interface, o Options) {
	mode := i.Bond.Mode
	if mode == "" {
		mode = "active-backup"
	}
	f[prefix+i.Name+".netdev"] = fmt.Sprintf("[NetDev]\nName=%s\nKind=bond\nMACAddress=%s\n\n[Bond]\nMode=%s\nMIIMonitorSec=100ms\n", i.Name, i.Bond.Members[0], mode)
	for _, m := range i.Bond.Members {
		link := ""
		if i.MTU > 0 {
			link = fmt.Sprintf("[Link]\nMTUBytes=%d\n\n", i.MTU)
		}
		f[prefix+fileID(m)+".network"] = fmt.Sprintf("[Match]\n%s\n\n%s[Network]\nBond=%s\nLinkLocalAddressing=no\n", matchMAC(m, o), link, i.Name)
	}
}

// dhcp asks as the card and not as the machine, so that a reservation by MAC holds; names come from cluster.yaml.
func dhcp(o Options) string {
	return fmt.Sprintf("\n[DHCPv4]\nClientIdentifier=mac\nUseHostname=no\nSendHostname=%s\nUseNTP=%s\n", yesNo(o.SendHostname), yesNo(o.AskNTP))
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func matchMAC(mac string, o Options) string {
	if o.Current[strings.ToLower(mac)] {
		return "MACAddress=" + mac
	}
	return "PermanentMACAddress=" + mac
}

func key(s string) string { return strings.ToLower(s) }

// parentKey is what a VLAN names to lie on the interface.
func parentKey(i spec.Interface) string {
	if i.MAC != "" && i.Bond == nil {
		return key(i.MAC)
	}
	return key(i.Name)
}

func fileID(mac string) string { return strings.ReplaceAll(strings.ToLower(mac), ":", "") }

// Write puts the files into dir and removes those of ours that are no longer wanted. changed tells whether networkd has
// something to read again.
func Write(dir string, files Files) (changed bool, err error) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		c, err := atomicfile.Write(filepath.Join(dir, name), []byte(files[name]), 0o644)
		if err != nil {
			return changed, err
		}
		changed = changed || c
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return changed, fmt.Errorf("list %s: %w", dir, err)
	}
	for _, e := range entries {
		if _, wanted := files[e.Name()]; wanted || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return changed, fmt.Errorf("remove an earlier network file: %w", err)
		}
		changed = true
	}
	return changed, nil
}
