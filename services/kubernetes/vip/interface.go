package vip

import (
	"fmt"
	"net"
	"net/netip"

	"spore/services/kubernetes/vip/address"
)

// Interface is the card of a node on which the virtual address belongs: whichever has the node's address in its subnet.
type Interface struct {
	// Address is the virtual address, Own are the node's.
	Address netip.Addr
	Own     []netip.Addr
	// Send announces an address; package announce has it.
	Send func(index int, mac net.HardwareAddr, ip netip.Addr) error
}

// Ready wants an interface with a carrier.
func (i *Interface) Ready() error {
	card, err := address.On(i.Address, i.Own)
	if err == nil && !card.Carrier {
		err = fmt.Errorf("%s has no carrier", card.Name)
	}
	return err
}

// Put puts the address on the interface.
func (i *Interface) Put(seconds int) error {
	card, err := address.On(i.Address, i.Own)
	if err != nil {
		return err
	}
	return address.Put(card.Index, i.Address, seconds)
}

// Remove takes the address off every interface.
func (i *Interface) Remove() (bool, error) { return address.Remove(i.Address) }

// Announce announces the address from the interface.
func (i *Interface) Announce() error {
	card, err := address.On(i.Address, i.Own)
	if err != nil {
		return err
	}
	return i.Send(card.Index, card.MAC, i.Address)
}
