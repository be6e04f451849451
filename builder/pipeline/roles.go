package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"spore/builder/recipe"
	"spore/cluster/role"
	"spore/cluster/role/unit"
	"spore/services/service"
)

// roleFiles are the texts that the root has for roles of the configuration's own: those whose programs are in it.
func (b *build) roleFiles() []recipe.RoleFile {
	var out []recipe.RoleFile
	for _, d := range b.Config.Roles {
		if !b.runs(d) {
			continue
		}
		files, prepared := unit.Files(d), unit.Prepared(d)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			out = append(out, recipe.RoleFile{
				Path: name, Source: role.Dir + "/" + d.Name + ".yaml", Text: files[name], Before: prepared[name],
			})
		}
	}
	return out
}

// roleStarts are the units that the roles of the root start.
func (b *build) roleStarts() []recipe.RoleUnit {
	var out []recipe.RoleUnit
	for _, d := range b.Config.Roles {
		if !b.runs(d) {
			continue
		}
		file := role.Dir + "/" + d.Name + ".yaml"
		for i, u := range d.Units {
			at := b.Config.At(file, "units", i)
			out = append(out, recipe.RoleUnit{Name: u, At: fmt.Sprintf("%s:%d:%d", file, at.Line, at.Column)})
		}
	}
	return out
}

// runs tells whether the root has the programs of a role.
func (b *build) runs(d *role.Definition) bool {
	names := d.ProgramNames()
	return slices.ContainsFunc(b.programs, func(p service.Program) bool { return slices.Contains(names, p.Name) })
}

// rolesKey is what the root has of roles, for its key. Without any, there is nothing.
func (b *build) rolesKey() []string {
	var out []string
	for _, f := range b.roleFiles() {
		out = append(out, "role", f.Path, f.Text, f.Before)
	}
	for _, u := range b.Config.RoleUnits() {
		out = append(out, "role unit", u)
	}
	for _, d := range b.Config.Roles { // Units of the packages of one do not start by themselves.
		if b.runs(d) {
			out = append(out, "role packages", d.Name, strings.Join(slices.Sorted(slices.Values(d.Packages)), " "))
		}
	}
	return out
}
