// Package dhcplease reads the DHCPv4 leases that systemd-networkd holds: one file of KEY=value lines for each interface index
// under /run/systemd/netif/leases. The format is networkd's own (sd-dhcp-lease.c, dhcp_lease_save); only what identity and
// name resolution need is read.
package dhcplease

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"strings"
)

// Lease is what a DHCP server said to one interface.
type Lease struct {
	// Address is the address, without prefix length.
	Address string
	// Hostname is option 12 (RFC 2132, section 3.14); empty when the server sent none.
	Hostname string
	// Domain is option 15.
	Domain string
	// DNS lists the resolvers of option 6.
	DNS []string
}

// maxSize bounds a lease file.
const maxSize = 64 << 10

// Read reads the lease of an interface from dir, the content of /run/systemd/netif/leases. ok is false while there is none.
func Read(dir fs.FS, index int) (l Lease, ok bool) {
	// networkd's user writes there: it is to be a file, and one that ends.
	if st, err := fs.Stat(dir, fmt.Sprint(index)); err != nil || !st.Mode().IsRegular() || st.Size() > maxSize {
		return Lease{}, false
	}
	data, err := fs.ReadFile(dir, fmt.Sprint(index))
	if err != nil || len(data) > maxSize {
		return Lease{}, false
	}
	return Parse(data)
}

// Parse reads the content of a lease file. ok is false when it names no address.
func Parse(data []byte) (l Lease, ok bool) {
	sc := bufio.NewScanner(bytes.NewReader(data))
	sc.Buffer(nil, maxSize)
	for sc.Scan() {
		key, value, found := strings.Cut(sc.Text(), "=")
		if !found || strings.HasPrefix(key, "#") {
			continue
		}
		value = strings.Trim(value, `"`)
		switch key {
		case "ADDRESS":
			l.Address = value
		case "HOSTNAME":
			l.Hostname = value
		case "DOMAINNAME":
			l.Domain = value
		case "DNS":
			l.DNS = strings.Fields(value)
		}
	}
	return l, l.Address != ""
}
