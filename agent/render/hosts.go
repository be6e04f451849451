package render

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// host is one line of the hosts file.
type host struct {
	addr netip.Addr
	// names holds the canonical name first, then the others.
	names []string
}

// hostTable is the hosts file with an index by name.
type hostTable struct {
	list []host
	// lines holds the indexes in list of each absolute name.
	lines map[string][]int
	known map[netip.Addr]bool
}

// newHostTable reads a hosts file; names without a dot are of the domain.
func newHostTable(r io.Reader, domain string) (*hostTable, error) {
	list, err := readHosts(r)
	if err != nil {
		return nil, err
	}
	t := &hostTable{lines: map[string][]int{}, known: map[netip.Addr]bool{}}
	for _, h := range list {
		t.add(h, domain)
	}
	return t, nil
}

func (t *hostTable) add(h host, domain string) {
	i := len(t.list)
	t.list = append(t.list, h)
	t.known[h.addr] = true
	for _, n := range h.names {
		full := absolute(n, domain)
		if l := t.lines[full]; len(l) == 0 || l[len(l)-1] != i {
			t.lines[full] = append(l, i)
		}
	}
}

// addresses are those of an absolute name.
func (t *hostTable) addresses(full string) []netip.Addr {
	var out []netip.Addr
	for _, i := range t.lines[full] {
		out = append(out, t.list[i].addr)
	}
	return out
}

// canonical is the first name of the line that has the absolute name, else the name itself.
func (t *hostTable) canonical(full, domain string) string {
	if l := t.lines[full]; len(l) > 0 {
		return absolute(t.list[l[0]].names[0], domain)
	}
	return full
}

// readHosts reads hosts(5). The file comes from the verified cluster part, but is read as strictly as if it did not.
func readHosts(r io.Reader) ([]host, error) {
	if r == nil {
		return nil, errors.New("hosts file of the cluster part: not given")
	}
	var out []host
	s := bufio.NewScanner(r)
	for n := 1; s.Scan(); n++ {
		line, _, _ := strings.Cut(s.Text(), "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		addr, err := netip.ParseAddr(f[0])
		if err != nil {
			return nil, fmt.Errorf("hosts file of the cluster part, line %d: %w", n, err)
		}
		if len(f) == 1 {
			return nil, fmt.Errorf("hosts file of the cluster part, line %d: %s has no name", n, addr)
		}
		for _, name := range f[1:] {
			if err := checkName(name); err != nil {
				return nil, fmt.Errorf("hosts file of the cluster part, line %d: %w", n, err)
			}
		}
		out = append(out, host{addr.Unmap(), f[1:]})
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("hosts file of the cluster part: %w", err)
	}
	return out, nil
}
