package nic

import (
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"spore/agent/netnstest"
)

func TestACardIsAnEthernetDeviceThatNobodyMade(t *testing.T) {
	perm := []byte{0x52, 0x54, 0, 0x77, 0, 0x0b}
	attrs := func(change func(*netlink.LinkAttrs)) netlink.LinkAttrs {
		a := netlink.LinkAttrs{Index: 2, Name: "ens3", EncapType: "ether", PermHWAddr: perm, HardwareAddr: []byte{2, 0, 0, 0, 0, 1}, RawFlags: unix.IFF_UP | unix.IFF_LOWER_UP}
		change(&a)
		return a
	}
	same := func(*netlink.LinkAttrs) {}
	for name, tc := range map[string]struct {
		link      netlink.Link
		container bool
		want      string
	}{
		"a card is known by its permanent MAC":      {&netlink.Device{LinkAttrs: attrs(same)}, false, "52:54:00:77:00:0b"},
		"a bond is none":                            {&netlink.Bond{LinkAttrs: attrs(same)}, false, ""},
		"a VLAN is none":                            {&netlink.Vlan{LinkAttrs: attrs(same)}, false, ""},
		"a bridge is none":                          {&netlink.Bridge{LinkAttrs: attrs(same)}, false, ""},
		"a veth is none":                            {&netlink.Veth{LinkAttrs: attrs(same)}, false, ""},
		"a veth is one in a container":              {&netlink.Veth{LinkAttrs: attrs(same)}, true, "02:00:00:00:00:01"},
		"a device without permanent MAC is none":    {&netlink.Device{LinkAttrs: attrs(func(a *netlink.LinkAttrs) { a.PermHWAddr = nil })}, false, ""},
		"a loopback is none":                        {&netlink.Device{LinkAttrs: attrs(func(a *netlink.LinkAttrs) { a.RawFlags |= unix.IFF_LOOPBACK })}, false, ""},
		"InfiniBand is none":                        {&netlink.Device{LinkAttrs: attrs(func(a *netlink.LinkAttrs) { a.EncapType = "infiniband" })}, false, ""},
		"a permanent MAC of another length is none": {&netlink.Device{LinkAttrs: attrs(func(a *netlink.LinkAttrs) { a.PermHWAddr = make([]byte, 8) })}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, ok := card(tc.link, tc.container)
			require.Equal(t, tc.want != "", ok)
			if ok {
				require.Equal(t, tc.want, c.MAC)
				require.True(t, c.Up && c.Carrier)
			}
		})
	}
}

func TestCardsAndAddressesOfARealNamespace(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		index, _ := netnstest.Veth(t, "host0", "02:00:00:00:00:01", "far0", "02:00:00:00:00:02")
		cards, err := List(filepath.Join(t.TempDir(), "no-container"))
		require.NoError(t, err)
		require.Empty(t, cards)
		cards, err = List(t.TempDir())
		require.NoError(t, err)
		require.Len(t, cards, 2)
		c, ok := ByMAC(cards, "02:00:00:00:00:01")
		require.True(t, ok)
		require.Equal(t, Card{Index: index, Name: "host0", MAC: "02:00:00:00:00:01", Up: true, Carrier: true}, c)

		done := make(chan struct{})
		defer close(done)
		changes, err := Changes(done)
		require.NoError(t, err)
		netnstest.Address(t, "host0", "10.77.0.11/24")
		select {
		case <-changes:
		case <-time.After(5 * time.Second):
			t.Fatal("a new address is no change")
		}
		have, err := Addresses()
		require.NoError(t, err)
		require.Equal(t, []netip.Addr{netip.MustParseAddr("10.77.0.11")}, have)
		netnstest.Veth(t, "vxlan.calico", "02:00:00:00:00:03", "cali0", "02:00:00:00:00:04")
		netnstest.Address(t, "vxlan.calico", "10.78.0.1/32")
		have, err = Addresses()
		require.NoError(t, err)
		require.Equal(t, []netip.Addr{netip.MustParseAddr("10.77.0.11")}, have, "the tunnel of pods has no address of the node")
		require.NoError(t, SetUp(index))
		require.ErrorContains(t, SetUp(9999), "index 9999")
	})
}
