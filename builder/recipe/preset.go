package recipe

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"spore/builder/tree"
)

// presetRule is one line of systemd.preset(5).
type presetRule struct {
	enable    bool
	pattern   string
	instances []string
}

// unitDirs are where units are, the first wins (systemd.unit(5), unit file load path).
var unitDirs = []string{localUnits, "/usr/local/lib/systemd/system", packageUnits}

// presetDirs likewise, for presets.
var presetDirs = []string{"/etc/systemd/system-preset", "/usr/local/lib/systemd/system-preset", presetDir}

// applyPresets enables units as `systemctl preset-all` would on a system that has no links yet: the first rule that
// matches decides. Unlike there, a unit that no rule names is on when a maintainer script of its package enables it:
// that is how a service of a package that image.yaml names runs. Of a package that roles of the configuration's own
// name, the units run that roles name: no other listens on nodes, with the role or without it.
func applyPresets(b *build) error {
	rules, err := b.presetRules()
	if err != nil {
		return err
	}
	units := map[string]string{} // name to path
	for i := len(unitDirs) - 1; i >= 0; i-- {
		for _, name := range b.tree.Children(unitDirs[i]) {
			p := path.Join(unitDirs[i], name)
			if n, err := b.tree.Stat(p); err == nil && n.Type == tree.Regular && isUnitName(name) {
				units[name] = p
			}
		}
	}
	names := slices.Sorted(maps.Keys(units))
	for _, name := range names {
		if n, err := b.tree.Lstat(units[name]); err != nil || n.Type == tree.Symlink {
			continue // another name of a unit
		}
		decided, on := b.decideOwn(name)
		var instances []string
		if !decided {
			decided, on, instances = match(rules, name)
		}
		if !decided {
			on = b.enabledByScript(name) && !b.ofRolesAlone(units[name])
		}
		if !on {
			continue
		}
		if err := b.enable(name, instances, units[name]); err != nil {
			return fmt.Errorf("enable %s: %w", name, err)
		}
	}
	return nil
}

var unitTypes = map[string]bool{
	".service": true, ".socket": true, ".target": true, ".mount": true, ".automount": true, ".path": true, ".timer": true,
	".slice": true, ".scope": true, ".swap": true, ".device": true,
}

func isUnitName(name string) bool { return unitTypes[path.Ext(name)] }

// presetRules reads the preset files in the order of their names; one in an earlier directory hides those of the same
// name.
func (b *build) presetRules() ([]presetRule, error) {
	files := map[string]string{}
	for i := len(presetDirs) - 1; i >= 0; i-- {
		for _, name := range b.tree.Children(presetDirs[i]) {
			if path.Ext(name) == ".preset" {
				files[name] = path.Join(presetDirs[i], name)
			}
		}
	}
	names := slices.Sorted(maps.Keys(files))
	var out []presetRule
	for _, name := range names {
		data, err := b.tree.ReadFile(files[name])
		if err != nil {
			return nil, err
		}
		rules, err := parsePreset(string(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", files[name], err)
		}
		out = append(out, rules...)
	}
	return out, nil
}

func parsePreset(text string) ([]presetRule, error) {
	var out []presetRule
	for i, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 || f[0][0] == '#' || f[0][0] == ';' {
			continue
		}
		if (f[0] != "enable" && f[0] != "disable" && f[0] != "ignore") || len(f) < 2 {
			return nil, fmt.Errorf("line %d: %q is not `enable PATTERN` or `disable PATTERN`", i+1, line)
		}
		if _, err := path.Match(f[1], ""); err != nil {
			return nil, fmt.Errorf("line %d: pattern %q: %w", i+1, f[1], err)
		}
		out = append(out, presetRule{enable: f[0] == "enable", pattern: f[1], instances: f[2:]})
	}
	return out, nil
}

// match finds the rule for a unit. Instances are those that a rule names for a template.
func match(rules []presetRule, name string) (decided, enable bool, instances []string) {
	for _, r := range rules {
		if ok, _ := path.Match(r.pattern, name); ok {
			return true, r.enable, r.instances
		}
	}
	return false, false, nil
}

// installSection is what enabling a unit reads (systemd.unit(5), [Install]).
type installSection struct {
	alias                          []string
	wantedBy, requiredBy, upheldBy []string
	defaultInstance                string
}

// enable makes the links of a unit's [Install] section in /etc/systemd/system. Also= is not followed: each unit is
// decided by its own preset rule.
func (b *build) enable(name string, instances []string, file string) error {
	in, err := b.install(name, file)
	if err != nil {
		return err
	}
	targets, err := instantiate(name, in.defaultInstance, instances)
	if err != nil {
		return err
	}
	for _, t := range targets {
		if err := b.linkUnit(t, file, in); err != nil {
			return err
		}
	}
	return nil
}

// instantiate returns the names that a unit is enabled under: its own, or instances when it is a template.
func instantiate(unit, fallback string, instances []string) ([]string, error) {
	ext := path.Ext(unit)
	prefix, isTemplate := strings.CutSuffix(strings.TrimSuffix(unit, ext), "@")
	if !isTemplate {
		return []string{unit}, nil
	}
	if len(instances) == 0 && fallback != "" {
		instances = []string{fallback}
	}
	var out []string
	for _, i := range instances {
		if i == "" || strings.Contains(i, "/") {
			return nil, fmt.Errorf("instance %q is not a name", i)
		}
		out = append(out, prefix+"@"+i+ext)
	}
	return out, nil
}

func (b *build) linkUnit(name, file string, in installSection) error {
	for _, l := range []struct {
		suffix string
		by     []string
	}{{".wants", in.wantedBy}, {".requires", in.requiredBy}, {".upholds", in.upheldBy}} {
		for _, by := range l.by {
			if err := b.unitLink(file, path.Join(localUnits, expandUnit(by, name)+l.suffix, name)); err != nil {
				return err
			}
		}
	}
	for _, alias := range in.alias {
		if err := b.unitLink(file, path.Join(localUnits, expandUnit(alias, name))); err != nil {
			return err
		}
	}
	return nil
}

func (b *build) unitLink(file, link string) error {
	if !strings.HasPrefix(path.Clean(link), localUnits+"/") {
		return fmt.Errorf("%s is outside of %s", link, localUnits)
	}
	if old, err := b.tree.Lstat(link); err == nil && old.Type != tree.Symlink {
		return fmt.Errorf("%s is a file already", link)
	}
	return b.link(file, link, "enabled by preset")
}

// expandUnit replaces the specifiers that [Install] allows and that units of Debian use.
func expandUnit(s, unit string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	stem := strings.TrimSuffix(unit, path.Ext(unit))
	prefix, instance, _ := strings.Cut(stem, "@")
	return strings.NewReplacer("%i", instance, "%p", prefix, "%n", unit, "%N", stem, "%%", "%").Replace(s)
}

// install reads the [Install] sections of a unit and of its drop-ins.
func (b *build) install(unit, file string) (installSection, error) {
	var in installSection
	data, err := b.tree.ReadFile(file)
	if err != nil {
		return in, err
	}
	in.read(string(data))
	for _, p := range b.dropIns(unit) {
		data, err := b.tree.ReadFile(p)
		if err != nil {
			return in, err
		}
		in.read(string(data))
	}
	return in, nil
}

// dropIns are the files that add to a unit, in the order in which systemd reads them; one in an earlier directory hides
// those of the same name.
func (b *build) dropIns(unit string) []string {
	files := map[string]string{}
	for i := len(unitDirs) - 1; i >= 0; i-- {
		dir := path.Join(unitDirs[i], unit+".d")
		for _, name := range b.tree.Children(dir) {
			p := path.Join(dir, name)
			if n, err := b.tree.Stat(p); path.Ext(name) == ".conf" {
				delete(files, name)
				if err == nil && n.Type == tree.Regular {
					files[name] = p
				}
			}
		}
	}
	names := slices.Sorted(maps.Keys(files))
	out := make([]string, 0, len(names))
	for _, name := range names {
		out = append(out, files[name])
	}
	return out
}

func (in *installSection) read(text string) {
	lists := map[string]*[]string{
		"Alias": &in.alias, "WantedBy": &in.wantedBy, "RequiredBy": &in.requiredBy, "UpheldBy": &in.upheldBy,
	}
	eachSetting(text, func(section, key, value string) {
		if section != "[Install]" {
			return
		}
		if key == "DefaultInstance" {
			in.defaultInstance = value
		}
		list := lists[key]
		if list == nil {
			return
		}
		if value == "" {
			*list = nil // an empty assignment clears the list
		}
		*list = append(*list, strings.Fields(value)...)
	})
}

// eachSetting calls fn for every line of a unit that sets something (systemd.syntax(7)).
func eachSetting(text string, fn func(section, key, value string)) {
	section := ""
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if line[0] == '[' {
			section = line
			continue
		}
		if key, value, ok := strings.Cut(line, "="); ok {
			fn(section, strings.TrimSpace(key), strings.TrimSpace(value))
		}
	}
}

// linkDefaultTarget makes multi-user.target the goal of each boot.
func linkDefaultTarget(b *build) error {
	if !b.tree.Exists(packageUnits + "/multi-user.target") {
		return nil
	}
	if err := b.tree.Remove(packageUnits + "/default.target"); err != nil {
		return err
	}
	return b.link("multi-user.target", packageUnits+"/default.target", "a server")
}
