package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"spore/wire/machine"
)

// onWay stands where an answer is waited for.
const onWay = "it is being asked for"

// unknown is a text for what is not there: on its way, or missing for a reason.
func (m *Model) unknown(d *document, problem string) {
	if problem == "" && m.Asked {
		problem = onWay
	}
	d.some("", cmp.Or(problem, "nothing is known yet"))
}

// unitMark is the mark of a state of a unit (systemd.unit(5)).
func unitMark(state string) string {
	switch state {
	case "active":
		return markOK
	case "failed":
		return markFailed
	}
	return markStarts
}

func (m *Model) services(d *document) {
	s := m.Status
	if s == nil {
		m.unknown(d, m.StatusProblem)
		return
	}
	d.head("Services of the node's roles")
	for _, unit := range slices.Sorted(maps.Keys(s.Services)) {
		state := s.Services[unit]
		d.add(Plain, "%s %-40.60s %s", unitMark(state), Clean(unit), Clean(state))
	}
	if len(s.Services) == 0 {
		d.some("", "none was started")
	}
	if len(s.Held)+len(s.Waiting) > 0 {
		d.head("What does not start yet")
	}
	for _, h := range s.Held {
		d.some("", markHeld+" "+h.Role+": "+h.Reason)
	}
	for _, service := range slices.Sorted(maps.Keys(s.Waiting)) {
		d.some("", markWaits+" "+service+": "+s.Waiting[service])
	}
	if len(s.Failed) > 0 {
		d.head("Units that failed")
	}
	for _, unit := range s.Failed {
		d.some("", markFailed+" "+unit)
	}
	if len(s.Versions) > 0 {
		d.head("Programs that keep data")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Versions)) {
		d.some(name, s.Versions[name])
	}
}

func (m *Model) journal(d *document) {
	if len(m.Journal) == 0 {
		m.unknown(d, m.JournalProblem)
		return
	}
	d.head("The last lines of this boot, the newest first")
	for _, l := range m.Journal {
		for i, part := range wrap(Clean(l), d.width-4, someLines) {
			if i > 0 {
				part = "  " + part
			}
			d.lines = append(d.lines, line{" " + part, Plain})
		}
	}
}

func (m *Model) network(d *document) {
	d.head("Answers")
	for _, a := range m.Answers {
		text := a.Text
		if a.Problem != "" {
			text = "NO ANSWER: " + a.Problem
		}
		d.some(a.Of, a.To+"  "+text)
	}
	if len(m.Answers) == 0 {
		m.unknown(d, "")
	}
	if s := m.Status; s != nil && s.Clock != nil {
		d.some("time", clockText(s.Clock))
	}
	if m.Network == nil {
		m.cards(d)
		return
	}
	d.head("Links")
	for _, l := range m.Network.Links {
		d.add(Plain, "%s", linkText(l))
		if len(l.Addresses) > 0 {
			d.some("", strings.Join(l.Addresses, "  "))
		}
	}
	d.head("Neighbours by LLDP")
	for _, s := range m.Network.LLDP {
		text := fmt.Sprintf("%s port %s", cmp.Or(s.Name, s.Chassis), s.Port)
		if s.PortIs != "" {
			text += " (" + s.PortIs + ")"
		}
		if s.VLAN > 0 {
			text += fmt.Sprintf(", VLAN %d", s.VLAN)
		}
		d.row(s.Link, text, Plain, fewLines)
	}
	if len(m.Network.LLDP) == 0 {
		d.some("", cmp.Or(m.Network.Warning, "no switch has said yet who it is"))
	}
	d.head("Routes")
	for _, r := range m.Network.Routes {
		text := r.To
		if r.Via != "" {
			text += " via " + r.Via
		}
		d.row(r.Link, text, Plain, fewLines)
	}
	d.head("Names")
	d.some("DNS", cmp.Or(strings.Join(m.Network.DNS, "  "), "no server"))
	d.some("search", strings.Join(m.Network.Search, "  "))
}

// cards are the links as far as they are known without the node's API.
func (m *Model) cards(d *document) {
	d.head("Links")
	for _, c := range m.Cards {
		d.add(Plain, "%-15.15s %-8s %s", Clean(c.Name), carrierText(c.Carrier), Clean(c.MAC))
		if len(c.Addresses) > 0 {
			d.some("", strings.Join(c.Addresses, "  "))
		}
	}
	if len(m.Cards) == 0 || m.NetworkProblem != "" {
		m.unknown(d, m.NetworkProblem)
	}
}

func carrierText(carrier bool) string {
	if carrier {
		return "cable"
	}
	return "NO CABLE"
}

func linkText(l machine.Link) string {
	state := carrierText(l.Carrier)
	if !l.Up {
		state = "off"
	}
	text := fmt.Sprintf("%-15.15s %-8s %-8.8s %s", Clean(l.Name), state, Clean(l.Kind), Clean(l.MAC))
	if l.Speed > 0 {
		text += fmt.Sprintf("  %d Mbit/s %s", l.Speed, l.Duplex)
	}
	if l.Master != "" {
		text += "  in " + Clean(l.Master)
	}
	if l.VLAN > 0 {
		text += fmt.Sprintf("  VLAN %d of %s", l.VLAN, Clean(l.Parent))
	}
	return text
}

func clockText(c *Clock) string {
	switch {
	case c.Problem != "":
		return c.Problem
	case c.Synchronized && c.From != "":
		return "kept by the server " + c.From
	case c.Synchronized:
		return "kept by " + cmp.Or(c.By, "a time server")
	}
	return "no time server has answered yet"
}

func (m *Model) disks(d *document) {
	if s := m.Status; s != nil && s.State != nil {
		d.head("State of the node (/var)")
		d.some("", strings.TrimSpace(s.State.Kind+" "+s.State.Device+" "+s.State.Disk))
		d.some("", s.State.Warning)
	}
	if m.Disks == nil {
		d.head("Disks")
		m.unknown(d, m.DisksProblem)
		return
	}
	for _, one := range m.Disks {
		d.head(fmt.Sprintf("%s  %s  %s %s", one.Name, bytesText(one.Size), one.Model, one.Transport))
		d.some("serial", strings.Join(one.Serials, "  "))
		d.some("used for", one.About)
		for _, p := range one.Partitions {
			text := strings.TrimSpace(fmt.Sprintf("%s %s %s", bytesText(p.Size), p.FileSystem, p.Label))
			if len(p.Mounts) > 0 {
				text += " on " + strings.Join(p.Mounts, " ")
			}
			if p.Fill != nil && p.Fill.Size > 0 {
				text += fmt.Sprintf(", %d %% full", p.Fill.Used*100/p.Fill.Size)
			}
			d.row(cmp.Or(p.Name, fmt.Sprintf("part %d", p.Number)), text, Plain, fewLines)
		}
	}
	if s := m.Status; s != nil {
		for _, disk := range s.Disks {
			if disk.Problem != "" {
				d.head("Disk of " + disk.Use + ", by " + disk.Selector)
				d.some("problem", disk.Problem)
			}
		}
	}
}

// bytesText is a number of bytes in units of disks (IEC 80000-13).
func bytesText(n int64) string {
	size, units := float64(n), []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for size >= 1024 && i < len(units)-1 {
		size, i = size/1024, i+1
	}
	if i == 0 || size >= 100 {
		return fmt.Sprintf("%.0f %s", size, units[i])
	}
	return fmt.Sprintf("%.1f %s", size, units[i])
}

func (m *Model) hardware(d *document) {
	if m.Hardware == nil {
		m.unknown(d, "")
		return
	}
	d.head("The machine")
	for _, r := range m.Hardware.Rows {
		d.some(r[0], r[1])
	}
	s := m.Status
	if s == nil {
		return
	}
	if f := s.Firmware; f != nil {
		d.some("Secure Boot", secureBootText(f))
	}
	if w := s.Watchdog; w != nil {
		text := fmt.Sprintf("%s, %d s", w.Identity, w.Seconds)
		if !w.Held {
			text += ", nobody feeds it"
		}
		d.some("watchdog", text)
	}
	d.some("boot disk", s.BootDisk)
}

func secureBootText(f *Firmware) string {
	switch {
	case f.SetupMode:
		return "no owner yet (setup mode): the firmware starts everything"
	case f.SecureBoot:
		if f.Lockdown != "" {
			return "on, and nobody can change the kernel (lockdown: " + f.Lockdown + ")"
		}
		return "on"
	}
	return "off"
}

func (m *Model) secrets(d *document) {
	s := m.Status
	d.head("The bundle of secrets")
	switch {
	case s == nil:
		m.unknown(d, m.StatusProblem)
	case s.Bundle == nil:
		d.some("", "this machine was given none")
	default:
		b := s.Bundle
		if b.Serial > 0 {
			d.some("serial", fmt.Sprint(b.Serial))
		}
		d.some("from", b.From)
		if b.Serial > 0 {
			d.some("kept by", cmp.Or(keyText(b.Sealed), "nothing: it is asked for again at each start"))
		}
		d.some("problem", b.Problem)
		d.some("forgets", b.Forgets)
		if b.Fingerprint != "" {
			d.some("fingerprint", b.Fingerprint)
			d.some("approve", approveText(b))
		}
	}
	if s != nil && s.State != nil && s.State.Encryption != nil {
		e := s.State.Encryption
		d.head("The encrypted state")
		d.some("opened by", keyText(e.Opened))
		d.some("next start", keyText(e.Next))
		d.some("TPM checks", e.Policy)
	}
	d.head("Certificates")
	if m.Secrets == nil {
		m.unknown(d, m.SecretsProblem)
		return
	}
	for _, c := range m.Secrets.Certificates {
		text := "ends " + c.Ends.UTC().Format(time.DateOnly)
		switch left := c.Ends.Sub(m.Now); {
		case c.Problem != "":
			text = c.Problem
		case left < 0:
			text += ", HAS ENDED"
		default:
			text += fmt.Sprintf(", in %d days", int(left/(24*time.Hour)))
		}
		d.add(Plain, "%-30.40s %s", Clean(c.Name), text)
	}
	d.some("waits", m.Secrets.Waits)
}

// keyText says in words what opens secrets or the state, where the status line has a name for it.
func keyText(name string) string {
	return cmp.Or(map[string]string{"tpm2": "the TPM of this machine", "host": "the key of this machine"}[name], name)
}

func (m *Model) updates(d *document) {
	s := m.Status
	if s == nil {
		m.unknown(d, m.StatusProblem)
		return
	}
	d.head("What runs")
	if s.BuildTime > 0 {
		d.some("image of", time.Unix(s.BuildTime, 0).UTC().Format("2006-01-02 15:04 UTC"))
	}
	if c := s.Configuration; c != nil {
		if c.Serial > 0 {
			d.some("update", fmt.Sprint(c.Serial))
		}
		d.some("root hash", c.RootHash)
		d.some("cluster", c.ClusterHash)
		if c.Trial {
			d.some("trial", "it has yet to show that the node's roles come up with it")
		}
		if c.Staged != "" {
			when := "at the next start"
			if c.Live {
				when = "in effect already"
			}
			d.some("next", c.Staged+", "+when)
			d.some("next root", c.StagedRoot)
		}
		d.some("loader", c.Loader)
		d.some("problem", c.Problem)
	}
	d.head("The last look for updates")
	u := s.Updates
	if u == nil {
		d.some("", "this node does not look for updates by itself, or has not yet")
		return
	}
	d.some("at", u.At.UTC().Format("2006-01-02 15:04 UTC"))
	d.some("from", u.From)
	if u.Serial > 0 {
		d.some("serial", fmt.Sprint(u.Serial))
	}
	d.some("result", u.Result)
	d.some("problem", u.Problem)
}
