package role

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/dataversion"
	"spore/services/service"
)

// Service is the row of the role, so that nothing else knows it from a service of ours. The definition is not changed
// afterwards.
func (d *Definition) Service() service.Service {
	return service.Service{
		Name:        d.Name,
		Settings:    func() spec.Settings { return d.NewSettings() },
		Check:       func(k *check.Checker, file check.File) { d.settingsIn(k.Services).Check(k, file) },
		Port:        func(s spec.Services, key string) int { return d.settingsIn(s).Port(key) },
		Roles:       []service.Role{{Name: d.Name, Target: d.Target(), Service: d.Name, Programs: d.ProgramNames()}},
		Programs:    d.programRows(),
		Authorities: d.authorityRows(),
		Leaves:      d.leafRows(),
		Secrets:     d.secretRows(),
		UserSecrets: func(s spec.Services) []string { return d.userSecrets(s) },
		Renewal:     d.renewalRows(),
		Data:        d.dataRows(),
		Live:        d.liveRows(),
		Memory:      d.memoryRows(),
		Disks:       d.diskRows(),
	}
}

// settingsIn are those of the role; empty ones where its service is off.
func (d *Definition) settingsIn(s spec.Services) *Settings {
	if own, ok := s.Get(d.Name).(*Settings); ok {
		return own
	}
	return d.NewSettings()
}

// ProgramNames are the names of the programs: the role's for the first service, and the role's with that of the unit
// for others.
func (d *Definition) ProgramNames() []string {
	var out []string
	for i, unit := range d.Services() {
		name := d.Name
		if i > 0 {
			stem := strings.TrimSuffix(unit, ".service")
			name += "-" + strings.NewReplacer("@", "-", ".", "-", ":", "-").Replace(stem)
		}
		out = append(out, name)
	}
	return out
}

// renderer is what renders files and runs the commands of health and of tests, of this source tree: agent/spore-role.
const renderer = "spore-role"

func (d *Definition) programRows() []service.Program {
	user := "root"
	if d.User != nil {
		user = d.User.Name
	}
	var out []service.Program
	names := d.ProgramNames()
	for i, unit := range d.Services() {
		p := service.Program{Name: names[i], Unit: unit, User: user}
		p.Secrets, p.NeedsSecrets = d.Entries(), d.namesSecrets()
		if i == 0 {
			// What is in programs/ is in the image whatever the roles are.
			p.Packages, p.Ports = d.Packages, d.portRows()
		}
		if len(d.Files) > 0 || d.AsksByCommand() || len(d.Tests) > 0 || d.Disks != nil || d.HasQuotas() {
			p.Own = []string{renderer}
		}
		out = append(out, p)
	}
	return out
}

// namesSecrets tells whether a file may have secrets that settings name.
func (d *Definition) namesSecrets() bool {
	return slices.ContainsFunc(d.Files, func(f File) bool {
		return slices.ContainsFunc(f.Secrets, func(name string) bool { return strings.HasPrefix(name, SettingSecrets) })
	})
}

func (d *Definition) portRows() []service.Port {
	var out []service.Port
	for _, p := range d.Ports {
		port := service.Port{Protocol: cmp.Or(p.Protocol, TCP), First: p.Port, Last: p.To, For: p.For,
			At: scopeOf[p.At]}
		if p.Setting != "" {
			port.Setting = d.Name + "." + p.Setting
		}
		out = append(out, port)
	}
	return out
}

var scopeOf = map[string]service.Scope{"": service.Everywhere, Everywhere: service.Everywhere, Node: service.Node,
	Loopback: service.Loopback}

func (d *Definition) authorityRows() []service.AuthorityRow {
	var out []service.AuthorityRow
	for _, name := range d.Authorities() {
		row := service.AuthorityRow{Name: name, Kind: service.CA, Title: "Spore " + name + " CA"}
		for _, s := range d.SecretNames() {
			if d.AuthorityOf(s) == name {
				row.Usage |= usageOf(d.Secrets[s].Certificate)
			}
		}
		out = append(out, row)
	}
	return out
}

func usageOf(c *Certificate) service.Usage {
	if len(c.Usage) == 0 {
		return service.Server
	}
	var out service.Usage
	for _, use := range c.Usage {
		out |= map[string]service.Usage{ForServer: service.Server, ForClient: service.Client}[use]
	}
	return out
}

func (d *Definition) leafRows() []service.LeafRow {
	var out []service.LeafRow
	for _, name := range d.SecretNames() {
		c := d.Secrets[name].Certificate
		if c == nil {
			continue
		}
		out = append(out, service.LeafRow{
			Name: d.Name + "-" + name, Authority: d.AuthorityOf(name), Roles: []string{d.Name}, CommonName: "{node}",
			SANs: append(slices.Clone(c.Names), service.OwnNames...), Usage: usageOf(c),
			Certificate: name + CertificateEnding, Key: name + KeyEnding,
		})
	}
	return out
}

// renewalRows are for programs that a signal tells of new certificates. Others are restarted.
func (d *Definition) renewalRows() []service.Renewal {
	signal := d.Signal()
	if signal == "" {
		return nil
	}
	var out []service.Renewal
	for _, name := range d.ProgramNames() {
		out = append(out, service.Renewal{Program: name, Leaves: service.Signals, Signal: signal})
	}
	return out
}

func (d *Definition) secretRows() []service.SecretRow {
	var out []service.SecretRow
	for _, name := range d.SecretNames() {
		s := d.Secrets[name]
		if s.Certificate != nil {
			continue
		}
		row := service.SecretRow{Name: name, Roles: []string{d.Name}, Each: service.OneCluster,
			Form: service.FormPassword, Given: true}
		if s.Given {
			row.Form = service.FormGiven
		} else {
			row.Length, row.Alphabet = s.Letters()
		}
		out = append(out, row)
	}
	if d.namesSecrets() {
		out = append(out, service.SecretRow{
			Name: d.Name + SettingsEnding, Roles: []string{d.Name}, Each: service.OneUser, Entry: "{user-secret}",
			Form: service.FormPassword, Given: true,
		})
	}
	return out
}

// SettingsEnding is behind the role's name in the row of the secrets that its settings name.
const SettingsEnding = "-settings"

// userSecrets are the entries that settings name and that are not the role's own.
func (d *Definition) userSecrets(s spec.Services) []string {
	if !s.Has(d.Name) || !d.namesSecrets() {
		return nil
	}
	own := d.Entries()
	return slices.DeleteFunc(d.settingsIn(s).Secrets(""), func(name string) bool { return slices.Contains(own, name) })
}

// liveRows have a row for each setting: what is restarted, or that it waits for the node's next start. The last is for
// settings that say nothing: they have no name, and are those of nodes with the role alone.
func (d *Definition) liveRows() []service.Live {
	units := map[string][]string{}
	for _, l := range d.Live {
		for _, name := range l.Settings {
			units[name] = append(units[name], l.Restart...)
		}
	}
	var out []service.Live
	for _, name := range slices.Sorted(maps.Keys(d.Settings)) {
		row := service.Live{Path: "services." + d.Name + "." + name, Units: units[name]}
		if len(row.Units) == 0 {
			row.Why = "roles/" + d.Name + ".yaml does not list it under live"
		}
		out = append(out, row)
	}
	return append(out, service.Live{
		Path: "services." + d.Name, Why: "the role is told at the start whether it has settings",
	})
}

// diskRows have the use of the role's disks.
func (d *Definition) diskRows() map[string]string {
	if d.Disks == nil {
		return nil
	}
	return map[string]string{d.Name: d.Name} // What else Use says is refused (package rules).
}

// memoryRows have what a rehearsal gives a machine for the role: what the file says, rounded up to MiB.
func (d *Definition) memoryRows() map[string]service.Memory {
	mib := int((d.Bytes() + 1<<20 - 1).MiB())
	if mib == 0 {
		mib = defaultMemory
	}
	return map[string]service.Memory{d.Name: func(*facts.Cluster, *facts.Node) int { return mib }}
}

// defaultMemory is for a role that says nothing, in MiB.
const defaultMemory = 128

// dataRows say what the role keeps on a node. Nobody said which versions of its program read it.
func (d *Definition) dataRows() []dataversion.Row {
	row := dataversion.Row{Name: d.Name, Roles: []string{d.Name}}
	switch {
	case len(d.Packages) > 0:
		row.Package = d.Packages[0]
	case len(d.Programs) > 0:
		row.Payload = "programs/" + d.Programs[0]
	default:
		return nil
	}
	var paths []string
	for _, dir := range d.Directories {
		if strings.HasPrefix(dir.Path, "/var/") {
			paths = append(paths, "`"+dir.Path+"`")
		}
	}
	if d.Disks != nil {
		paths = append(paths, "`"+d.Disks.At+"`")
	}
	if len(paths) == 0 {
		row.Rule = "every release: the role names no directory that lasts"
		return []dataversion.Row{row}
	}
	row.Keeps = strings.Join(paths, ", ")
	row.Rule = "the role says nothing of what older releases read"
	row.Judge = func(newer, older dataversion.Version) (dataversion.Verdict, string) {
		return dataversion.Unknown, fmt.Sprintf("the role says nothing of whether %s reads what %s wrote",
			older.Series(), newer.Series())
	}
	return []dataversion.Row{row}
}
