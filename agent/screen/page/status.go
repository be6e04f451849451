package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Words for how the machine is, which the title has.
const (
	wordNone   = "NO STATUS"
	wordNoNode = "NOT A NODE"
	wordFailed = "FAILED"
	wordHeld   = "HELD"
	wordWaits  = "WAITS"
	wordStarts = "STARTS"
	wordOK     = "OK"
)

// Marks of a role and of a unit. All have the same width.
const (
	markOK     = "[ ok ]"
	markStarts = "[ .. ]"
	markWaits  = "[wait]"
	markHeld   = "[held]"
	markFailed = "[FAIL]"
)

// word says how the machine is, the worst first.
func (m *Model) word() string {
	s := m.Status
	switch {
	case s == nil:
		return wordNone
	case s.Node == "":
		return wordNoNode
	case len(s.Failed) > 0 || s.System == "degraded":
		return wordFailed
	case len(s.Held) > 0:
		return wordHeld
	case len(s.Waiting) > 0:
		return wordWaits
	case s.System == "running":
		return wordOK
	}
	return wordStarts
}

// targets are units by which a role is known where the unit has another name than the role (services.Of, in the order
// of its list). The target of a role of the configuration's own has the name of the role.
var targets = map[string]string{
	"control-plane": "kubernetes-master", "master": "kubernetes-master", "worker": "kubernetes-worker",
	"kafka-broker":     "kafka",
	"kafka-controller": "kafka", "mqtt-broker": "mqtt", "dns-server": "dns",
	"logs-store": "logs", "metrics-store": "metrics",
}

// Target is the unit that is active when a role is up.
func Target(role string) string { return cmp.Or(targets[role], role) + ".target" }

// roleMark is the mark of a role that was started.
func (s *Status) roleMark(role string) string {
	target := Target(role)
	switch state := s.Services[target]; {
	case state == "failed" || slices.Contains(s.Failed, target):
		return markFailed
	case state == "active":
		return markOK
	}
	return markStarts
}

// status is the first page: what a person understands from afar.
func (m *Model) status(d *document) {
	s := m.Status
	if s == nil {
		d.few("status", cmp.Or(m.StatusProblem, "spore-agent has not said yet how the machine is"), Bold)
		return
	}
	if m.Question != "" {
		d.few("asked", m.Question+" Press "+string(KeyQuestion)+" to answer.", Bold)
	}
	if s.Node == "" {
		m.unmatched(d)
		return
	}
	for _, role := range s.Roles {
		d.few("role", s.roleMark(role)+" "+role, Bold)
	}
	for _, h := range s.Held {
		d.few("role", markHeld+" "+h.Role+": "+h.Reason, Bold)
	}
	if len(s.Roles)+len(s.Held) == 0 {
		d.few("role", "this node has none", Plain)
	}
	d.few("addresses", cmp.Or(strings.Join(s.Addresses, "  "), "none yet"), Plain)
	for _, c := range s.Conflicts {
		d.few("conflict", fmt.Sprintf("%s is also the address of %s", c.IP, c.MAC), Bold)
	}
	waits(d, s)
	failed(d, s)
	problems(d, s)
}

// waits says for what, and for whom, the node waits.
func waits(d *document, s *Status) {
	for _, service := range slices.Sorted(maps.Keys(s.Waiting)) {
		d.few("waits", markWaits+" "+service+": "+s.Waiting[service], Bold)
	}
	if s.Node != "" && len(s.Addresses) == 0 {
		d.few("waits", markWaits+" for an address: key 4 shows the cards", Bold)
	}
}

// failed says what failed, and what to do.
func failed(d *document, s *Status) {
	if len(s.Failed) == 0 {
		return
	}
	d.few("failed", markFailed+" "+strings.Join(s.Failed, " "), Bold)
	d.few("what to do",
		fmt.Sprintf("key 3 shows what it said; at a desk: spore health, spore logs CONFIGS %s UNIT", s.Node), Plain)
}

// problems are all other things that are not as they should be.
func problems(d *document, s *Status) {
	if b := s.Bundle; b != nil {
		d.few("secrets", b.Problem, Bold)
		if b.Fingerprint != "" {
			d.few("fingerprint", b.Fingerprint, Bold)
			d.few("approve", approveText(b), Bold)
		}
	}
	if s.State != nil {
		d.few("state", s.State.Warning, Bold)
	}
	if c := s.NoCloud; c != nil {
		if !strings.Contains(s.Problem, c.Problem) {
			d.few("nocloud", c.Problem, Bold)
		}
		d.few("not taken", strings.Join(c.NotTaken, ", "), Plain)
	}
	for _, disk := range s.Disks {
		if disk.Problem != "" {
			d.few("disk", disk.Use+": "+disk.Problem, Bold)
		}
	}
	switch c := s.Clock; {
	case c == nil:
	case c.Wrong:
		d.few("clock", "it could not be right when the machine started, and no time server has set it. "+c.Problem, Bold)
	case c.Problem != "":
		d.few("clock", c.Problem, Bold)
	default:
		d.few("clock", clockText(c), Plain)
	}
	if c := s.Configuration; c != nil {
		d.few("update", c.Problem, Bold)
	}
}

// approveText is what becomes of a fingerprint.
func approveText(b *Bundle) string {
	return "the operator compares it with that of spore serve, and runs: spore approve OUT " + b.Fingerprint
}

// unmatched is the first page of a machine that does not match any node, or two.
func (m *Model) unmatched(d *document) {
	s := m.Status
	// The problem ends with what the machine has and with the advice, which are shown by themselves.
	problem := strings.TrimSuffix(strings.TrimSuffix(s.Problem, s.Advice), "; ")
	d.few("problem", cmp.Or(problem, "this machine does not match any node"), Bold)
	d.few("what to do", s.Advice, Bold)
	d.few("or here", "key "+string(KeyChoice)+" chooses which node this machine is", Bold)
	d.blank()
	if seen := s.Seen; seen != nil {
		d.few("cards", strings.Join(seen.MACs, "  "), Plain)
		d.few("serial", seen.Serial, Plain)
		d.few("UUID", seen.UUID, Plain)
		d.few("DHCP names", strings.Join(seen.Hostnames, "  "), Plain)
		d.few("DHCP", strings.Join(seen.IPs, "  "), Plain)
	}
	d.few("addresses", cmp.Or(strings.Join(s.Addresses, "  "), "none yet"), Plain)
	failed(d, s)
	problems(d, s)
}

// maxStars is how many characters of an answer are shown, as stars.
const maxStars = 60

// question is the page of somebody who is asked for a passphrase or a recovery key.
func (m *Model) question(d *document) {
	d.blank()
	d.few("asked", cmp.Or(m.Question, "nobody asks any more"), Bold)
	d.blank()
	d.few("answer", strings.Repeat("*", min(m.Typed, maxStars))+"_", Bold)
	d.blank()
	d.few("", m.Answered, Plain)
	d.blank()
	if s := m.Status; s != nil && s.Bundle != nil {
		d.few("why", s.Bundle.Problem, Plain)
	}
	d.few("tries", "as many as it takes: a wrong answer changes nothing, and the question comes again and says so", Plain)
	d.few("without", "the node goes on with what needs no secret, and waits with the rest", Plain)
}
