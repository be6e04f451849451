package client

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	// dnsTimeout bounds one question, dnsAttempts how often it is asked: UDP loses packets, and coredns.service is active
	// a moment before its program listens, so there is a pause between two.
	dnsTimeout  = time.Second
	dnsPause    = time.Second / 2
	dnsAttempts = 15
)

// Answer is what a server said.
type Answer struct {
	// Code is the response code, such as NOERROR or NXDOMAIN.
	Code string
	// Authoritative is the AA flag.
	Authoritative bool
	// Records are the answer's, each as "TYPE DATA", sorted.
	Records []string
}

// Ask asks one question. network is udp or tcp.
func Ask(network, server, name, kind string) (Answer, error) {
	return AskFrom("", network, server, name, kind)
}

// AskFrom asks one question from one of the machine's own addresses; empty leaves it to the kernel.
func AskFrom(own, network, server, name, kind string) (Answer, error) {
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), dns.StringToType[kind])
	c := &dns.Client{Net: network, Timeout: dnsTimeout}
	if own != "" {
		c.Dialer = &net.Dialer{Timeout: dnsTimeout}
		c.Dialer.LocalAddr = &net.UDPAddr{IP: net.ParseIP(own)}
		if network == "tcp" {
			c.Dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(own)}
		}
	}
	var err error
	for range dnsAttempts {
		var r *dns.Msg
		if r, _, err = c.Exchange(m, server); err == nil {
			return answer(r), nil
		}
		time.Sleep(dnsPause)
	}
	return Answer{}, fmt.Errorf("ask %s for %s %s: %w", server, name, kind, err)
}

func answer(r *dns.Msg) Answer {
	a := Answer{Code: dns.RcodeToString[r.Rcode], Authoritative: r.Authoritative}
	for _, rr := range r.Answer {
		h := rr.Header()
		a.Records = append(a.Records, dns.TypeToString[h.Rrtype]+" "+strings.TrimPrefix(rr.String(), h.String()))
	}
	slices.Sort(a.Records)
	return a
}

// ReverseName is the name that the PTR record of an address has.
func ReverseName(addr string) (string, error) { return dns.ReverseAddr(addr) }
