package recipe

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"spore/builder/tree"
	ownunits "spore/cluster/units"
	"spore/cluster/units/unitfile"
)

// RoleFile is a text that an image has for a role of the configuration's own, such as its target.
type RoleFile struct {
	// Path is where it lies in the image, and Source the file of the configuration folder that it follows from.
	Path, Source string
	Text         string
	// Before is a service whose own ExecStartPre= lines come behind the text; empty for other texts. The text begins the
	// list anew and ends in the section [Service].
	Before string
}

// RoleUnit is a unit that a role of the configuration's own starts.
type RoleUnit struct {
	// Name is the unit, and At where the role names it, such as roles/valkey.yaml:6:9.
	Name, At string
}

// checkRoleUnits finds units that the root does not have: nothing would start, and nobody would say so.
func (b *build) checkRoleUnits(wrong *ownProblems) {
	for _, u := range b.opts.Starts {
		if !b.hasUnit(u.Name) {
			wrong.add("%s: the image has no unit %s, which the role starts; write it into units/, or name the package "+
				"that has it under packages", u.At, u.Name)
			continue
		}
		for _, s := range ownunits.StartsOthers(b.packageFiles(u.Name), u.Name) {
			wrong.add("%s: %s of the package has %s, and the user and hardening of the role are those of the service of its "+
				"own name; write a %s of units/ that starts that", u.At, u.Name, s.Says, strings.TrimPrefix(path.Ext(u.Name), "."))
		}
	}
}

// packageFiles are the file and the drop-ins that packages have of a unit, or of the template of an instance. What
// units/ has in their place, the rules of roles have looked at.
func (b *build) packageFiles(unit string) []ownunits.File {
	var out []ownunits.File
	for _, name := range slices.Compact([]string{unit, ownunits.Template(unit)}) {
		at := path.Join(packageUnits, name)
		files := []string{at}
		for _, child := range b.tree.Children(at + ".d") {
			files = append(files, path.Join(at+".d", child))
		}
		if b.tree.Exists(path.Join(localUnits, name)) {
			files = files[1:]
		}
		for _, file := range files {
			data, err := b.tree.ReadFile(file)
			if err != nil {
				continue // It is a link to nothing, or there is no such one.
			}
			settings, _ := unitfile.Parse(data, path.Ext(unit))
			out = append(out, ownunits.File{Path: strings.TrimPrefix(file, packageUnits+"/"), Data: data, Settings: settings})
		}
	}
	return out
}

// layRoles lays them in before the scripts, since accounts are among them. None takes the place of a file, and no unit
// that of a unit of a package.
func layRoles(b *build) error {
	for _, f := range b.opts.Roles {
		places := []string{f.Path}
		if path.Dir(f.Path) == localUnits {
			places = append(places, path.Join(packageUnits, path.Base(f.Path)))
		}
		for _, p := range places {
			if old, err := b.tree.Lstat(p); err == nil {
				return fmt.Errorf("%s: %s is there already, of %s; write another name", f.Source, p, ownerOf(old))
			}
		}
		n := &tree.Inode{
			Type: tree.Regular, Mode: 0o644, Content: tree.Bytes([]byte(f.Text)), Origin: "configuration:" + f.Source,
		}
		if err := b.add(f.Path, n, "from the configuration"); err != nil {
			return err
		}
	}
	return nil
}

// ofRolesAlone tells whether a unit is of a package that roles of the configuration's own name themselves, and that
// image.yaml does not name. What packages depend on is not looked at: it starts as it does without roles, and a
// package counts as a role's also where one of image.yaml depends on it.
func (b *build) ofRolesAlone(unit string) bool {
	n, err := b.tree.Lstat(unit)
	if err != nil || b.namedOrigin(n) {
		return false
	}
	name := packageOf(n.Origin)
	for _, own := range b.opts.Services.OwnNames() {
		row, _ := b.opts.Services.Find(own)
		for _, p := range row.Programs {
			if b.programs[p.Name] && slices.Contains(p.Packages, name) {
				return true
			}
		}
	}
	return false
}

// orderRoleStarts puts what services of roles do before they start behind what the role makes for them: systemd appends
// to such a list, and a service that reads a file of its role there would find none at its first start. It runs when
// all units are laid.
func orderRoleStarts(b *build) error {
	for _, f := range b.opts.Roles {
		if f.Before == "" {
			continue
		}
		own, err := b.startPre(f.Before, path.Base(f.Path))
		if err != nil {
			return fmt.Errorf("%s: %w", f.Source, err)
		}
		if len(own) == 0 {
			continue
		}
		n, err := b.tree.Lstat(f.Path)
		if err != nil {
			return err
		}
		text := f.Text + "# What the unit itself has.\n"
		for _, line := range own {
			text += startPreKey + "=" + line + "\n"
		}
		n.Content = tree.Bytes([]byte(text))
	}
	return nil
}

// startPreKey is the setting with what runs before a service (systemd.service(5)).
const startPreKey = "ExecStartPre"

// startPre is what a service runs before it starts, by its unit and by the drop-ins that systemd reads before one of
// the given name. One behind that, which begins the list anew, is an error: nothing would be made for the service.
func (b *build) startPre(unit, before string) ([]string, error) {
	var out []string
	for _, file := range append(b.unitFile(unit), b.dropInsOf(unit)...) {
		data, err := b.tree.ReadFile(file)
		if err != nil {
			return nil, err
		}
		behind := path.Ext(path.Dir(file)) == ".d" && path.Base(file) > before
		settings, _ := unitfile.Parse(data, ".service")
		for _, s := range settings {
			switch {
			case s.Section != "Service" || s.Key != startPreKey || path.Base(file) == before:
			case s.Value == "" && behind:
				return nil, fmt.Errorf("%s begins %s= of %s anew, and takes away what makes the files of the role; "+
					"give it a name that comes before %s, such as 50-%s", file, startPreKey, unit, before, path.Base(file))
			case s.Value == "":
				out = nil
			case !behind:
				out = append(out, s.Value)
			}
		}
	}
	return out, nil
}

// unitFile is the path of a unit, or of the template of an instance; none where the root does not have it.
func (b *build) unitFile(unit string) []string {
	for _, name := range []string{unit, ownunits.Template(unit)} {
		for _, dir := range unitDirs {
			if n, err := b.tree.Stat(path.Join(dir, name)); err == nil && n.Type == tree.Regular {
				return []string{path.Join(dir, name)}
			}
		}
	}
	return nil
}

// dropInsOf are the drop-ins of a service and of its template. Those of the service hide those of its template.
func (b *build) dropInsOf(unit string) []string {
	byName := map[string]string{}
	for _, of := range []string{ownunits.Template(unit), unit} {
		for _, file := range b.dropIns(of) {
			byName[path.Base(file)] = file
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out
}
