package customize

import (
	"maps"
	"slices"

	"spore/cluster/check"
	"spore/cluster/role"
	"spore/cluster/role/unit"
	"spore/services"
)

// changedRoles refuses roles of the configuration's own whose part in the root is not the one that the image was built
// with: what the cluster part says of them would go with other units. Settings, templates and files are in the cluster
// part alone.
func (c *Change) changedRoles() check.Report {
	var report check.Report
	old, config := c.original, c.options.Config
	for _, d := range config.Roles {
		own, _ := services.Of(&old.cluster).Own(d.Name)
		was, known := own.(*role.Definition)
		if !known || !inRoot(d, old.manifest.Programs) || sameInRoot(was, d) {
			continue // The check of programs tells of a role that the image does not have.
		}
		p := config.At(role.Dir + "/" + d.Name + ".yaml")
		p.Message = "the image has other units, users, directories, disks, tests or needs of this role; build the image again"
		report = append(report, p)
	}
	return report
}

// inRoot tells whether a root with these programs has the units of a role.
func inRoot(d *role.Definition, programs []string) bool {
	return slices.ContainsFunc(d.ProgramNames(), func(name string) bool { return slices.Contains(programs, name) })
}

// sameInRoot tells whether two forms of a role have the same texts in the root, but for the description in them.
func sameInRoot(was, is *role.Definition) bool {
	described := *is
	described.Description = was.Description
	return maps.Equal(unit.Files(was), unit.Files(&described))
}
