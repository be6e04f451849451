package detect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"spore/agent/nocloud"
	"spore/cluster/identity"
)

// Unmatched is what is said of a machine that the evidence makes no node of the cluster.
const Unmatched = "this machine does not match any node"

// ErrUnmatched is Unmatched, for what only a node can do.
var ErrUnmatched = errors.New(Unmatched)

// explain completes the problem: what the machine is known by, and what to do.
func (i *Identity) explain() {
	i.Advice = advice(*i)
	i.Problem += "; it has " + i.Seen.String() + "; " + i.Advice
}

// String lists what the machine could be known by.
func (s Seen) String() string {
	var parts []string
	for _, p := range []struct {
		what   string
		values []string
	}{{"MACs", s.MACs}, {"DHCP addresses", s.IPs}, {"DHCP host names", s.Hostnames}, {"NoCloud host name", []string{s.LocalHostname}}, {"serial number", []string{s.Serial}}, {"UUID", []string{s.UUID}}} {
		if text := strings.Join(p.values, ", "); text != "" {
			parts = append(parts, p.what+" "+text)
		}
	}
	if len(parts) == 0 {
		return "nothing to be known by"
	}
	return strings.Join(parts, ", ")
}

// advice says what to add to which file, with the values of this machine ready to copy.
func advice(id Identity) string {
	switch {
	case id.NoCloud != nil && id.NoCloud.Disputed:
		return "let all volumes with the label CIDATA, serial number and credentials say the same; then boot again"
	case id.Ambiguous && slices.ContainsFunc(id.Candidates, func(c identity.Candidate) bool { return c.By == identity.ByNoCloud }):
		return "let the user-data of NoCloud name the node that is chosen elsewhere, or none; then boot again"
	case id.Ambiguous:
		return "let only one of these nodes have these values in cluster.yaml, or choose one with `spore flash --node NAME`; then build and boot again"
	case id.Problem != "" && slices.Contains([]string{identity.ByCmdline, identity.BySMBIOS, identity.ByESP, identity.ByNoCloud}, id.By):
		return "choose a node that cluster.yaml has, or add this one to it; then build and boot again"
	}
	var ways []string
	if len(id.Seen.MACs) > 0 {
		ways = append(ways, fmt.Sprintf("macs: [%q]", id.Seen.MACs[0]))
	}
	// A serial number that leads to NoCloud is the same on many machines.
	if _, err := identity.Normalize(identity.Serial, id.Seen.Serial); err == nil && !nocloud.Announced(id.Seen.Serial) {
		ways = append(ways, fmt.Sprintf("serial: %q", id.Seen.Serial))
	} else if _, err := identity.Normalize(identity.UUID, id.Seen.UUID); err == nil {
		ways = append(ways, fmt.Sprintf("uuid: %q", id.Seen.UUID))
	}
	if len(id.Seen.IPs) > 0 {
		ways = append(ways, fmt.Sprintf("ips: [%q]", id.Seen.IPs[0]))
	}
	if len(ways) == 0 {
		return "this machine has no network card, serial number or UUID to be known by: choose its node with `spore flash --node NAME`"
	}
	return "add one of these to a node in cluster.yaml: " + strings.Join(ways, " or ") + "; then run `spore build` and boot the new image"
}
