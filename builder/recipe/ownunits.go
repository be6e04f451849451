package recipe

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"spore/builder/tree"
	ownunits "spore/cluster/units"
	"spore/cluster/units/unitfile"
)

// layOwnUnits lays units/ of the configuration in.
func layOwnUnits(b *build) error {
	var wrong ownProblems
	for _, f := range b.opts.OwnUnits {
		to, hidden := path.Join(localUnits, f.Path), path.Join(packageUnits, f.Path)
		old, err := b.tree.Lstat(to)
		switch {
		case f.Masks() && !b.tree.Exists(hidden):
			wrong.add("%s:1: the file is empty, which masks a unit of a package, and no package has %s; "+
				"write the unit, or remove the file", f.Source(), f.Path)
			continue
		case err == nil && packageOf(old.Origin) == "":
			wrong.add("%s:1: %s is there already, of %s, and cannot be replaced; choose another name",
				f.Source(), to, ownerOf(old))
			continue
		}
		if old, err := b.tree.Stat(hidden); err == nil && !f.DropIn() && !f.Masks() {
			b.note("note", to, "takes the place of the unit of "+ownerOf(old)+"; a drop-in changes single settings")
		}
		n := &tree.Inode{Type: tree.Regular, Mode: 0o644, Content: tree.Bytes(f.Data)}
		n.Origin = configuration + f.Source()
		if err := b.layOwn(to, n); err != nil {
			return fmt.Errorf("%s: %w", f.Source(), err)
		}
	}
	if err := wrong.err(); err != nil {
		return err
	}
	return b.waitOnline()
}

// waitOnlineUnit reaches network-online.target when a card has an address (systemd-networkd-wait-online.service(8)).
const waitOnlineUnit = "systemd-networkd-wait-online.service"

// waitOnlineDropIn has one card with an address that others can reach be enough: a card without a cable never has one.
const waitOnlineDropIn = `[Service]
ExecStart=
ExecStart=/usr/lib/systemd/systemd-networkd-wait-online --any --operational-state=routable
`

// waitOnline enables what network-online.target waits for where a unit of the user's own wants that target: no unit of
// ours does.
func (b *build) waitOnline() error {
	unit := path.Join(packageUnits, waitOnlineUnit)
	if !slices.ContainsFunc(b.opts.OwnUnits, ownunits.File.WantsOnline) || !b.tree.Exists(unit) {
		return nil
	}
	dropIn := path.Join(localUnits, waitOnlineUnit+".d", "49-spore.conf")
	const why = "a unit of the configuration wants network-online.target"
	if err := b.file(dropIn, []byte(waitOnlineDropIn), 0o644, why); err != nil {
		return err
	}
	return b.enable(waitOnlineUnit, nil, unit)
}

// decideOwn tells whether units/ decides about a unit, and how: one with an [Install] section there, its own or that of
// a drop-in, is on, but for one that a role names, or of which it names an instance: to enable a template enables one.
func (b *build) decideOwn(unit string) (decided, on bool) {
	if slices.ContainsFunc(b.opts.RoleUnits, func(u string) bool { return u == unit || ownunits.Template(u) == unit }) {
		return true, false
	}
	for _, f := range b.opts.OwnUnits {
		if f.Unit() != unit {
			continue
		}
		decided = decided || !f.DropIn()
		on = on || f.Installs()
	}
	return decided || on, on
}

// checkOwnUnits finds accounts and units that units of the user name and that the image does not have.
func (b *build) checkOwnUnits(wrong *ownProblems) {
	for _, f := range b.opts.OwnUnits {
		if f.DropIn() && !b.hasUnit(f.Unit()) {
			wrong.add("%s:1: the image has no unit %s, which the drop-in is for; add its package, or remove the file",
				f.Source(), f.Unit())
		}
		if starts := f.Starts(); starts != "" && !strings.Contains(starts, "%") && !b.hasUnit(starts) {
			wrong.add("%s:1: the image has no unit %s, which it starts; write that into units/, or name another one",
				f.Source(), starts)
		}
		b.checkAliases(f, wrong)
		dynamic := slices.ContainsFunc(f.Settings, isDynamicUser)
		for _, s := range f.Settings {
			if why := b.wrongSetting(s, dynamic); why != "" {
				wrong.add("%s:%d: %s=%s: %s", f.Source(), s.Line, s.Key, s.Value, why)
			}
		}
	}
}

// checkAliases finds second names of a unit that a unit of a package has: the link would take its place. A unit that
// itself takes the place of a package's may have the second names of that.
func (b *build) checkAliases(f ownunits.File, wrong *ownProblems) {
	for _, s := range f.Settings {
		if s.Section != "Install" || s.Key != "Alias" {
			continue
		}
		for _, alias := range strings.Fields(s.Value) {
			name := expandUnit(alias, f.Unit())
			old, err := b.tree.Stat(path.Join(packageUnits, name))
			if err != nil {
				continue
			}
			if same, err := b.tree.Stat(path.Join(packageUnits, f.Unit())); err == nil && same == old {
				continue
			}
			wrong.add("%s:%d: Alias=%s takes the place of the unit of %s; choose another name, or put the whole unit into "+
				"%s/%s", f.Source(), s.Line, alias, ownerOf(old), ownunits.Dir, name)
		}
	}
}

// isDynamicUser tells whether systemd makes the user of a unit (systemd.exec(5), DynamicUser=).
func isDynamicUser(s unitfile.Setting) bool {
	return s.Key == "DynamicUser" && unitfile.Yes(s.Value)
}

// wrongSetting says what a setting names that the image does not have.
func (b *build) wrongSetting(s unitfile.Setting, dynamic bool) string {
	if s.Value == "" || strings.Contains(s.Value, "%") {
		return ""
	}
	_, user := b.accounts.UserID(s.Value)
	_, group := b.accounts.GroupID(s.Value)
	switch {
	case s.Key == "User" && !user && !dynamic && !isNumber(s.Value):
		return "the image has no such user; " + makeAccount + ", or write DynamicUser=yes"
	case s.Key == "Group" && !group && !dynamic && !isNumber(s.Value):
		return "the image has no such group; " + makeAccount
	case s.Section == "Install" && slices.Contains([]string{"WantedBy", "RequiredBy", "UpheldBy"}, s.Key):
		for _, unit := range strings.Fields(s.Value) {
			if !b.hasUnit(unit) && !ownunits.Ours(unit) { // Ours are not in every image.
				return fmt.Sprintf("the image has no %s, so that nothing starts the unit; write multi-user.target, "+
					"or timers.target for a timer", unit)
			}
		}
	}
	return ""
}

// hasUnit tells whether the root has a unit, or the template of an instance.
func (b *build) hasUnit(unit string) bool {
	return slices.ContainsFunc(unitDirs, func(dir string) bool {
		return b.tree.Exists(path.Join(dir, unit)) || b.tree.Exists(path.Join(dir, ownunits.Template(unit)))
	})
}

func isNumber(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

// ownLine is the line of a command in a unit of the user.
func (b *build) ownLine(c unitCommand) int {
	for _, f := range b.opts.OwnUnits {
		if configuration+f.Source() != c.origin {
			continue
		}
		for _, s := range f.Settings {
			commands, err := parseCommands(s.Value)
			if err == nil && s.Key == c.setting && slices.ContainsFunc(commands, func(o unitCommand) bool {
				return o.program == c.program
			}) {
				return s.Line
			}
		}
	}
	return 1
}
