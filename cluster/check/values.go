package check

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"spore/cluster/form"
	"spore/cluster/spec"
)

// refForm is the syntax of a name in the secret bundle.
var refForm = form.New(`^[a-z0-9][a-z0-9-]{0,62}$`)

// SecretRef checks the name of an entry of the bundle.
func (k *Checker) SecretRef(p Place, what string, ref spec.SecretRef) {
	if p.File.Has(append(p.Path, "secretRef")...) && !refForm.MatchString(ref.SecretRef) {
		k.Errorf(p.Then("secretRef"), "%s: secretRef %q is not the name of a bundle entry; write 1 to 63 lower-case letters, digits and -, such as mqtt-tls-key", what, Clip(ref.SecretRef))
	}
}

// Address parses an IP address of one machine.
func (k *Checker) Address(p Place, what, s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		k.Errorf(p, "%s %q is not an IP address; write it as 10.77.0.5 or fd00::5, without prefix length", what, Clip(s))
	case a.Zone() != "" || a.Is4In6():
		k.Errorf(p, "%s %q is not in plain form; write %s", what, Clip(s), a.Unmap().WithZone(""))
	case a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast():
		k.Errorf(p, "%s %s is not the address of one machine in a network; write one of its subnet", what, s)
	default:
		return a, true
	}
	return netip.Addr{}, false
}

// maxCompared bounds the search for nearly right words in long lists, such as the nodes.
const maxCompared = 200_000

// SuggestOf is suggest for a list that may be long.
func (k *Checker) SuggestOf(wrong string, known []string) string {
	if k.compared += len(known); k.compared > maxCompared {
		return ""
	}
	return Suggest(wrong, known)
}

// dnsLabel is a label of RFC 1123, section 2.1, in lower case.
var dnsLabel = form.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

const labelRule = "write 1 to 63 lower-case letters, digits and -, with a letter or digit at both ends"

// Label checks a DNS label. It reports false after an error.
func (k *Checker) Label(p Place, what, value string) bool {
	if dnsLabel.MatchString(value) {
		return true
	}
	k.Errorf(p, "%s %q is not a DNS label; %s", what, Clip(value), labelRule)
	return false
}

// IsDomain reports whether s is a DNS name of labels without a final dot.
func IsDomain(s string) bool {
	for _, l := range strings.Split(s, ".") {
		if !dnsLabel.MatchString(l) {
			return false
		}
	}
	return len(s) <= MaxName
}

// MaxName is the length of a DNS name without its final dot (RFC 1035, section 2.3.4).
const MaxName = 253

// Unique reports the second use of a value.
type Unique struct {
	k    *Checker
	Seen map[string]Place
}

func (k *Checker) Unique() Unique { return Unique{k, map[string]Place{}} }

// Add remembers a value and reports false, with an error, when it was there before.
func (u Unique) Add(p Place, what, value, remedy string) bool {
	if first, twice := u.Seen[value]; twice {
		u.k.Errorf(p, "%s %q exists already, at %s; %s", what, Clip(value), first.Where(), remedy)
		return false
	}
	u.Seen[value] = p
	return true
}

// OneOf reports a value that is not in the list.
func (k *Checker) OneOf(p Place, what, value string, known []string) bool {
	if slices.Contains(known, value) {
		return true
	}
	hint := Suggest(value, known)
	if hint == "" {
		hint = "; write " + OrWords(known)
	}
	k.Errorf(p, "%s %q is unknown%s", what, Clip(value), hint)
	return false
}

// EachOf reports values of a list at p that are not among those known, or come twice.
func (k *Checker) EachOf(p Place, what string, values, known []string) {
	seen := k.Unique()
	for i, v := range values {
		if k.OneOf(p.Then(i), what, v, known) {
			seen.Add(p.Then(i), what, v, "remove one")
		}
	}
}

// OrWords is "a, b or c".
func OrWords(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// Between reports a number out of its bounds.
func (k *Checker) Between(p Place, what string, value, low, high int) bool {
	if value >= low && value <= high {
		return true
	}
	k.Errorf(p, "%s %d is out of bounds; write %d to %d", what, value, low, high)
	return false
}

// Clip shortens a text of the user for a message.
func Clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Count is "1 node" or "3 nodes".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Family is IPv4 or IPv6.
func Family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// NetworkList returns a list under network as it was written.
func (k *Checker) NetworkList(key string) []string {
	switch key {
	case "podCIDRs":
		return k.Cluster.Network.PodCIDRs
	case "serviceCIDRs":
		return k.Cluster.Network.ServiceCIDRs
	}
	return k.Cluster.Network.NodeSubnets
}
