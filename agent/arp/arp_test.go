package arp

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"spore/agent/netnstest"
)

var (
	ours   = [6]byte{2, 0, 0, 0, 0, 1}
	theirs = [6]byte{2, 0, 0, 0, 0, 2}
	ip     = netip.MustParseAddr("10.77.0.11")
	other  = netip.MustParseAddr("10.77.0.12")
	zero   = netip.IPv4Unspecified()
)

func TestFramesAreWhatGopacketMakesAndReads(t *testing.T) {
	p := Probe(ours, ip)
	parsed := gopacket.NewPacket(p.Frame(), layers.LayerTypeEthernet, gopacket.Default)
	require.Nil(t, parsed.ErrorLayer())
	eth := parsed.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
	require.Equal(t, "ff:ff:ff:ff:ff:ff", eth.DstMAC.String())
	require.Equal(t, "02:00:00:00:00:01", eth.SrcMAC.String())
	a := parsed.Layer(layers.LayerTypeARP).(*layers.ARP)
	require.EqualValues(t, layers.ARPRequest, a.Operation)
	require.Equal(t, []byte{0, 0, 0, 0}, a.SourceProtAddress, "a probe has no sender address (RFC 5227, section 1.1)")
	require.Equal(t, ip.AsSlice(), a.DstProtAddress)
	require.Equal(t, make([]byte, 6), a.DstHwAddress)

	buf := gopacket.NewSerializeBuffer()
	require.NoError(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{}, eth, a))
	require.Equal(t, buf.Bytes(), p.Frame())
	back, err := Parse(buf.Bytes())
	require.NoError(t, err)
	require.Equal(t, p, back)
}

func TestConflict(t *testing.T) {
	for name, tc := range map[string]struct {
		p    Packet
		want bool
	}{
		"an answer with the address":                 {Packet{Op: Reply, SenderMAC: theirs, SenderIP: ip, TargetMAC: ours}, true},
		"an announcement of the address":             {Packet{Op: Request, SenderMAC: theirs, SenderIP: ip, TargetIP: ip}, true},
		"another machine's probe for it":             {Packet{Op: Request, SenderMAC: theirs, SenderIP: zero, TargetIP: ip}, true},
		"our own probe, seen again":                  {Packet{Op: Request, SenderMAC: ours, SenderIP: zero, TargetIP: ip}, false},
		"a question for it by somebody with another": {Packet{Op: Request, SenderMAC: theirs, SenderIP: other, TargetIP: ip}, false},
		"a probe for another address":                {Packet{Op: Request, SenderMAC: theirs, SenderIP: zero, TargetIP: other}, false},
		"an answer about another address":            {Packet{Op: Reply, SenderMAC: theirs, SenderIP: other, TargetIP: ip}, false},
		"an answer without sender that targets it":   {Packet{Op: Reply, SenderMAC: theirs, SenderIP: zero, TargetIP: ip}, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, Conflict(tc.p, ours, ip)) })
	}
}

func TestProbingARealLink(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		index, _ := netnstest.Veth(t, "host0", "02:00:00:00:00:01", "far0", "02:00:00:00:00:02")
		netnstest.Address(t, "far0", "10.77.0.11/24")
		check := func(a netip.Addr) Check { return Check{IP: a, Index: index, MAC: "02:00:00:00:00:01"} }
		start := time.Now()
		used, err := Run(context.Background(), []Check{check(ip), check(other), {IP: ip, Index: 9999, MAC: "02:00:00:00:00:01"}}, Scaled)
		require.ErrorContains(t, err, "probe 10.77.0.11")
		require.Equal(t, []Used{{IP: ip, MAC: "02:00:00:00:00:02", Card: "02:00:00:00:00:01"}}, used)
		require.Less(t, time.Since(start), 3*time.Second)
	})
}

func TestOfTwoMachinesThatProbeAtOnceNeitherTakesTheAddress(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		index, far := netnstest.Veth(t, "host0", "02:00:00:00:00:01", "far0", "02:00:00:00:00:02")
		used, err := Run(context.Background(), []Check{{other, index, "02:00:00:00:00:01"}, {other, far, "02:00:00:00:00:02"}}, Scaled)
		require.NoError(t, err)
		require.NotEmpty(t, used)
	})
}

func FuzzParse(f *testing.F) {
	f.Add(Probe(ours, ip).Frame())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, frame []byte) {
		p, err := Parse(frame)
		if err != nil {
			return
		}
		again, err := Parse(p.Frame())
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}
