package netboot

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Card is a network interface of this machine with one of its addresses.
type Card struct {
	Name string
	// Prefix is the address with the length of its network.
	Prefix   netip.Prefix
	loopback bool
}

// Cards are the interfaces that are up, once for each IPv4 address.
func Cards() ([]Card, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	var out []Card
	for _, i := range list {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list the addresses of %s: %w", i.Name, err)
		}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
				out = append(out, Card{i.Name, p, i.Flags&net.FlagLoopback != 0})
			}
		}
	}
	return out, nil
}

// Choose finds the interface that machines boot from. name is an interface or an address of this machine, if the operator named
// one; otherwise the one in the nodes' network is taken, or the only one that there is.
func Choose(cards []Card, name string, subnets []string) (Card, error) {
	var named []Card
	for _, c := range cards {
		if name == "" && !c.loopback || c.Name == name || c.Prefix.Addr().String() == name {
			named = append(named, c)
		}
	}
	if len(named) == 0 && name != "" {
		return Card{}, fmt.Errorf("%s is neither an interface that is up with an IPv4 address nor the address of one; there are %s", name, list(cards))
	}
	var inside []Card
	for _, c := range named {
		for _, s := range subnets {
			if p, err := netip.ParsePrefix(s); err == nil && p.Contains(c.Prefix.Addr()) {
				inside = append(inside, c)
			}
		}
	}
	switch {
	case len(inside) > 0 && allOne(inside):
		return inside[0], nil
	case len(inside) > 0:
		return Card{}, fmt.Errorf("%s are all in the nodes' network; name one with --interface", list(inside))
	case len(named) > 0 && (name != "" || allOne(named)):
		return named[0], nil
	case len(named) == 0:
		return Card{}, errors.New("this machine has no IPv4 address but its loopback's")
	}
	return Card{}, fmt.Errorf("none of %s is in the nodes' network %s; name one with --interface", list(named), strings.Join(subnets, ", "))
}

func allOne(cards []Card) bool {
	for _, c := range cards {
		if c.Name != cards[0].Name {
			return false
		}
	}
	return true
}

func list(cards []Card) string {
	var out []string
	for _, c := range cards {
		out = append(out, c.Name+" ("+c.Prefix.String()+")")
	}
	return strings.Join(out, ", ")
}
