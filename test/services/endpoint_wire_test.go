//go:build e2e

package services

import (
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/stretchr/testify/require"
)

// capture writes what is seen on an interface into a file of pcap.
type capture struct {
	handle *pcapgo.EthernetHandle
	file   *os.File
	done   chan error
}

func record(t *testing.T, card, path string) *capture {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	w := pcapgo.NewWriter(f)
	require.NoError(t, w.WriteFileHeader(65536, layers.LinkTypeEthernet))
	h, err := pcapgo.NewEthernetHandle(card)
	require.NoError(t, err)
	require.NoError(t, h.SetPromiscuous(true))
	c := &capture{h, f, make(chan error, 1)}
	go func() {
		for {
			data, info, err := h.ReadPacketData()
			if err != nil {
				c.done <- nil // closed
				return
			}
			if err := w.WritePacket(info, data); err != nil {
				c.done <- err
				return
			}
		}
	}()
	t.Cleanup(func() { f.Close() })
	return c
}

// move is an announcement of the virtual address that was seen on the wire.
type move struct {
	at  time.Time
	mac string
}

// announcements are those of the virtual address that the wire has: who announced it, in order.
func (l *endpoints) announcements() []move { return l.moves(announced) }

// claims are all packets by which a machine says that it has the virtual address: announcements and answers.
func (l *endpoints) claims() []move { return l.moves(claimed) }

// moves reads the file of pcap.
func (l *endpoints) moves(of func(gopacket.Packet, netip.Addr) (mac string, ok bool)) []move {
	l.t.Helper()
	f, err := os.Open(l.pcap)
	require.NoError(l.t, err)
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	require.NoError(l.t, err)
	var out []move
	for {
		data, info, err := r.ReadPacketData()
		if err != nil {
			return out // its end, or a packet that is being written
		}
		if mac, ok := of(gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Default), l.vip); ok {
			out = append(out, move{info.Timestamp, mac})
		}
	}
}

// announced is the MAC that a packet gives for an address, to everybody.
func announced(p gopacket.Packet, ip netip.Addr) (string, bool) {
	eth, ok := p.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
	if !ok || eth.DstMAC[0]&1 == 0 {
		return "", false
	}
	if a, ok := p.Layer(layers.LayerTypeARP).(*layers.ARP); ok {
		same := string(a.SourceProtAddress) == string(ip.AsSlice()) && string(a.DstProtAddress) == string(ip.AsSlice())
		return net.HardwareAddr(a.SourceHwAddress).String(), same
	}
	if a, ok := p.Layer(layers.LayerTypeICMPv6NeighborAdvertisement).(*layers.ICMPv6NeighborAdvertisement); ok && a.TargetAddress.Equal(ip.AsSlice()) {
		for _, o := range a.Options {
			if o.Type == layers.ICMPv6OptTargetAddress {
				return net.HardwareAddr(o.Data).String(), true
			}
		}
	}
	return "", false
}

// claimed is the MAC that a packet gives for an address, to whomever.
func claimed(p gopacket.Packet, ip netip.Addr) (string, bool) {
	eth, ok := p.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
	if !ok {
		return "", false
	}
	if a, ok := p.Layer(layers.LayerTypeARP).(*layers.ARP); ok {
		return net.HardwareAddr(a.SourceHwAddress).String(), string(a.SourceProtAddress) == string(ip.AsSlice())
	}
	a, ok := p.Layer(layers.LayerTypeICMPv6NeighborAdvertisement).(*layers.ICMPv6NeighborAdvertisement)
	return eth.SrcMAC.String(), ok && a.TargetAddress.Equal(ip.AsSlice())
}

// announcedSince waits for an announcement by a master after a time.
func (l *endpoints) announcedSince(since time.Time, m *endpointMaster) time.Duration {
	l.t.Helper()
	for range 100 {
		for _, a := range l.announcements() {
			if a.at.After(since) && a.mac == m.mac {
				return a.at.Sub(since)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	require.FailNow(l.t, "the wire has no announcement", "by %s", m.name)
	return 0
}
