package role

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"spore/cluster/role/setting"
	"spore/cluster/spec"
)

// Target is the systemd target that starts the units.
func (d *Definition) Target() string { return d.Name + ".target" }

// Folder is where the templates lie in the configuration.
func (d *Definition) Folder() string { return Dir + "/" + d.Name }

// Dir is the folder of roles in a configuration.
const Dir = "roles"

// Ending is how the names of templates end.
const Ending = ".tmpl"

// Services are the services among the units, and those that a timer, socket or path of them starts.
func (d *Definition) Services() []string {
	var out []string
	for _, u := range d.Units {
		if name := serviceOf(u); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// serviceOf is the service that a timer, socket or path starts, and a service itself.
func serviceOf(unit string) string { return strings.TrimSuffix(unit, path.Ext(unit)) + ".service" }

// Starters are the timers, sockets and paths that start a service of Triggered.
func (d *Definition) Starters(service string) []string {
	if slices.Contains(d.Units, service) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(d.Units), func(u string) bool { return serviceOf(u) != service })
}

// Triggered are the services that are not started with the role, but by a timer, socket or path.
func (d *Definition) Triggered() []string {
	return slices.DeleteFunc(d.Services(), func(name string) bool { return slices.Contains(d.Units, name) })
}

// PortNumber is the number of a port: that of its setting, where that gives one.
func (d *Definition) PortNumber(p Port, s spec.Services) int {
	if p.Setting == "" || !s.Has(d.Name) {
		return p.Port
	}
	return cmp.Or(d.settingsIn(s).Port(p.Setting), p.Port)
}

// AsksByCommand tells whether health is a command.
func (d *Definition) AsksByCommand() bool { return d.Health != nil && len(d.Health.Command) > 0 }

// HealthName is the name of the service and the timer that run the command of health, and of their directory in /run.
func (d *Definition) HealthName() string { return "spore-health-" + d.Name }

// DisksName is the name of the service that prepares the role's disks.
func (d *Definition) DisksName() string { return "spore-disks-" + d.Name }

// TestName is the name of the socket and of the service that run the tests.
func (d *Definition) TestName() string { return "spore-test-" + d.Name }

// TestSocket is where the tests are asked for, by a connection of which nothing is read.
func (d *Definition) TestSocket() string { return "/run/spore/test-" + d.Name + ".sock" }

// LogUnits are the units whose journal belongs to the role.
func (d *Definition) LogUnits() []string {
	if len(d.Logs) > 0 {
		return d.Logs
	}
	return d.Services()
}

// owner is the user of files and directories that name none.
func (d *Definition) owner() string {
	if d.User != nil {
		return d.User.Name
	}
	return "root"
}

// DirectoriesFilled are the directories with their defaults.
func (d *Definition) DirectoriesFilled() []Directory {
	out := slices.Clone(d.Directories)
	for i := range out {
		out[i].Owner = cmp.Or(out[i].Owner, d.owner())
		out[i].Group = cmp.Or(out[i].Group, out[i].Owner)
		out[i].Mode = cmp.Or(out[i].Mode, "0750")
	}
	return out
}

// Bytes is what the directory may fill; 0 where nothing holds it to a size.
func (d Directory) Bytes() setting.Size {
	size, err := setting.ParseSize(d.Quota)
	if err != nil {
		return 0
	}
	return size
}

// HasQuotas tells whether a directory of the role is held to a size.
func (d *Definition) HasQuotas() bool {
	return slices.ContainsFunc(d.Directories, func(dir Directory) bool { return dir.Quota != "" })
}

// FilesFilled are the files with their defaults.
func (d *Definition) FilesFilled() []File {
	out := slices.Clone(d.Files)
	for i := range out {
		out[i].Owner = cmp.Or(out[i].Owner, d.owner())
		out[i].Group = cmp.Or(out[i].Group, out[i].Owner)
		out[i].Mode = cmp.Or(out[i].Mode, "0640")
	}
	return out
}

// Permissions are the bits of a mode in octal digits; 0 where there is none.
func Permissions(mode string) uint32 {
	n, err := strconv.ParseUint(mode, 8, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// defaultLength is the number of characters of a secret.
const defaultLength = 24

// Letters are how many characters a secret has, and of which.
func (s Secret) Letters() (length int, alphabet string) {
	return cmp.Or(s.Length, defaultLength), Alphabets[cmp.Or(s.Alphabet, "alphanumeric")]
}

// SecretNames are the names of the secrets in their order.
func (d *Definition) SecretNames() []string { return slices.Sorted(maps.Keys(d.Secrets)) }

// Entries are the entries of the bundle that the role's own secrets are, in the order of their names.
func (d *Definition) Entries() []string {
	var out []string
	for _, name := range d.SecretNames() {
		if d.Secrets[name].Certificate == nil {
			out = append(out, name)
		} else {
			out = append(out, name+CertificateEnding, name+KeyEnding)
		}
	}
	return out
}

// What is behind the name of a certificate in the bundle.
const (
	CertificateEnding = "-certificate"
	KeyEnding         = "-key"
)

// Authorities are the authorities that sign the role's certificates, sorted.
func (d *Definition) Authorities() []string {
	var out []string
	for _, s := range d.Secrets {
		if s.Certificate != nil {
			out = append(out, d.authority(s.Certificate))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (d *Definition) authority(c *Certificate) string { return cmp.Or(c.Authority, d.Name) }

// AuthorityOf is the authority that signs a certificate.
func (d *Definition) AuthorityOf(name string) string {
	c := d.Secrets[name].Certificate
	if c == nil {
		return ""
	}
	return d.authority(c)
}

// Signal is what tells the units to read their certificates again; empty where they have to be restarted. The rules
// hold all certificates of a role to the same.
func (d *Definition) Signal() string {
	for _, name := range d.SecretNames() {
		if c := d.Secrets[name].Certificate; c != nil {
			return c.Signal
		}
	}
	return ""
}

// Bytes is the memory that a machine needs for the role; 0 where the file says nothing.
func (d *Definition) Bytes() setting.Size {
	size, err := setting.ParseSize(d.Memory)
	if err != nil {
		return 0
	}
	return size
}

// NeedsOf is what the units need; nothing where the file says nothing.
func (d *Definition) NeedsOf() Needs {
	if d.Needs == nil {
		return Needs{}
	}
	return *d.Needs
}
