package network

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/spec"
)

const (
	macA = "52:54:00:77:00:0b"
	macB = "52:54:00:77:00:0c"
)

func TestInterfacesOfPodsAreLeftToCalico(t *testing.T) {
	for name, files := range map[string]Files{
		"a node with DHCP":             ForNode(nil, Options{Pods: true}),
		"a node with a static address": ForNode([]spec.Interface{{MAC: macA, Addresses: []string{"10.77.0.11/24"}}}, Options{Pods: true}),
	} {
		require.Len(t, files, 3, name)
		require.Equal(t, "[Match]\nName=cali* vxlan.calico vxlan-v6.calico\n\n[Link]\nUnmanaged=yes\n", files["10-spore-interfaces-of-pods.network"], name)
		require.Equal(t, "[Match]\nOriginalName=cali* vxlan.calico vxlan-v6.calico\n\n[Link]\nNamePolicy=keep\nMACAddressPolicy=none\n", files["10-spore-interfaces-of-pods.link"], name)
	}
	require.NotContains(t, ForNode(nil, Options{}), "10-spore-interfaces-of-pods.network")
}

func TestForNode(t *testing.T) {
	for name, tc := range map[string]struct {
		interfaces []spec.Interface
		options    Options
		want       Files
	}{
		"no interfaces are DHCP on every card": {
			nil, Options{AskNTP: true, SendHostname: true},
			Files{"10-spore-dhcp.network": "# Every card: an Ethernet interface that nobody made.\n[Match]\nType=ether\nKind=!*\n\n[Network]\nDHCP=ipv4\n\n[DHCPv4]\nClientIdentifier=mac\nUseHostname=no\nSendHostname=yes\nUseNTP=yes\n"},
		},
		"a static address is matched by the permanent MAC": {
			[]spec.Interface{{MAC: macA, Addresses: []string{"10.77.0.11/24", "fd00::11/64"}, Gateways: []string{"10.77.0.1"}, MTU: 9000}}, Options{},
			Files{"10-spore-52540077000b.network": "[Match]\nPermanentMACAddress=" + macA + "\n\n[Link]\nMTUBytes=9000\n\n[Network]\nIPv6AcceptRA=no\nGateway=10.77.0.1\n\n[Address]\nAddress=10.77.0.11/24\n\n[Address]\nAddress=fd00::11/64\n"},
		},
		"a card without permanent MAC is matched by the current one": {
			[]spec.Interface{{MAC: macA, Addresses: []string{"10.77.0.11/24"}}}, Options{Current: map[string]bool{macA: true}},
			Files{"10-spore-52540077000b.network": "[Match]\nMACAddress=" + macA + "\n\n[Network]\nIPv6AcceptRA=no\n\n[Address]\nAddress=10.77.0.11/24\n"},
		},
		"an address that another machine has is left out, and with the last of its family the router": {
			[]spec.Interface{{MAC: macA, Addresses: []string{"10.77.0.11/24", "fd00::11/64"}, Gateways: []string{"10.77.0.1", "fd00::1"}}},
			Options{Withheld: map[netip.Addr]bool{netip.MustParseAddr("10.77.0.11"): true}},
			Files{"10-spore-52540077000b.network": "[Match]\nPermanentMACAddress=" + macA + "\n\n[Network]\nIPv6AcceptRA=no\nGateway=fd00::1\n\n[Address]\nAddress=fd00::11/64\n"},
		},
		"a bond has its first member's MAC and enslaves by MAC": {
			[]spec.Interface{{Name: "bond0", DHCP: true, MTU: 9000, Bond: &spec.Bond{Members: []string{macA, macB}, Mode: "802.3ad"}}}, Options{},
			Files{
				"10-spore-bond0.netdev":         "[NetDev]\nName=bond0\nKind=bond\nMACAddress=" + macA + "\n\n[Bond]\nMode=802.3ad\nMIIMonitorSec=100ms\n",
				"10-spore-bond0.network":        "[Match]\nName=bond0\n\n[Link]\nMTUBytes=9000\n\n[Network]\nDHCP=ipv4\n\n[DHCPv4]\nClientIdentifier=mac\nUseHostname=no\nSendHostname=no\nUseNTP=no\n",
				"10-spore-52540077000b.network": "[Match]\nPermanentMACAddress=" + macA + "\n\n[Link]\nMTUBytes=9000\n\n[Network]\nBond=bond0\nLinkLocalAddressing=no\n",
				"10-spore-52540077000c.network": "[Match]\nPermanentMACAddress=" + macB + "\n\n[Link]\nMTUBytes=9000\n\n[Network]\nBond=bond0\nLinkLocalAddressing=no\n",
			},
		},
		"a VLAN on a card that has nothing else": {
			[]spec.Interface{{Name: "vlan7", Addresses: []string{"10.7.0.2/24"}, VLAN: &spec.VLAN{ID: 7, Parent: macA}}}, Options{},
			Files{
				"10-spore-vlan7.netdev":         "[NetDev]\nName=vlan7\nKind=vlan\n\n[VLAN]\nId=7\n",
				"10-spore-vlan7.network":        "[Match]\nName=vlan7\n\n[Network]\nIPv6AcceptRA=no\n\n[Address]\nAddress=10.7.0.2/24\nDuplicateAddressDetection=both\n",
				"10-spore-52540077000b.network": "# Carries VLANs and has no address of its own.\n[Match]\nPermanentMACAddress=" + macA + "\n\n[Network]\nIPv6AcceptRA=no\nLinkLocalAddressing=no\nVLAN=vlan7\n",
			},
		},
		"two VLANs on a bond": {
			[]spec.Interface{
				{Name: "bond0", Bond: &spec.Bond{Members: []string{macA}}},
				{Name: "v1", DHCP: true, VLAN: &spec.VLAN{ID: 1, Parent: "bond0"}}, {Name: "v2", VLAN: &spec.VLAN{ID: 2, Parent: "bond0"}},
			}, Options{},
			Files{
				"10-spore-bond0.netdev":         "[NetDev]\nName=bond0\nKind=bond\nMACAddress=" + macA + "\n\n[Bond]\nMode=active-backup\nMIIMonitorSec=100ms\n",
				"10-spore-bond0.network":        "[Match]\nName=bond0\n\n[Network]\nIPv6AcceptRA=no\nLinkLocalAddressing=no\nVLAN=v1\nVLAN=v2\n",
				"10-spore-52540077000b.network": "[Match]\nPermanentMACAddress=" + macA + "\n\n[Network]\nBond=bond0\nLinkLocalAddressing=no\n",
				"10-spore-v1.netdev":            "[NetDev]\nName=v1\nKind=vlan\n\n[VLAN]\nId=1\n",
				"10-spore-v1.network":           "[Match]\nName=v1\n\n[Network]\nDHCP=ipv4\n\n[DHCPv4]\nClientIdentifier=mac\nUseHostname=no\nSendHostname=no\nUseNTP=no\n",
				"10-spore-v2.netdev":            "[NetDev]\nName=v2\nKind=vlan\n\n[VLAN]\nId=2\n",
				"10-spore-v2.network":           "[Match]\nName=v2\n\n[Network]\nIPv6AcceptRA=no\nLinkLocalAddressing=no\n",
			},
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, ForNode(tc.interfaces, tc.options)) })
	}
}

func TestAContainersInterfaceIsMatchedByName(t *testing.T) {
	f := Everywhere(Options{Current: map[string]bool{macA: true}})
	require.Contains(t, f["10-spore-container.network"], "Virtualization=container\nName=host0\n")
}

func TestWriteRemovesWhatAnEarlierIdentityLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "network")
	changed, err := Write(dir, Files{"10-spore-a.network": "a", "10-spore-b.network": "b"})
	require.NoError(t, err)
	require.True(t, changed)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "99-default.link"), nil, 0o644))
	changed, err = Write(dir, Files{"10-spore-a.network": "a"})
	require.NoError(t, err)
	require.True(t, changed)
	changed, err = Write(dir, Files{"10-spore-a.network": "a"})
	require.NoError(t, err)
	require.False(t, changed, "the same again is no reason to reload networkd")
	left, err := filepath.Glob(dir + "/*")
	require.NoError(t, err)
	require.Equal(t, []string{dir + "/10-spore-a.network", dir + "/99-default.link"}, left)
}
