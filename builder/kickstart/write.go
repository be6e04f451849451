package kickstart

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// AnswerFile is the answer file. What the kickstart file does not say is left out, so that the check of the file names it.
// from is the name of the kickstart file, for the comment.
func (t *Translation) AnswerFile(from string) string {
	var b strings.Builder
	b.WriteString("# yaml-language-server: $schema=configs/.schema/answers.json\n")
	fmt.Fprintf(&b, "# Translated from the kickstart file %s.\n", shown(from))
	a := t.Answers
	line := func(key, value string) {
		why := t.why[key]
		if why != "" {
			why = "  # " + why
		}
		fmt.Fprintf(&b, "%s: %s%s\n", key, value, why)
	}
	if a.Node == "" {
		b.WriteString("# The kickstart file does not say its name. Write that of the node in cluster.yaml:\n# node: NAME\n")
	} else {
		line("node", scalar(a.Node))
	}
	switch {
	case a.Disk.WWN != "":
		line("disk", "{wwn: "+scalar(a.Disk.WWN)+"}")
	case a.Disk.ByID != "":
		line("disk", "{byID: "+scalar(a.Disk.ByID)+"}")
	default:
		b.WriteString("# Write the serial number of the disk, as `spore disks` shows it: disk: {serial: S5H9NX0R}\n")
		line("disk", "{}")
	}
	if a.State != "" {
		line("state", a.State)
	}
	if a.Encrypt != "" {
		b.WriteString("# It has to be what state.encrypt of cluster.yaml or of the node's file says; tpm2 asks nobody.\n")
		line("encrypt", a.Encrypt)
	}
	line("then", a.Then)
	return b.String()
}

// NodeFile is what belongs into the node's file, nodes/NAME.yaml; empty where the kickstart file has nothing for it.
func (t *Translation) NodeFile() string {
	if len(t.Interfaces) == 0 {
		return ""
	}
	var b strings.Builder
	if t.Answers.Node != "" {
		fmt.Fprintf(&b, "node: %s\n", scalar(t.Answers.Node))
	}
	b.WriteString("interfaces:\n")
	for _, i := range t.Interfaces {
		note := fmt.Sprintf("  # network, line %d", i.Line)
		if len(i.Cards) > 0 {
			note += "; write the MAC address of " + strings.Join(i.Cards, " and ")
		}
		b.WriteString(note + "\n")
		first := "  - "
		key := func(format string, args ...any) {
			b.WriteString(first + fmt.Sprintf(format, args...) + "\n")
			first = "    "
		}
		if i.MAC != "" {
			key("mac: %s", quoted(i.MAC))
		}
		if i.Name != "" {
			key("name: %s", scalar(i.Name))
		}
		if i.Bond != nil {
			mode := ""
			if i.Bond.Mode != "" {
				mode = ", mode: " + scalar(i.Bond.Mode)
			}
			key("bond: {members: %s%s}", list(i.Bond.Members), mode)
		}
		if i.VLAN != nil {
			key("vlan: {id: %d, parent: %s}", i.VLAN.ID, quoted(i.VLAN.Parent))
		}
		if len(i.Addresses) > 0 {
			key("addresses: %s", list(i.Addresses))
		}
		if i.DHCP {
			key("dhcp: true")
		}
		if len(i.Gateways) > 0 {
			key("gateways: %s", list(i.Gateways))
		}
		if i.MTU != 0 {
			key("mtu: %d", i.MTU)
		}
	}
	return b.String()
}

func list(values []string) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = quoted(v)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// quoted is a text with a colon, as addresses have, in quotes.
func quoted(s string) string { return fmt.Sprintf("%q", s) }

// scalar is a text in YAML, in quotes where it would mean something else without.
func scalar(s string) string {
	data, err := yaml.Marshal(s)
	if err != nil {
		return quoted(s)
	}
	return strings.TrimSpace(string(data))
}

// ClusterLines is what belongs into cluster.yaml; empty where the kickstart file has nothing for it.
func (t *Translation) ClusterLines() string {
	if len(t.Nameservers) == 0 {
		return ""
	}
	return "network:\n  nameservers: " + list(t.Nameservers) + "\n"
}

// LeftLines is what was not translated, one line each.
func (t *Translation) LeftLines() string {
	var b strings.Builder
	for _, l := range t.Left {
		fmt.Fprintf(&b, "line %d: %s: %s\n", l.Line, l.What, l.Why)
	}
	return b.String()
}
