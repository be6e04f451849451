package dhcp

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"
)

var mac = [6]byte{0x52, 0x54, 0, 0x12, 0x34, 0x56}

// answer is a server's message with options, by gopacket: a second opinion.
func answer(t testing.TB, kind layers.DHCPMsgType, change func(*layers.DHCPv4), options ...layers.DHCPOption) []byte {
	d := &layers.DHCPv4{
		Operation: layers.DHCPOpReply, HardwareType: layers.LinkTypeEthernet, HardwareLen: 6, Xid: 7, ClientHWAddr: mac[:],
		YourClientIP: []byte{10, 0, 0, 9},
		Options: append(layers.DHCPOptions{
			layers.NewDHCPOption(layers.DHCPOptMessageType, []byte{byte(kind)}), layers.NewDHCPOption(layers.DHCPOptServerID, []byte{10, 0, 0, 1}),
		}, options...),
	}
	if change != nil {
		change(d)
	}
	b := gopacket.NewSerializeBuffer()
	require.NoError(t, d.SerializeTo(b, gopacket.SerializeOptions{FixLengths: true}))
	return bytes.Clone(b.Bytes())
}

func opt(code byte, data string) layers.DHCPOption {
	return layers.NewDHCPOption(layers.DHCPOpt(code), []byte(data))
}

func TestOurMessagesAreThoseOfAnHTTPClient(t *testing.T) {
	id := identity{xid: 7, mac: mac, uuid: bytes.Repeat([]byte{0xab}, 16)}
	for kind, raw := range map[byte][]byte{
		discover: id.message(discover, netip.Addr{}, id.boot()),
		request:  id.message(request, netip.Addr{}, option(optServer, netip.MustParseAddr("10.0.0.1")), option(optAddress, netip.MustParseAddr("10.0.0.9")), id.boot()),
		release:  id.message(release, netip.MustParseAddr("10.0.0.9"), option(optServer, netip.MustParseAddr("10.0.0.1"))),
	} {
		require.GreaterOrEqual(t, len(raw), minMessage)
		var d layers.DHCPv4
		require.NoError(t, d.DecodeFromBytes(raw, gopacket.NilDecodeFeedback))
		require.Equal(t, layers.DHCPOpRequest, d.Operation)
		require.Equal(t, uint32(7), d.Xid)
		require.Equal(t, mac[:], []byte(d.ClientHWAddr))
		have := map[layers.DHCPOpt]string{}
		for _, o := range d.Options {
			have[o.Type] = string(o.Data)
		}
		require.Equal(t, string(kind), have[layers.DHCPOptMessageType])
		if kind == release {
			require.Zero(t, d.Flags)
			require.Equal(t, "10.0.0.9", d.ClientIP.String())
			continue
		}
		require.Equal(t, uint16(1<<15), d.Flags, "an answer to the address itself would be dropped")
		require.Equal(t, Class, have[layers.DHCPOptClassID])
		require.Equal(t, "\x00\x10", have[optArch])
		require.Equal(t, "\x01\x03\x01", have[optInterface])
		require.Equal(t, "\x00"+string(id.uuid), have[optMachine])
		require.Contains(t, have[layers.DHCPOptParamsRequest], string([]byte{optBootFile}))
	}
	require.NotContains(t, string(identity{}.boot()), string([]byte{optMachine, 17}), "a machine without a good UUID sends none")
}

func TestAnswersAreRead(t *testing.T) {
	url := "http://10.0.0.2:8080/spore.efi"
	r, err := Parse(answer(t, layers.DHCPMsgTypeOffer, nil, opt(1, "\xff\xff\xfc\x00"), opt(3, "\x0a\x00\x00\xfe"), opt(6, "\x0a\x00\x00\x35\x0a\x00\x00\x36"),
		opt(15, "example.org"), opt(60, "HTTPClient"), opt(67, url+"\x00")))
	require.NoError(t, err)
	require.Equal(t, Reply{
		kind: offer, xid: 7, mac: mac, Server: netip.MustParseAddr("10.0.0.1"), Address: netip.MustParseAddr("10.0.0.9"), Bits: 22,
		Routers: []netip.Addr{netip.MustParseAddr("10.0.0.254")}, DNS: []netip.Addr{netip.MustParseAddr("10.0.0.53"), netip.MustParseAddr("10.0.0.54")},
		Domain: "example.org", Class: "HTTPClient", BootFile: url,
	}, r)
	require.Equal(t, url, r.URL())
	require.Equal(t, "10.0.0.9 and http://10.0.0.2:8080/spore.efi from 10.0.0.1", r.String())

	r, err = Parse(answer(t, layers.DHCPMsgTypeOffer, func(d *layers.DHCPv4) { d.YourClientIP = nil; d.File = []byte(url) }))
	require.NoError(t, err, "a proxy")
	require.Equal(t, "no address and "+url+" from 10.0.0.1", r.String())

	r, err = Parse(answer(t, layers.DHCPMsgTypeOffer, nil, opt(67, "pxelinux.0")))
	require.NoError(t, err)
	require.Empty(t, r.URL())
	require.Equal(t, 8, r.Bits, "that of its class")
	require.Contains(t, r.String(), `the boot file "pxelinux.0", which is no http:// URL`)

	r, err = Parse(answer(t, layers.DHCPMsgTypeNak, nil, opt(56, "no such subnet")))
	require.NoError(t, err)
	require.Equal(t, "a refusal no such subnet from 10.0.0.1", r.String())

	r, err = Parse(answer(t, layers.DHCPMsgTypeOffer, nil, opt(67, "http://10.0.0.2/a/lo"), opt(67, "ng/name")))
	require.NoError(t, err)
	require.Equal(t, "http://10.0.0.2/a/long/name", r.URL(), "an option in pieces is joined")

	r, err = Parse(answer(t, layers.DHCPMsgTypeOffer, func(d *layers.DHCPv4) { d.File = append([]byte{67, byte(len(url))}, url+"\xff"...) }, opt(52, "\x01")))
	require.NoError(t, err)
	require.Equal(t, url, r.URL(), "options in the field of the file's name")
	r, err = Parse(answer(t, layers.DHCPMsgTypeOffer, func(d *layers.DHCPv4) { d.ServerName = append([]byte{67, byte(len(url))}, url+"\xff"...) }, opt(52, "\x03")))
	require.NoError(t, err)
	require.Equal(t, url, r.URL(), "and of the server's")
}

func TestWhatIsNoAnswerIsRefused(t *testing.T) {
	good := answer(t, layers.DHCPMsgTypeOffer, nil)
	set := func(at int, v byte) []byte { b := bytes.Clone(good); b[at] = v; return b }
	for name, b := range map[string][]byte{
		"nothing": nil, "short": good[:200], "no cookie": set(headerSize, 0), "a client's": set(0, 1), "token ring": set(1, 6), "a long address": set(2, 16),
		"huge":                   make([]byte, maxMessage+1),
		"of no type":             append(bytes.Clone(good[:headerSize+4]), 255),
		"a discover":             answer(t, layers.DHCPMsgTypeDiscover, nil),
		"without a server":       append(bytes.Clone(good[:headerSize+4]), 53, 1, 2, 255),
		"with a cut option":      append(bytes.Clone(good[:headerSize+4]), 53, 1, 2, 54, 4, 10),
		"with a half option":     append(bytes.Clone(good[:headerSize+4]), 53),
		"with holes in its mask": answer(t, layers.DHCPMsgTypeOffer, nil, opt(1, "\xff\x00\xff\x00")),
		"with an empty mask":     answer(t, layers.DHCPMsgTypeOffer, nil, opt(1, "\x00\x00\x00\x00")),
		"with a short mask":      answer(t, layers.DHCPMsgTypeOffer, nil, opt(1, "\xff\xff")),
		"of no server":           answer(t, layers.DHCPMsgTypeOffer, func(d *layers.DHCPv4) { d.Options[1] = opt(54, "\x7f\x00\x00\x01") }),
	} {
		_, err := Parse(b)
		require.Error(t, err, name)
	}
	r, err := Parse(answer(t, layers.DHCPMsgTypeOffer, func(d *layers.DHCPv4) { d.YourClientIP = []byte{224, 0, 0, 1} }, opt(67, "http://a/\x1b[2J"), opt(15, "\n")))
	require.NoError(t, err)
	require.False(t, r.Address.IsValid())
	require.Empty(t, r.BootFile, "nothing that a console would act on")
	require.Empty(t, r.Domain)
}

func FuzzParse(f *testing.F) {
	f.Add(answer(f, layers.DHCPMsgTypeOffer, nil, opt(1, "\xff\xff\xfc\x00"), opt(3, "\x0a\x00\x00\xfe"), opt(67, "http://10.0.0.2/x")))
	f.Add(answer(f, layers.DHCPMsgTypeAck, nil, opt(52, "\x03"), opt(6, "\x0a\x00\x00\xfe")))
	f.Add(answer(f, layers.DHCPMsgTypeNak, nil, opt(56, "no")))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			return
		}
		require.True(t, r.Server.Is4())
		require.True(t, r.Bits >= 0 && r.Bits <= 32)
		require.Equal(t, binary.BigEndian.Uint32(data[4:]), r.xid)
		require.LessOrEqual(t, len(r.Routers)+len(r.DNS), 16)
		for _, c := range []byte(r.String() + r.Domain + r.Class) {
			require.True(t, c >= 0x20 && c <= 0x7e, "it is shown on a console")
		}
	})
}
