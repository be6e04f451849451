// Package unit writes what systemd is told of a role: the target that the agent starts, what is laid over each of its
// units, and the lines of sysusers.d(5), tmpfiles.d(5) and systemd.preset(5). It writes texts alone; the image lays
// them.
//
// A unit of a role is hardened as units of ours are (units/mosquitto.service); what the role needs of it, its file
// says.
package unit

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"spore/cluster/role"
)

// DropIn is the name of what is laid over a unit, in UNIT.d/. It stands behind the drop-ins of packages.
const DropIn = "90-role.conf"

// secretsDir is where the agent has the secrets of each program (paths.Secrets).
const secretsDir = "/run/spore/secrets"

// Target is the text of NAME.target.
func Target(d *role.Definition) string {
	var b text
	b.line("# Role %s. spore-agent starts it.", d.Name)
	b.line("[Unit]")
	b.line("Description=%s", escape(d.Description))
	for _, u := range d.Units {
		b.line("Wants=%s", u)
	}
	if d.AsksByCommand() {
		b.line("Wants=%s.timer", d.HealthName())
	}
	if len(d.Tests) > 0 {
		b.line("Wants=%s.socket", d.TestName())
	}
	if d.Disks != nil {
		b.line("Wants=%s.service", d.DisksName())
	}
	return b.String()
}

// DropIns are the texts that are laid over the units, by their paths such as valkey-server.service.d/90-role.conf.
func DropIns(d *role.Definition) map[string]string {
	out, programs := map[string]string{}, d.ProgramNames()
	for _, u := range d.Units {
		if path.Ext(u) != ".service" {
			out[path.Join(u+".d", DropIn)] = starter(d)
		}
	}
	for i, u := range d.Services() {
		out[path.Join(u+".d", DropIn)] = service(d, u, programs[i])
	}
	return out
}

// text is a file of lines.
type text struct{ strings.Builder }

func (b *text) line(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }

// starter is laid over a timer, socket or path.
func starter(d *role.Definition) string {
	var b text
	b.line("# Role %s.", d.Name)
	b.line("[Unit]")
	b.line("PartOf=%s", d.Target())
	return b.String()
}

// service is laid over a service.
func service(d *role.Definition, unit, program string) string {
	var b text
	b.line("# Role %s. What the unit itself says counts where this says nothing.", d.Name)
	b.line("[Unit]")
	b.line("PartOf=%s", d.Target())
	b.line("After=network.target")
	for _, dir := range d.Directories {
		if strings.HasPrefix(dir.Path, "/var/") {
			b.line("RequiresMountsFor=%s", dir.Path)
		}
	}
	if d.Disks != nil {
		b.line("RequiresMountsFor=%s", d.Disks.At)
		b.line("After=%s.service", d.DisksName())
	}
	again := !slices.Contains(d.Triggered(), unit)
	if again {
		b.line("# An appliance does not give up: see Restart below.")
		b.line("StartLimitIntervalSec=0")
	}
	b.line("")
	b.line("[Service]")
	if d.User != nil {
		b.line("User=%s", d.User.Name)
		b.line("Group=%s", d.User.Name)
	}
	if d.NeedsOf().Root {
		b.line("User=root")
	}
	if gets(d) {
		b.line("# The secrets of the role, as secret_NAME.")
		b.line("LoadCredential=secret:%s/%s", secretsDir, program)
	}
	if prepares(d) {
		b.line("# What the unit itself has here stands at the end, so that it finds what is made before.")
		b.line("ExecStartPre=")
	}
	if len(d.Directories) > 0 {
		b.line("# Nodes without the role do not have its directories.")
		b.line("ExecStartPre=+/usr/bin/systemd-tmpfiles --create %s", directoriesFile(d))
	}
	if d.Disks != nil {
		b.line("# It fails as long as a disk of the role cannot be used.")
	}
	if len(d.Files) > 0 {
		b.line("# As root: its files may belong to others, and their secrets are read here alone.")
	}
	if len(d.Files) > 0 || d.Disks != nil || d.HasQuotas() {
		b.line("ExecStartPre=+/usr/bin/spore-role files %s", d.Name)
	}
	if again {
		b.line("Restart=on-failure")
		b.line("RestartSec=1")
		b.line("RestartSteps=5")
		b.line("RestartMaxDelaySec=30")
	}
	b.line("")
	harden(&b, d)
	return b.String()
}

// prepares tells whether something is made before the units start.
func prepares(d *role.Definition) bool { return len(d.Directories)+len(d.Files) > 0 || d.Disks != nil }

// Prepared are the services before whose own ExecStartPre= directories and files are made, by the paths of what is laid
// over them. The lists in those texts begin anew; whoever lays them into an image adds behind what the service itself
// has.
func Prepared(d *role.Definition) map[string]string {
	out := map[string]string{}
	if prepares(d) {
		for _, u := range d.Services() {
			out["/etc/systemd/system/"+path.Join(u+".d", DropIn)] = u
		}
	}
	return out
}

// gets tells whether the units are given secrets.
func gets(d *role.Definition) bool {
	return len(d.Secrets) > 0 || slices.ContainsFunc(d.Files, func(f role.File) bool { return len(f.Secrets) > 0 })
}

// harden writes the sandbox. An empty value takes back what the unit itself adds to a list.
func harden(b *text, d *role.Definition) {
	n := d.NeedsOf()
	capabilities := strings.Join(n.Capabilities, " ")
	if !n.Root {
		b.list("AmbientCapabilities", capabilities)
		b.list("CapabilityBoundingSet", capabilities)
	}
	if len(n.Devices) > 0 {
		b.line("DevicePolicy=closed")
		b.list("DeviceAllow", "")
		for _, device := range n.Devices {
			b.line("DeviceAllow=%s rw", device)
		}
	}
	b.line("LockPersonality=yes")
	b.unless(n.Compiles, "MemoryDenyWriteExecute")
	b.line("NoNewPrivileges=yes")
	b.unless(len(n.Devices) > 0, "PrivateDevices")
	b.line("PrivateIPC=yes")
	if !network(d) {
		b.line("PrivateNetwork=yes")
	}
	b.line("PrivateTmp=yes")
	b.unless(slices.Contains(n.Capabilities, "CAP_SYS_TIME"), "ProtectClock")
	b.line("ProtectHome=yes")
	b.line("ProtectHostname=yes")
	if d.User == nil {
		// A user without capabilities can do none of it anyway: see mosquitto.service.
		b.line("ProtectControlGroups=yes")
		b.line("ProtectKernelLogs=yes")
		b.line("ProtectKernelModules=yes")
		b.line("ProtectKernelTunables=yes")
	}
	b.line("ProtectProc=invisible")
	b.line("ProtectSystem=strict")
	for _, p := range writable(d) {
		b.line("ReadWritePaths=-%s", p)
	}
	b.list("RestrictAddressFamilies", strings.Join(families(d), " "))
	b.unless(n.Namespaces, "RestrictNamespaces")
	b.unless(n.Realtime, "RestrictRealtime")
	b.line("RestrictSUIDSGID=yes")
	b.line("SystemCallArchitectures=native")
	b.list("SystemCallFilter", "@system-service")
	if !n.Root {
		b.line("SystemCallFilter=~@privileged")
	}
	if len(n.SystemCalls) > 0 {
		b.line("SystemCallFilter=%s", strings.Join(n.SystemCalls, " "))
	}
	b.line("SystemCallErrorNumber=EPERM")
	b.line("UMask=0077")
}

// list writes a list in the place of the unit's own.
func (b *text) list(key, value string) {
	b.line("%s=", key)
	if value != "" {
		b.line("%s=%s", key, value)
	}
}

// unless writes what the role does not need to be without.
func (b *text) unless(needs bool, key string) {
	value := "yes"
	if needs {
		value = "no"
	}
	b.line("%s=%s", key, value)
}

// network tells whether the units talk to others.
func network(d *role.Definition) bool {
	n := d.NeedsOf()
	return n.Network || len(d.Ports) > 0 || len(n.Sockets) > 0
}

// families are those of the sockets that the units may make.
func families(d *role.Definition) []string {
	out := []string{"AF_UNIX"}
	if network(d) {
		// AF_NETLINK: most programs ask for the node's addresses by it.
		out = []string{"AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"}
	}
	for _, s := range d.NeedsOf().Sockets {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// writable are the paths that the units may write.
func writable(d *role.Definition) []string {
	var out []string
	for _, dir := range d.Directories {
		out = append(out, dir.Path)
	}
	if d.Disks != nil {
		out = append(out, d.Disks.At)
	}
	return append(out, d.NeedsOf().Write...)
}

// Sysusers are the lines of sysusers.d(5).
func Sysusers(d *role.Definition) string {
	if d.User == nil {
		return ""
	}
	var b text
	b.line("# Role %s.", d.Name)
	b.line("u %s - \"Role %s\"", d.User.Name, d.Name)
	for _, g := range d.User.Groups {
		b.line("m %s %s", d.User.Name, g)
	}
	return b.String()
}

// directoriesFile is the path of the lines of tmpfiles.d(5), which stands outside of tmpfiles.d: the units have them
// made.
func directoriesFile(d *role.Definition) string { return "/usr/lib/spore/role-" + d.Name + ".conf" }

// Tmpfiles are the lines of tmpfiles.d(5).
func Tmpfiles(d *role.Definition) string {
	if len(d.Directories) == 0 {
		return ""
	}
	var b text
	b.line("# Role %s.", d.Name)
	for _, dir := range d.DirectoriesFilled() {
		b.line("d %s %s %s %s -", dir.Path, dir.Mode, dir.Owner, dir.Group)
	}
	return b.String()
}

// Preset are the lines of systemd.preset(5): the target starts the units, on nodes with the role, and nothing else
// does.
func Preset(d *role.Definition) string {
	var b text
	for _, u := range d.Units {
		b.line("disable %s", u)
	}
	for _, u := range d.Triggered() {
		b.line("disable %s", u)
	}
	return b.String()
}

// escape is a text in which systemd replaces nothing.
func escape(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// Files are all texts that an image has for a role, by their paths in it. That of accounts is read while the image is
// made; that of directories when a unit starts; that of presets comes before ours.
func Files(d *role.Definition) map[string]string {
	out := map[string]string{
		"/etc/systemd/system/" + d.Target():                            Target(d),
		"/usr/lib/systemd/system-preset/40-role-" + d.Name + ".preset": Preset(d),
	}
	for name, text := range healthUnits(d) {
		out["/etc/systemd/system/"+name] = text
	}
	if d.Disks != nil {
		out["/etc/systemd/system/"+d.DisksName()+".service"] = disksUnit(d)
	}
	for name, text := range testUnits(d) {
		out["/etc/systemd/system/"+name] = text
	}
	for name, text := range DropIns(d) {
		out["/etc/systemd/system/"+name] = text
	}
	if text := Sysusers(d); text != "" {
		out["/usr/lib/sysusers.d/role-"+d.Name+".conf"] = text
	}
	if text := Tmpfiles(d); text != "" {
		out[directoriesFile(d)] = text
	}
	return out
}
