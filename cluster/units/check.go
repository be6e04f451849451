package units

import (
	"path"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/units/unitfile"
	ours "spore/units"
)

// Ours says that a unit is one of Spore. Names that begin with spore- are kept for it, also for units that come with
// packages (builder/recipe/once).
func Ours(unit string) bool {
	names := ours.Names()
	return strings.HasPrefix(unit, "spore-") || slices.Contains(names, unit) || slices.Contains(names, Template(unit))
}

// Template is the template of an instance, a@.service of a@b.service; of any other unit, the unit itself.
func Template(unit string) string {
	kind := path.Ext(unit)
	if prefix, _, ok := strings.Cut(strings.TrimSuffix(unit, kind), "@"); ok {
		return prefix + "@" + kind
	}
	return unit
}

// networkOnline is reached when the machine has an address (systemd.special(7)).
const networkOnline = "network-online.target"

// lineOf is a file of units/ in which a place is a line.
type lineOf struct{ name string }

func (l lineOf) Path() string { return l.name }

// At takes the line as the one element of the path.
func (l lineOf) At(place ...any) (line, column int) {
	for _, p := range place {
		if n, ok := p.(int); ok {
			return n, 1
		}
	}
	return 1, 1
}

func (l lineOf) Has(...any) bool         { return true }
func (l lineOf) Faulty(line, _ int) bool { return false }

// Check checks what units say.
func Check(k *check.Checker, files []File) {
	for _, f := range files {
		c := checker{k, f, lineOf{f.Source()}}
		switch {
		case Ours(f.Unit()) && f.DropIn():
			c.fail(1, "%s is a unit of Spore, which takes no drop-ins: settings of services/ and nodes/ change "+
				"what it does", f.Unit())
		case Ours(f.Unit()):
			c.fail(1, "%s is the name of a unit of Spore; choose another one%s", f.Unit(), notPrefix(f.Unit()))
		case !f.DropIn() && isNeeded(f.Unit()):
			c.fail(1, "%s can neither be masked nor replaced: no machine works without it as systemd brings it; "+
				"write a drop-in into %s.d/", f.Unit(), f.Unit())
		}
		c.install()
		c.stops()
		c.delays(files)
		if !f.DropIn() && !f.Masks() {
			c.whole()
		}
		c.online(files)
	}
}

func notPrefix(unit string) string {
	if strings.HasPrefix(unit, "spore-") {
		return ", which does not begin with spore-"
	}
	return ""
}

type checker struct {
	k    *check.Checker
	file File
	at   lineOf
}

func (c checker) fail(line int, format string, args ...any) {
	c.k.Errorf(check.In(c.at, line), format, args...)
}

// install checks that enabling the unit leaves those of Spore, and those that each machine needs, alone.
func (c checker) install() {
	for _, s := range c.file.Settings {
		if s.Section != "Install" || !slices.Contains([]string{"Alias", "RequiredBy", "UpheldBy"}, s.Key) {
			continue
		}
		for _, name := range c.named(s) {
			switch {
			case s.Key == "Alias" && isNeeded(name):
				c.fail(s.Line, "Alias=%s takes the place of a unit that each machine needs; choose another name",
					check.Clip(name))
			case s.Key == "Alias" && Ours(name):
				c.fail(s.Line, "Alias=%s is the name of a unit of Spore; choose another one", check.Clip(name))
			case (s.Key == "RequiredBy" || s.Key == "UpheldBy") && Ours(name):
				c.fail(s.Line, "%s=%s lets a failure of this unit stop one of Spore; write WantedBy=%s",
					s.Key, check.Clip(name), check.Clip(name))
			}
		}
	}
}

// has finds a setting that is not empty.
func (c checker) has(section string, keys ...string) bool {
	return slices.ContainsFunc(c.file.Settings, func(s unitfile.Setting) bool {
		return s.Section == section && slices.Contains(keys, s.Key) && s.Value != ""
	})
}

// whole checks what systemd refuses to load: a unit that does nothing. Drop-ins may add what is missing, so that a unit
// that has some is left to systemd.
func (c checker) whole() {
	switch kind := path.Ext(c.file.Path); kind {
	case ".service":
		if !c.has("Service", "ExecStart", "ExecStop") && !c.has("Unit", "SuccessAction") {
			c.fail(1, "the service starts nothing, so that systemd would not load it; write ExecStart= with a "+
				"program into [Service]")
		}
	case ".timer":
		if !c.has("Timer", "OnActiveSec", "OnBootSec", "OnStartupSec", "OnUnitActiveSec", "OnUnitInactiveSec",
			"OnCalendar", "OnClockChange", "OnTimezoneChange") {
			c.fail(1, "the timer never elapses, so that systemd would not load it; write OnCalendar= or "+
				"OnBootSec= into [Timer]")
		}
	case ".mount", ".automount", ".swap":
		c.path(kind)
	}
}

// path checks that the name is that of the path, without which systemd does not load the unit (systemd.mount(5)).
func (c checker) path(kind string) {
	section, key := "Mount", "Where"
	switch kind {
	case ".automount":
		section = "Automount"
	case ".swap":
		section, key = "Swap", "What"
	}
	for _, s := range c.file.Settings {
		if s.Section != section || s.Key != key || s.Value == "" || strings.Contains(s.Value, "%") {
			continue
		}
		if kind == ".swap" && !strings.HasPrefix(s.Value, "/") { // UUID= and the like become a path on the machine
			continue
		}
		if want := EscapePath(s.Value) + kind; want != c.file.Path {
			c.fail(s.Line, "systemd loads a unit with %s=%s by the name %s alone; rename the file",
				s.Key, check.Clip(s.Value), check.Clip(want))
		}
		return
	}
	if !c.has(section, key) {
		c.fail(1, "the unit has no %s= in [%s], so that systemd would not load it; write the path", key, section)
	}
}

// EscapePath is a path as it stands in names of units (systemd-escape --path).
func EscapePath(p string) string {
	p = strings.Trim(path.Clean("/"+p), "/")
	if p == "" {
		return "-"
	}
	var out strings.Builder
	for i := range len(p) {
		switch c := p[i]; {
		case c == '/':
			out.WriteByte('-')
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == ':', c == '_', c == '.' && i > 0:
			out.WriteByte(c)
		default:
			const hex = "0123456789abcdef"
			out.WriteString(`\x` + string(hex[c>>4]) + string(hex[c&15]))
		}
	}
	return out.String()
}

// online warns of a unit that is after network-online.target and does not want it: nothing else starts that target.
func (c checker) online(files []File) {
	for _, s := range c.file.Settings {
		if s.Section != "Unit" || s.Key != "After" || !slices.Contains(strings.Fields(s.Value), networkOnline) {
			continue
		}
		if !slices.ContainsFunc(files, func(f File) bool { return f.Unit() == c.file.Unit() && f.WantsOnline() }) {
			c.k.Warningf(check.In(c.at, s.Line), "After=%s waits for nothing where no unit wants that target; add "+
				"Wants=%s",
				networkOnline, networkOnline)
		}
		return
	}
}

// WantsOnline says that a unit has network-online.target started.
func (f File) WantsOnline() bool {
	return slices.ContainsFunc(f.Settings, func(s unitfile.Setting) bool {
		return s.Section == "Unit" && slices.Contains([]string{"Wants", "Requires", "BindsTo", "Upholds"}, s.Key) &&
			slices.Contains(strings.Fields(s.Value), networkOnline)
	})
}
