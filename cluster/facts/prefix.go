package facts

import "net/netip"

// WithPrefix adds to an address the prefix length of the subnet (CIDR) that holds it, or makes it a prefix of its own where
// none does. What is no address stays as it is.
func WithPrefix(subnets []string, ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return ip
	}
	for _, s := range subnets {
		if p, err := netip.ParsePrefix(s); err == nil && p.Contains(a) {
			return netip.PrefixFrom(a, p.Bits()).String()
		}
	}
	return netip.PrefixFrom(a, a.BitLen()).String()
}
