package probe

import (
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"spore/agent/netnstest"
	"spore/agent/nodetest"
	"spore/agent/verbs"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// probe asks as an operator does; arguments are in turn: name, value.
func probe(t *testing.T, resolver string, dry bool, arguments ...string) (out []machine.Probe, done string, err error) {
	t.Helper()
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	require.NoError(t, os.MkdirAll(filepath.Dir(m.Root.At("/etc/resolv.conf")), 0o755))
	require.NoError(t, os.WriteFile(m.Root.At("/etc/resolv.conf"), []byte(resolver), 0o644))
	o := nodeapi.Order{Arguments: map[string]string{}, DryRun: dry}
	for i := 0; i < len(arguments); i += 2 {
		o.Arguments[arguments[i]] = arguments[i+1]
	}
	call, err := json.Marshal(verbs.Call{Verb: "probe", Order: o, Caller: "anna", Roles: []nodeapi.Role{nodeapi.Operator}})
	require.NoError(t, err)
	in, stay := io.Pipe()
	defer stay.Close()
	go func() { _, _ = stay.Write(append(call, '\n')) }()
	var text strings.Builder
	require.NoError(t, verbs.Serve(t.Context(), m, nodeapi.Looks, map[string]verbs.Handler{"probe": Run}, in, &text))
	done, err = nodeapi.ReadEvents(strings.NewReader(text.String()), func(e nodeapi.Event) error {
		var p machine.Probe
		require.NoError(t, json.Unmarshal(e.Result, &p))
		out = append(out, p)
		return nil
	})
	return out, done, err
}

func up(t *testing.T) {
	l, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(l))
}

func TestPing(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		up(t)
		for _, to := range []string{"127.0.0.1", "::1"} {
			out, done, err := probe(t, "", false, "kind", "ping", "target", to, "count", "2")
			require.NoError(t, err)
			require.Contains(t, done, "2 of 2 were answered, in ")
			require.Len(t, out, 2)
			require.Equal(t, to, out[1].To)
			require.Equal(t, 2, out[1].Number)
			require.Equal(t, "64 bytes", out[1].Answer)
			require.Positive(t, out[1].Milliseconds)
		}
		out, done, err := probe(t, "", false, "kind", "ping", "target", "10.77.0.1", "count", "1")
		require.NoError(t, err)
		require.Equal(t, "0 of 1 were answered", done)
		require.Contains(t, out[0].Problem, "network is unreachable")
		netnstest.Veth(t, "near", "02:00:00:00:00:01", "far", "02:00:00:00:00:02")
		netnstest.Address(t, "near", "10.77.0.2/24")
		out, _, err = probe(t, "", false, "kind", "ping", "target", "10.77.0.1", "count", "1")
		require.NoError(t, err)
		require.Equal(t, "no answer within 2s", out[0].Problem)
	})
}

func TestWhatAMessageOfICMPSays(t *testing.T) {
	made := func(m icmp.Message) []byte {
		data, err := m.Marshal(nil)
		require.NoError(t, err)
		return data
	}
	echo := &icmp.Echo{ID: 7, Seq: 3, Data: make([]byte, 56)}
	request := made(icmp.Message{Type: ipv4.ICMPTypeEcho, Body: echo})
	packet := append(append([]byte{0x45}, make([]byte, 19)...), request...)
	long := append(append([]byte{0x46}, make([]byte, 23)...), request...)
	six := append(make([]byte, 40), made(icmp.Message{Type: ipv6.ICMPTypeEchoRequest, Body: echo})...)
	for name, tc := range map[string]struct {
		data    []byte
		six     bool
		problem string
		ours    bool
	}{
		"the reply":                   {made(icmp.Message{Type: ipv4.ICMPTypeEchoReply, Body: echo}), false, "", true},
		"of IPv6":                     {made(icmp.Message{Type: ipv6.ICMPTypeEchoReply, Body: echo}), true, "", true},
		"another program's":           {made(icmp.Message{Type: ipv4.ICMPTypeEchoReply, Body: &icmp.Echo{ID: 8, Seq: 3}}), false, "", false},
		"an earlier one":              {made(icmp.Message{Type: ipv4.ICMPTypeEchoReply, Body: &icmp.Echo{ID: 7, Seq: 2}}), false, "", false},
		"the request itself":          {request, false, "", false},
		"unreachable":                 {made(icmp.Message{Type: ipv4.ICMPTypeDestinationUnreachable, Code: 1, Body: &icmp.DstUnreach{Data: packet}}), false, "destination unreachable (code 1)", true},
		"unreachable, with options":   {made(icmp.Message{Type: ipv4.ICMPTypeDestinationUnreachable, Code: 3, Body: &icmp.DstUnreach{Data: long}}), false, "destination unreachable (code 3)", true},
		"unreachable by IPv6":         {made(icmp.Message{Type: ipv6.ICMPTypeDestinationUnreachable, Body: &icmp.DstUnreach{Data: six}}), true, "destination unreachable (code 0)", true},
		"too many hops":               {made(icmp.Message{Type: ipv4.ICMPTypeTimeExceeded, Body: &icmp.TimeExceeded{Data: packet}}), false, "time exceeded (code 0)", true},
		"of nothing that can be read": {made(icmp.Message{Type: ipv4.ICMPTypeDestinationUnreachable, Body: &icmp.DstUnreach{Data: packet[:20]}}), false, "destination unreachable (code 0)", false},
		"nothing":                     {nil, false, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, problem, ours := parseReply(tc.data, tc.six, 7, 3)
			require.Equal(t, tc.ours, ours)
			if ours {
				require.Equal(t, tc.problem, problem)
			}
		})
	}
}

func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := l.Addr().String()
	out, done, err := probe(t, "", false, "kind", "tcp", "target", at, "count", "1")
	require.NoError(t, err)
	require.Contains(t, done, "1 of 1 were answered")
	require.Equal(t, at, out[0].To)
	require.Contains(t, out[0].Answer, "connected from 127.0.0.1:")
	require.NoError(t, l.Close())
	out, _, err = probe(t, "", false, "kind", "tcp", "target", at, "count", "2")
	require.NoError(t, err)
	require.Len(t, out, 2)
	require.Contains(t, out[0].Problem, "connection refused")
	for _, bad := range []string{"127.0.0.1", "127.0.0.1:0", "127.0.0.1:http", ":80"} {
		_, _, err = probe(t, "", false, "kind", "tcp", "target", bad)
		require.ErrorContains(t, err, "is not HOST:PORT")
	}
	_, done, err = probe(t, "", true, "kind", "tcp", "target", at)
	require.NoError(t, err)
	require.Equal(t, "would probe "+at+" by tcp 4 times", done)
}

// nameServer answers questions for plant.example; for large.example by TCP alone.
func nameServer(t *testing.T, at string) {
	udp, err := net.ListenPacket("udp", at)
	require.NoError(t, err)
	t.Cleanup(func() { _ = udp.Close() })
	tcp, err := net.Listen("tcp", at)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tcp.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = udp.WriteTo([]byte("nonsense"), from) // That does not keep the answer from being found.
			_, _ = udp.WriteTo(answer(t, buf[:n], true), from)
		}
	}()
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			buf, _ := receive(c, "tcp")
			data := answer(t, buf, false)
			_, _ = c.Write(append([]byte{byte(len(data) >> 8), byte(len(data))}, data...))
			_ = c.Close()
		}
	}()
}

func answer(t *testing.T, query []byte, datagram bool) []byte {
	var m dnsmessage.Message
	require.NoError(t, m.Unpack(query))
	q := m.Questions[0]
	m.Response = true
	h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60}
	switch name := q.Name.String(); {
	case name == "large.example." && datagram:
		m.Truncated = true
	case name == "missing.example.":
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		other := h
		other.Type = dnsmessage.TypeCNAME
		m.Answers = []dnsmessage.Resource{
			{Header: other, Body: &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName("other.example.")}},
			{Header: h, Body: &dnsmessage.AResource{A: netip.MustParseAddr("10.0.0.7").As4()}},
		}
	}
	data, err := m.Pack()
	require.NoError(t, err)
	return data
}

func TestDNS(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		up(t)
		nameServer(t, "127.0.0.1:53")
		out, done, err := probe(t, "nameserver 127.0.0.1\nnameserver 127.0.0.2\n", false, "kind", "dns", "target", "plant.example", "count", "1")
		require.NoError(t, err)
		require.Contains(t, done, "2 of 4 were answered")
		require.Equal(t, "127.0.0.1:53 A", out[0].To)
		require.Equal(t, "is called other.example., 10.0.0.7", out[0].Answer)
		require.Equal(t, "127.0.0.1:53 AAAA", out[1].To)
		require.Equal(t, "no such record", out[1].Answer)
		require.Equal(t, "127.0.0.2:53 A", out[2].To)
		require.Contains(t, out[2].Problem, "connection refused")
		out, _, err = probe(t, "", false, "kind", "dns", "target", "large.example.", "server", "127.0.0.1", "count", "1")
		require.NoError(t, err)
		require.Equal(t, "is called other.example., 10.0.0.7", out[0].Answer, "by TCP")
		out, _, err = probe(t, "", false, "kind", "dns", "target", "missing.example", "server", "127.0.0.1", "count", "1")
		require.NoError(t, err)
		require.Equal(t, "the server says NameError", out[0].Problem)
		_, _, err = probe(t, "", false, "kind", "dns", "target", "plant.example")
		require.ErrorContains(t, err, "this node has no DNS server; name one")
	})
}

func FuzzParseReply(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 7, 0, 3}, false)
	f.Add([]byte{3, 1, 0, 0, 0, 0, 0, 0, 0x45}, false)
	f.Fuzz(func(t *testing.T, data []byte, six bool) {
		parseReply(data, six, 7, 3)
		quotes(data, six, 7, 3)
		q := question{name: dnsmessage.MustNewName("a."), kind: dnsmessage.TypeA}
		if text, more, ours, err := q.parse(data, 1); err == nil {
			require.True(t, ours)
			require.True(t, more || text != "")
		}
	})
}
