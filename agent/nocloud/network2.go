package nocloud

import (
	"errors"
	"fmt"

	"gopkg.in/yaml.v3"
)

// version2 reads what netplan and cloud-init's "Networking config Version 2" have in common.
func (p *networkParser) version2(doc mapping) error {
	for _, pair := range doc.pairs {
		switch pair.key {
		case "version":
		case "ethernets":
			m, err := pair.mapping()
			if err != nil {
				return fmt.Errorf("ethernets: %w", err)
			}
			for _, e := range m.pairs {
				if err := p.ethernet(e); err != nil {
					return fmt.Errorf("%s: %w", named("ethernets.", e.key), err)
				}
			}
		default:
			p.notTaken("%s", pair.key)
		}
	}
	return nil
}

func (p *networkParser) ethernet(e pair) error {
	m, err := e.mapping()
	if err != nil {
		return err
	}
	// The name goes before those of all keys that are not taken, so it is bounded before it is used.
	l := Link{Name: e.key}
	if l.ID, err = text(e.key, maxText); err != nil {
		return err
	}
	for _, pair := range m.pairs {
		switch pair.key {
		case "match":
			err = p.match(&l, pair)
		case "dhcp4":
			l.DHCP, err = pair.boolean()
		case "dhcp6":
			var on bool
			if on, err = pair.boolean(); on {
				p.notTaken("%s.dhcp6", l.ID)
			}
		case "addresses":
			err = p.addresses(&l, pair)
		case "gateway4", "gateway6":
			err = l.gateway(pair)
		case "routes":
			err = p.routes(&l, pair)
		case "mtu":
			l.MTU, err = pair.mtu()
		case "nameservers":
			var m mapping
			if m, err = pair.mapping(); err == nil {
				err = p.resolver(m, "addresses", l.ID+".nameservers.")
			}
		default:
			p.notTaken("%s.%s", l.ID, pair.key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", pair.key, err)
		}
	}
	if l.Name, err = cardName(l.Name); err != nil {
		return err
	}
	return p.add(l)
}

func (p *networkParser) match(l *Link, match pair) error {
	m, err := match.mapping()
	if err != nil {
		return err
	}
	l.Name = ""
	for _, pair := range m.pairs {
		switch pair.key {
		case "macaddress":
			l.MAC, err = pair.mac()
		case "name":
			l.Name, err = pair.scalar()
		default:
			p.notTaken("%s.match.%s", l.ID, pair.key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", pair.key, err)
		}
	}
	if l.MAC == "" && l.Name == "" {
		return errors.New("it is to have macaddress or name")
	}
	return nil
}

func (p *networkParser) addresses(l *Link, list pair) error {
	return list.each(func(item pair) error {
		if item.value.Kind == yaml.MappingNode { // An address with options, such as a label.
			p.notTaken("%s: an address with options", l.ID)
			return nil
		}
		s, err := item.scalar()
		if err != nil {
			return err
		}
		return l.address(s)
	})
}
