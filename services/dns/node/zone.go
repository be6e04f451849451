package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"spore/services/rendering"
)

// record is one resource record but for TTL and class.
type record struct {
	name, kind, data string
}

// zone is a zone file in the making.
type zone struct {
	origin string // lower case, with the final dot
	// servers are the names of its name servers.
	servers []string
	ttl     int
	records map[record]bool
	// count is the number of records of each name.
	count map[string]int
}

func newZone(origin string, servers []string, ttl int) *zone {
	return &zone{origin: rendering.Absolute(origin, ""), servers: servers, ttl: ttl, records: map[record]bool{}, count: map[string]int{}}
}

// address adds an A or AAAA record.
func (z *zone) address(name string, a netip.Addr) {
	kind := "AAAA"
	if a.Unmap().Is4() {
		kind = "A"
	}
	z.add(record{name, kind, a.Unmap().String()})
}

func (z *zone) add(r record) {
	if !z.records[r] {
		z.records[r] = true
		z.count[r.name]++
	}
}

// has reports whether the zone has any record of the name.
func (z *zone) has(name string) bool { return z.count[name] > 0 }

// checkAliases finds a CNAME beside another record of its name.
func (z *zone) checkAliases() error {
	var bad []string
	for r := range z.records {
		if r.kind == "CNAME" && z.count[r.name] > 1 {
			bad = append(bad, r.name)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	slices.Sort(bad)
	return fmt.Errorf("records of dns.yaml: the alias %s cannot stand beside another record of the name (RFC 1034, 3.6.2)", bad[0])
}

// file is the zone file (RFC 1035, 5). The serial is made of the content: the same data gives the same serial on every
// server. Nobody transfers these zones, so that it need not grow.
func (z *zone) file() []byte {
	lines := make([]string, 0, len(z.records))
	for r := range z.records {
		lines = append(lines, fmt.Sprintf("%s IN %s %s\n", r.name, r.kind, r.data))
	}
	slices.Sort(lines)
	for _, s := range z.servers {
		lines = append(lines, fmt.Sprintf("%s IN NS %s\n", z.origin, s))
	}
	body := strings.Join(lines, "")
	sum := sha256.Sum256([]byte(body))
	serial := binary.BigEndian.Uint32(sum[:])

	var b bytes.Buffer
	b.WriteString("; Rendered by spore-agent; made again at each start.\n")
	fmt.Fprintf(&b, "$TTL %d\n", z.ttl)
	fmt.Fprintf(&b, "%s IN SOA %s hostmaster.%s %d 7200 1800 86400 %d\n", z.origin, z.servers[0], z.origin, serial, z.ttl)
	b.WriteString(body)
	return b.Bytes()
}

// reverseZones are the zones below in-addr.arpa or ip6.arpa that cover a subnet: at the next octet or nibble boundary, so
// that nothing outside the subnet is answered for. An IPv4 prefix longer than /24 gets the whole /24.
func reverseZones(p netip.Prefix) []string {
	step, longest := 4, 128
	if p.Addr().Is4() {
		step, longest = 8, 24
	}
	bits := min((p.Bits()+step-1)/step*step, longest)
	base := p.Masked().Addr()
	if bits < p.Bits() {
		base = netip.PrefixFrom(base, bits).Masked().Addr()
	}
	count := 1
	if bits > p.Bits() {
		count = 1 << (bits - p.Bits())
	}
	zones := make([]string, 0, count)
	for range count {
		zones = append(zones, reverseName(base, bits))
		base = addBlock(base, bits)
	}
	return zones
}

// addBlock is the first address after the block of the given prefix length that a begins.
func addBlock(a netip.Addr, bits int) netip.Addr {
	raw := a.AsSlice()
	i := (bits - 1) / 8
	step := 1 << (7 - (bits-1)%8)
	for carry := step; i >= 0 && carry > 0; i-- {
		v := int(raw[i]) + carry
		raw[i], carry = byte(v), v>>8
	}
	next, _ := netip.AddrFromSlice(raw)
	return next
}

// reverseName is the name below in-addr.arpa or ip6.arpa of the first bits of an address (RFC 1035 3.5, RFC 3596 2.5).
func reverseName(a netip.Addr, bits int) string {
	var b strings.Builder
	raw := a.AsSlice()
	if a.Is4() {
		for i := bits/8 - 1; i >= 0; i-- {
			fmt.Fprintf(&b, "%d.", raw[i])
		}
		return b.String() + "in-addr.arpa."
	}
	for i := bits/4 - 1; i >= 0; i-- {
		nibble := raw[i/2] >> 4
		if i%2 == 1 {
			nibble = raw[i/2] & 0xf
		}
		fmt.Fprintf(&b, "%x.", nibble)
	}
	return b.String() + "ip6.arpa."
}
