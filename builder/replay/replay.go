// Package replay does to a tree in memory what the maintainer scripts of Debian packages do in a chroot in which they
// are installed for the first time (Debian Policy 6). It starts no process and reads nothing of the machine that
// builds; the same packages give the same tree. What cannot be replayed is an error that names package, script, line
// and command, and the key of image.yaml that takes the decision instead.
package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"spore/builder/accounts"
	"spore/builder/replay/accountcmd"
	"spore/builder/replay/command"
	"spore/builder/replay/debian"
	"spore/builder/replay/files"
	"spore/builder/replay/fileutils"
	"spore/builder/replay/shell"
	"spore/builder/replay/text"
	"spore/builder/tree"
)

// Package is a package with its scripts.
type Package struct {
	Name, Version string
	// Status is the control paragraph.
	Status []byte
	// Conffiles are absolute paths.
	Conffiles []string
	// Scripts are files of the control archive by name: preinst, postinst, config, templates, triggers.
	Scripts map[string][]byte
	// Paths lists what the package ships. May be nil.
	Paths func() []string
	// Skip names scripts that the configuration leaves out: preinst, postinst, config, triggers.
	Skip []string
}

// OnNode is what a unit does on the node in the place of scripts of one package.
type OnNode = debian.OnNode

// Options say what is replayed where.
type Options struct {
	Tree     *tree.Tree
	Accounts *accounts.DB
	// Answers of debconf by package and question, before the defaults of the package.
	Answers map[string]map[string]string
	// OnNode has, by package, the commands that make secrets and that a unit runs on the node instead.
	OnNode map[string]OnNode
	// Time bounds a script that no other bound ends; 0 is two minutes.
	Time time.Duration
}

// Replay is the state of one image while its packages are installed. It is for one goroutine.
type Replay struct {
	files    *files.Files
	tools    *debian.Tools
	accounts *accounts.DB
	shell    *shell.Shell
	order    []*Package
	failed   []error
}

// New prepares the replay of all packages of an image. Their scripts run by Preinst and Configure.
func New(packages []Package, o Options) (*Replay, error) {
	order, err := configureOrder(packages)
	if err != nil {
		return nil, err
	}
	f := files.New(o.Tree)
	known := map[string]debian.Package{}
	for _, p := range packages {
		known[p.Name] = debian.Package{Version: p.Version, Conffiles: p.Conffiles, Paths: p.Paths}
	}
	r := &Replay{files: f, accounts: o.Accounts, order: order, tools: debian.New(f, o.Accounts, known, o.Answers, o.OnNode)}
	commands := command.Table{}
	for _, table := range []command.Table{text.Commands(), fileutils.Commands(o.Accounts), accountcmd.Commands(o.Accounts), r.tools.Commands()} {
		maps.Copy(commands, table)
	}
	r.shell = &shell.Shell{
		User: func(name string) (shell.User, bool) {
			u, ok := o.Accounts.User(name)
			gid, _ := o.Accounts.PrimaryGroup(name)
			uid, _ := o.Accounts.UserID(name)
			return shell.User{UID: uid, GID: gid, Home: u.Home}, ok
		},
		Files: f, Commands: commands, Questions: r.tools.Questions(), Time: o.Time,
		Sourced: map[string]string{debian.Confmodule: "", debian.Confmodule + ".sh": ""},
	}
	return r, nil
}

// Preinst runs what a package does before it is unpacked. A script that cannot be replayed is an error of Configure.
func (r *Replay) Preinst(ctx context.Context, p *Package) error {
	r.tools.Begin(p.Name)
	if text := p.Scripts["templates"]; text != nil {
		if err := r.tools.LoadTemplates(p.Name, text); err != nil {
			return fmt.Errorf("package %s: %w", p.Name, err)
		}
	}
	r.run(ctx, p, "preinst", "install")
	return nil
}

// Divert returns where a path of a package is laid, since another package has diverted it.
func (r *Replay) Divert(pkg, p string) string { return r.tools.Divert(pkg, p) }

// Configure runs what all packages do behind their unpacking, each behind those that it depends on, and then the
// triggers that others have activated. now is the time that they read, in seconds since the epoch. The error has every
// script that cannot be replayed, those of Preinst too.
func (r *Replay) Configure(ctx context.Context, now int64) error {
	r.files.MTime = now
	for _, p := range slices.Sorted(maps.Keys(r.tools.Overrides())) {
		if err := r.tools.Override(p); err != nil {
			return fmt.Errorf("dpkg-statoverride %s: %w", p, err)
		}
	}
	if err := r.accounts.Write(r.files); err != nil {
		return err
	}
	for _, p := range r.order {
		r.tools.Begin(p.Name)
		if p.Scripts["postinst"] == nil || slices.Contains(p.Skip, "postinst") {
			continue
		}
		r.run(ctx, p, "config", "configure", "")
		r.run(ctx, p, "postinst", "configure", "")
	}
	r.triggers(ctx)
	if len(r.failed) > 0 {
		return errors.Join(r.failed...)
	}
	return r.sweep()
}

// triggers runs the postinst of packages for the triggers that others have activated behind its own configuration
// (deb-triggers(5)). Those of files are for what the recipe has done once for all packages, or for caches: a package
// that has only these is not run.
func (r *Replay) triggers(ctx context.Context) {
	active := map[string]bool{}
	for _, name := range r.tools.Triggers() {
		active[name] = true
	}
	for _, p := range r.order {
		for _, f := range directives(p, "activate") {
			active[f] = true
		}
	}
	for _, p := range r.order {
		var names []string
		for _, name := range directives(p, "interest") {
			if active[name] {
				names = append(names, name)
			}
		}
		if len(names) == 0 || p.Scripts["postinst"] == nil || slices.Contains(p.Skip, "triggers") {
			continue
		}
		r.tools.Begin(p.Name)
		r.run(ctx, p, "postinst", "triggered", strings.Join(names, " "))
	}
}

// directives are the names behind a directive of a triggers file, with and without "-await" and "-noawait".
func directives(p *Package, kind string) []string {
	var out []string
	for line := range strings.Lines(string(p.Scripts["triggers"])) {
		f := strings.Fields(line)
		if len(f) == 2 && (f[0] == kind || strings.HasPrefix(f[0], kind+"-")) {
			out = append(out, f[1])
		}
	}
	return out
}

// run runs one script, and keeps the error of one that cannot be replayed: whoever builds wants to know of all of them.
func (r *Replay) run(ctx context.Context, p *Package, name string, args ...string) {
	text, ok := p.Scripts[name]
	if !ok || slices.Contains(p.Skip, name) {
		return
	}
	key := name
	switch {
	case args[0] == "triggered":
		key = "triggers"
	case name == "config":
		key = "postinst" // which asks for its answers, and is skipped with it
	}
	if done[p.Name+"."+name] != "" {
		return
	}
	if other, ok := instead[p.Name+"."+name]; ok {
		text = []byte(other)
	}
	if i := shell.Interpreter(text); i != "sh" && i != "bash" && i != "dash" && i != "" {
		r.failed = append(r.failed, &Error{p.Name, key, &shell.Unreplayed{What: "the script", Why: "it is written in " + i + ", and only shell scripts are replayed"}})
		return
	}
	r.files.Origin = "script:" + p.Name + "." + name
	err := r.shell.Run(ctx, shell.Script{
		Path: "/var/lib/dpkg/info/" + p.Name + "." + name, Name: p.Name + "." + name, Text: string(text), Args: args,
		Env: []string{
			"DPKG_MAINTSCRIPT_PACKAGE=" + p.Name, "DPKG_MAINTSCRIPT_NAME=" + name, "DPKG_MAINTSCRIPT_ARCH=amd64", "DPKG_MAINTSCRIPT_PACKAGE_REFCOUNT=1",
			"DPKG_RUNNING_VERSION=1.22.21", "DPKG_ADMINDIR=/var/lib/dpkg", "DPKG_ROOT=", "DEBIAN_FRONTEND=noninteractive",
		},
	})
	if err != nil {
		r.failed = append(r.failed, &Error{p.Name, key, err})
	}
}

// Error is a script that cannot be replayed.
type Error struct {
	// Package is the package, Script what image.yaml calls its script.
	Package, Script string
	Err             error
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("package %s: %s: %v; look at what the script does, and take the decision in image.yaml: scripts: {%[1]s: {skip: [%[2]s]}}, "+
		"with the users, groups, modes and links beside it that the package needs", e.Package, e.Script, e.Err)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// sweep removes what scripts left where each boot begins with nothing.
func (r *Replay) sweep() error {
	for _, p := range r.files.Changed() {
		for _, dir := range []string{"/tmp", "/var/tmp", "/run"} {
			if !strings.HasPrefix(p, dir+"/") {
				continue
			}
			if err := r.files.RemoveAll(p); err != nil && !errors.Is(err, files.ErrRefused) {
				return fmt.Errorf("remove %s: %w", p, err)
			}
		}
	}
	return nil
}

// Units are the units that scripts enabled or masked.
func (r *Replay) Units() map[string]debian.Unit { return r.tools.Units() }

// Deferred are the packages of which a unit makes a secret on the node, sorted.
func (r *Replay) Deferred() []string { return r.tools.Deferred() }

// Notes are what scripts asked for and what is done elsewhere or not at all.
func (r *Replay) Notes() []debian.Note { return r.tools.Notes() }

// Changed returns the paths that scripts made, changed or removed and that are there now or are gone, sorted.
func (r *Replay) Changed() []string {
	return slices.DeleteFunc(r.files.Changed(), func(p string) bool { return path.Dir(p) == "/tmp" })
}
