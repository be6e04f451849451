package rendering

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// Host is one line of the hosts file.
type Host struct {
	Addr netip.Addr
	// Names holds the canonical name first, then the others.
	Names []string
}

// HostTable is the hosts file with an index by name.
type HostTable struct {
	// List has the lines of the file.
	List []Host
	// lines holds the indexes in list of each Absolute name.
	lines map[string][]int
	// Known tells which addresses are in it.
	Known map[netip.Addr]bool
}

// NewHostTable reads a hosts file; names without a dot are of the domain.
func NewHostTable(r io.Reader, domain string) (*HostTable, error) {
	list, err := readHosts(r)
	if err != nil {
		return nil, err
	}
	t := &HostTable{lines: map[string][]int{}, Known: map[netip.Addr]bool{}}
	for _, h := range list {
		t.Add(h, domain)
	}
	return t, nil
}

// Add adds a line; names without a dot are of the domain.
func (t *HostTable) Add(h Host, domain string) {
	i := len(t.List)
	t.List = append(t.List, h)
	t.Known[h.Addr] = true
	for _, n := range h.Names {
		full := Absolute(n, domain)
		if l := t.lines[full]; len(l) == 0 || l[len(l)-1] != i {
			t.lines[full] = append(l, i)
		}
	}
}

// Addresses are those of an Absolute name.
// Add adds a line; names without a dot are of the domain.
func (t *HostTable) Addresses(full string) []netip.Addr {
	var out []netip.Addr
	for _, i := range t.lines[full] {
		out = append(out, t.List[i].Addr)
	}
	return out
}

// Canonical is the first name of the line that has the Absolute name, else the name itself.
func (t *HostTable) Canonical(full, domain string) string {
	if l := t.lines[full]; len(l) > 0 {
		return Absolute(t.List[l[0]].Names[0], domain)
	}
	return full
}

// readHosts reads hosts(5). The file comes from the verified cluster part, but is read as strictly as if it did not.
func readHosts(r io.Reader) ([]Host, error) {
	if r == nil {
		return nil, errors.New("hosts file of the cluster part: not given")
	}
	var out []Host
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
			if err := CheckName(name); err != nil {
				return nil, fmt.Errorf("hosts file of the cluster part, line %d: %w", n, err)
			}
		}
		out = append(out, Host{addr.Unmap(), f[1:]})
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("hosts file of the cluster part: %w", err)
	}
	return out, nil
}
