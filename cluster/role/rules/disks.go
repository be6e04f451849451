package rules

import (
	"path"
	"slices"

	"spore/cluster/check"
	"spore/cluster/role"
	"spore/cluster/spec"
)

// stateHome is where disks of roles are mounted.
const stateHome = "/var/lib"

// disks checks what the role says of its disks, and that each node with the role has one.
func (c *checker) disks() {
	d := c.d.Disks
	if d == nil {
		return
	}
	p := c.in("disks")
	if c.file.Has("disks", "use") && d.Use != c.d.Name {
		c.Errorf(p.Then("use"), "the use of the disks is %q; write the name of the role: %s", check.Clip(d.Use), c.d.Name)
	}
	if c.d.User == nil {
		c.Errorf(p, "what is on the disks belongs to the user of the role, which names none; write user: {name: %s}",
			c.d.Name)
	}
	if c.file.Has("disks", "at") && c.path(p.Then("at"), d.At, []string{stateHome}) {
		c.mountPoint(p.Then("at"), d.At)
	}
	if c.Cluster == nil || c.Role == nil {
		return
	}
	for _, i := range c.MembersOf(c.d.Name) {
		has := func(d spec.Disk) bool { return d.Use == c.d.Name }
		if f, ok := c.NodeFile(i); ok && (f.Broken || slices.ContainsFunc(f.Content.Disks, has)) {
			continue
		}
		name := c.NodeName(i)
		c.Errorf(check.In(c.File, "nodes", i, "roles"), "node %s has the role %s, which asks for a disk, and no disk for "+
			"it; write nodes/%s.yaml with disks: [{use: %s, selector: {serial: …}}]", name, c.d.Name, name, c.d.Name)
	}
}

// mountPoint checks that the directory of the mount points is one of its own, in a directory that is there before the
// disks are.
func (c *checker) mountPoint(p check.Place, at string) {
	above := path.Dir(at)
	isOwn := func(path string) bool {
		return slices.ContainsFunc(c.d.Directories, func(d role.Directory) bool { return d.Path == path })
	}
	for i, dir := range c.d.Directories {
		if inside(dir.Path, at) {
			c.Errorf(p, "the disks are mounted in %q, and %s has the directory %q; write another path, such as %s-disks", at,
				c.in("directories", i).Where(), dir.Path, at)
			return
		}
	}
	for i, f := range c.d.Files {
		if inside(f.Path, at) {
			c.Errorf(p, "the disks are mounted in %q, and %s has the file %q; write another path, such as %s-disks", at,
				c.in("files", i).Where(), f.Path, at)
			return
		}
	}
	if above != stateHome && (path.Dir(above) != stateHome || !isOwn(above)) {
		c.Errorf(p, "the path %q is neither in %s nor in a directory of the role there; write one such as %s/%s-disks",
			check.Clip(at), stateHome, stateHome, c.d.Name)
	}
}
