// Package debian holds the commands of Debian's own tools that maintainer scripts call: dpkg and its helpers,
// alternatives, diversions, overrides, debconf, ucf, and those that tell systemd of units. They do what they would do
// in a chroot in which the packages are installed for the first time (Debian Policy 6, deb-systemd-helper(1p),
// debconf-devel(7), ucf(1)).
package debian

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
)

// Names answers what accounts an image has. An unknown name answers false.
type Names interface {
	UserID(name string) (uint32, bool)
	GroupID(name string) (uint32, bool)
}

// Package is what dpkg knows of one package of the image.
type Package struct {
	Version string
	// Conffiles are absolute paths.
	Conffiles []string
	// Paths lists what the package ships, for dpkg -L. May be nil.
	Paths func() []string
}

// Tools are the tools with what they remember. They are for one replay.
type Tools struct {
	files    *files.Files
	names    Names
	packages map[string]Package

	// current is the package whose script runs.
	current      string
	diversions   map[string]Diversion
	overrides    map[string]Override
	alternatives map[string]*alternative
	debconf      *debconf
	triggers     map[string]bool
	units        map[string]Unit
	notes        []Note
	// onNode has, by package, the commands that a unit runs on the node instead; deferred are the packages whose
	// scripts called one.
	onNode   map[string]OnNode
	deferred map[string]bool
}

// Note is something that a script asked for and that is not done at build.
type Note struct {
	Package, Command, Why string
}

// OnNode is what a unit does on the node in the place of scripts of one package.
type OnNode struct {
	// Commands are those that it runs.
	Commands []string
	// Says is what they print where a script asks for it. What the script makes of it is among Makes.
	Says string
	// Makes are the files that are there behind them, since scripts go on with these: they are empty and for root
	// alone. Whoever lays the unit in removes them.
	Makes []string
}

// Unit is what scripts asked of a unit of systemd.
type Unit struct {
	// Package is the package whose script asked.
	Package         string
	Enabled, Masked bool
}

// New returns the tools of one replay. answers are those of debconf by package and question; onNode has, by package,
// the commands that make secrets and that a unit runs on the node.
func New(f *files.Files, names Names, packages map[string]Package, answers map[string]map[string]string, onNode map[string]OnNode) *Tools {
	return &Tools{
		files: f, names: names, packages: packages,
		diversions: map[string]Diversion{}, overrides: map[string]Override{}, alternatives: map[string]*alternative{},
		debconf: newDebconf(answers), triggers: map[string]bool{}, units: map[string]Unit{},
		onNode: onNode, deferred: map[string]bool{},
	}
}

// Begin says whose script runs next.
func (t *Tools) Begin(pkg string) { t.current = pkg }

// Units are the units that scripts enabled or masked, by name.
func (t *Tools) Units() map[string]Unit { return maps.Clone(t.units) }

// Deferred are the packages of which a unit makes a secret on the node, sorted.
func (t *Tools) Deferred() []string { return slices.Sorted(maps.Keys(t.deferred)) }

// Notes are what scripts asked for and what is not done at build, in order.
func (t *Tools) Notes() []Note { return slices.Clone(t.notes) }

// Triggers are the names that scripts activated with dpkg-trigger, sorted.
func (t *Tools) Triggers() []string { return slices.Sorted(maps.Keys(t.triggers)) }

// Commands are the tools by name.
func (t *Tools) Commands() command.Table {
	out := command.Table{
		"dpkg": t.dpkg, "dpkg-query": t.dpkgQuery, "dpkg-divert": t.dpkgDivert, "dpkg-statoverride": t.dpkgStatoverride,
		"dpkg-maintscript-helper": maintscriptHelper, "dpkg-trigger": t.dpkgTrigger, "dpkg-architecture": dpkgArchitecture, "arch": arch, "dpkg-realpath": dpkgRealpath,
		"update-alternatives": t.updateAlternatives,
		"ucf":                 t.ucf, "ucfr": status(0), "ucfq": status(0),
		"deb-systemd-helper": t.systemdHelper, "systemctl": t.systemctl,
		"systemd-tmpfiles":    t.tmpfiles,
		"debconf-communicate": status(1), "debconf-set-selections": status(0), "debconf-escape": status(1),
		"update-locale": t.updateLocale, "lighty-enable-mod": t.lightyEnable,
		"a2enmod": t.a2enable("mods", ".load", ".conf"), "a2dismod": t.a2disable("mods", ".load", ".conf"),
		"a2enconf": t.a2enable("conf", ".conf"), "a2disconf": t.a2disable("conf", ".conf"),
		"a2ensite": t.a2enable("sites", ".conf"), "a2dissite": t.a2disable("sites", ".conf"),
	}
	for name, r := range undone {
		out[name] = t.undone(r)
	}
	for minor := 9; minor < 40; minor++ {
		out[fmt.Sprintf("python3.%d", minor)] = python
	}
	out["python3"] = python
	for _, o := range t.onNode {
		for _, name := range o.Commands {
			out[name] = t.secret(name)
		}
	}
	for name := range secrets {
		out[name] = t.secret(name)
	}
	return out
}

// status is a command that does nothing and answers with a status.
func status(n int) command.Func {
	return func(context.Context, *command.Call) (int, error) { return n, nil }
}

// row is a command that does nothing at build.
type row struct {
	// why says where its work is done, or why nobody needs it.
	why    string
	status int
	// quiet ones are not worth a note: that nothing runs at build is what everybody expects.
	quiet bool
}

func (t *Tools) undone(r row) command.Func {
	return func(_ context.Context, c *command.Call) (int, error) {
		if n := (Note{t.current, c.Name, r.why}); !r.quiet && !slices.Contains(t.notes, n) {
			t.notes = append(t.notes, n)
		}
		return r.status, nil
	}
}
