package rendering

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

const (
	maxName  = 253 // characters of a name (RFC 1035, 3.1, as text without the final dot)
	maxLabel = 63  // characters of a label
)

// CheckName accepts what may stand in a zone file as it is: letters, digits, hyphens and underscores in labels, and * as
// the first label.
func CheckName(name string) error {
	trimmed := strings.TrimSuffix(name, ".")
	if trimmed == "" || len(trimmed) > maxName {
		return fmt.Errorf("%q is not a DNS name", name)
	}
	for i, label := range strings.Split(trimmed, ".") {
		if i == 0 && label == "*" {
			continue
		}
		ok := label != "" && len(label) <= maxLabel && !strings.ContainsFunc(label, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
		})
		if !ok {
			return fmt.Errorf("%q is not a DNS name", name)
		}
	}
	return nil
}

// Absolute is a name with its final dot, in lower case; one without any dot is relative to the domain.
func Absolute(name, domain string) string {
	name = strings.ToLower(name)
	switch {
	case strings.HasSuffix(name, "."):
		return name
	case domain != "" && !strings.Contains(name, "."):
		return name + "." + strings.TrimSuffix(strings.ToLower(domain), ".") + "."
	}
	return name + "."
}

// Bindable leaves out addresses that clients cannot reach, and sorts.
func Bindable(addrs []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range addrs {
		a = a.Unmap()
		if a.IsValid() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast() && !a.IsUnspecified() {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// Join is a list with blanks between, as configuration files have it.
func Join[T fmt.Stringer](list []T) string {
	s := make([]string, len(list))
	for i, v := range list {
		s[i] = v.String()
	}
	return strings.Join(s, " ")
}
