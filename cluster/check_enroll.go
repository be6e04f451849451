package cluster

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"spore/cluster/check"
)

// checkEnroll checks where machines ask for their bundles. It is one server, and not a folder of one: `spore serve` has
// nothing else at its port, and neither TLS nor IPv6.
func (k *checker) checkEnroll() {
	text, p := k.Cluster.Enroll, check.In(k.c.cluster, "enroll")
	if !k.c.cluster.Has("enroll") || p.File.Faulty(p.File.At("enroll")) {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(text, "?#"):
		k.Errorf(p, "%q is not where a `spore serve` answers; write http://ADDRESS:PORT/, such as http://10.77.0.2:8080/, or "+
			"remove enroll", check.Clip(text))
		return
	case u.Path != "" && u.Path != "/":
		k.Errorf(p, "%q has a path, and `spore serve` answers at the top alone; write http://%s/", check.Clip(text), check.Clip(u.Host))
		return
	}
	if _, port, ok := strings.Cut(u.Host[strings.LastIndex(u.Host, "]")+1:], ":"); ok {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			k.Errorf(p, "%q is not a port; write 1 to 65535, or leave it out for 80", check.Clip(port))
			return
		}
	}
	host := u.Hostname()
	if _, err := netip.ParseAddr(host); err != nil {
		// A name that ends with a number is an address with a mistake (RFC 3696, section 2).
		_, noNumber := strconv.ParseUint(host[strings.LastIndex(host, ".")+1:], 10, 64)
		if !check.IsDomain(host) || noNumber == nil {
			k.Errorf(p, "%q is neither an IPv4 address nor a DNS name; write http://ADDRESS:PORT/, such as http://10.77.0.2:8080/", check.Clip(host))
		}
		return
	}
	a, ok := k.Address(p, "the server of enroll", host)
	switch {
	case !ok:
	case !a.Is4():
		k.Errorf(p, "%s is an IPv6 address, and `spore serve` answers at an IPv4 address alone; write that", a)
	default:
		k.outside(p, "the server of enroll", a)
		if k.reserved[a] == "" { // It may well be the gateway.
			k.reserved[a] = "that of the server of enroll"
		}
	}
}
