package nocloud

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// version1 reads the list of cloud-init's "Networking config Version 1".
func (p *networkParser) version1(doc mapping) error {
	for _, pair := range doc.pairs {
		switch pair.key {
		case "version":
		case "config":
			items, err := pair.items()
			if err != nil {
				return fmt.Errorf("config: %w", err)
			}
			for i, item := range items {
				if err := p.item(item); err != nil {
					return fmt.Errorf("config[%d]: %w", i, err)
				}
			}
		default:
			p.notTaken("%s", pair.key)
		}
	}
	return nil
}

func (p *networkParser) item(item pair) error {
	m, err := item.mapping()
	if err != nil {
		return err
	}
	kind, err := m.scalar("type")
	if err != nil {
		return err
	}
	switch kind {
	case "physical":
		return p.physical(m)
	case "nameserver":
		return p.resolver(m.without("type"), "address", "nameserver.")
	}
	name, _ := m.scalar("name")
	p.notTaken("%s %s", kind, name)
	return nil
}

func (p *networkParser) physical(m mapping) error {
	var l Link
	var err error
	if l.ID, err = m.scalar("name"); err != nil {
		return err
	}
	if l.Name, err = cardName(l.ID); err != nil {
		return err
	}
	for _, pair := range m.pairs {
		switch pair.key {
		case "type", "name":
		case "mac_address":
			l.MAC, err = pair.mac()
		case "mtu":
			l.MTU, err = pair.mtu()
		case "subnets":
			err = p.subnets(&l, pair)
		default:
			p.notTaken("%s.%s", l.ID, pair.key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", pair.key, err)
		}
	}
	return p.add(l)
}

func (p *networkParser) subnets(l *Link, list pair) error {
	return list.each(func(item pair) error { return p.subnet(l, item) })
}

func (p *networkParser) subnet(l *Link, item pair) error {
	m, err := item.mapping()
	if err != nil {
		return err
	}
	kind, err := m.scalar("type")
	if err != nil {
		return err
	}
	switch kind {
	case "dhcp", "dhcp4":
		l.DHCP = true
	case "static", "static4", "static6":
		return p.static(l, m)
	case "manual":
	default:
		p.notTaken("%s: subnet of type %s", l.ID, kind)
	}
	for _, pair := range m.without("type").pairs {
		p.notTaken("%s.subnets.%s", l.ID, pair.key)
	}
	return nil
}

// static reads a subnet with an address.
func (p *networkParser) static(l *Link, m mapping) error {
	var address, mask string
	for _, pair := range m.pairs {
		var err error
		switch pair.key {
		case "type":
		case "address":
			address, err = pair.scalar()
		case "netmask":
			mask, err = pair.scalar()
		case "gateway":
			err = l.gateway(pair)
		case "dns_nameservers":
			err = p.nameservers(pair)
		case "dns_search":
			err = p.search(pair)
		case "routes":
			err = p.routes(l, pair)
		default:
			p.notTaken("%s.subnets.%s", l.ID, pair.key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", pair.key, err)
		}
	}
	if address != "" && !strings.Contains(address, "/") && mask != "" {
		bits := mask
		if ip := net.ParseIP(mask).To4(); ip != nil {
			ones, size := net.IPMask(ip).Size()
			if size == 0 {
				return fmt.Errorf("%+.64q is no netmask", mask)
			}
			bits = strconv.Itoa(ones)
		}
		address += "/" + bits
	}
	return l.address(address)
}
