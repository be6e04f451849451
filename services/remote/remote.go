// Package remote finds what is wrong with how settings name a server outside of the cluster: its address, its URL, the
// account that it knows, and whose certificates it has.
package remote

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"spore/cluster/check"
)

const (
	maxURL = 2000
	maxCA  = 64 << 10
)

// account is what stands in no need of quotes anywhere.
var account = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$`) })

// BadAddress says what is wrong with a name or an address with its port, or nothing.
func BadAddress(t string) string {
	host, port, err := net.SplitHostPort(t)
	if err != nil {
		return "has no port"
	}
	if !isPort(port) {
		return "has a port that is none"
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" {
			return "has a zone"
		}
		return ""
	}
	if !check.IsDomain(strings.TrimSuffix(strings.ToLower(host), ".")) {
		return "has a host that is none"
	}
	return ""
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// BadURL says what is wrong with the URL of a server, or nothing.
func BadURL(text string) string {
	if len(text) > maxURL {
		return "is too long"
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "is malformed"
	case u.Scheme != "http" && u.Scheme != "https":
		return "begins with neither http:// nor https://"
	case u.Host == "" || u.Hostname() == "":
		return "has no host"
	case u.Port() != "" && !isPort(u.Port()):
		return "has a port that is none"
	case u.User != nil:
		return "has a user or a password in it, which have keys of their own"
	case u.Fragment != "":
		return "has a fragment"
	}
	return ""
}

// CheckAccount checks the name of an account.
func CheckAccount(k *check.Checker, p check.Place, name string) {
	if !account().MatchString(name) {
		k.Errorf(p,
			"the user %q is not valid; write 1 to 128 letters, digits, ., _, @ and -, the first a letter or digit",
			check.Clip(name))
	}
}

// CheckCA checks certificates as PEM.
func CheckCA(k *check.Checker, p check.Place, text string) {
	if text == "" {
		return
	}
	if len(text) > maxCA {
		k.Errorf(p, "ca has %d bytes; at most %d are read", len(text), maxCA)
		return
	}
	rest, n := []byte(text), 0
	for len(bytes.TrimSpace(rest)) > 0 {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil || b.Type != "CERTIFICATE" {
			k.Errorf(p, "ca is not PEM of certificates; write one or more blocks of -----BEGIN CERTIFICATE-----")
			return
		}
		if c, err := x509.ParseCertificate(b.Bytes); err != nil || !c.IsCA {
			k.Errorf(p, "certificate %d of ca is malformed, or is not of an authority", n+1)
			return
		}
		n++
	}
}
