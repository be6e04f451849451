package explain

import (
	"slices"

	"spore/builder/manifest"
	"spore/builder/needs"
	"spore/cluster"
	"spore/cluster/units"
)

// OwnFile is a file of overlay/ or units/ as the root has it.
type OwnFile struct {
	manifest.OwnFile
	// Enabled says that a unit is started with another one on every machine: it has an [Install] section, and no role
	// names it.
	Enabled bool `json:"enabled,omitempty"`
	// Masks says that the file keeps a unit of a package from running.
	Masks bool `json:"masks,omitempty"`
}

// ownFiles are all but the directories that files are in.
func ownFiles(c *cluster.Config) []OwnFile {
	var out []OwnFile
	for _, f := range needs.OwnFiles(c) {
		if f.Type == "dir" {
			continue
		}
		own := OwnFile{OwnFile: f}
		if n := slices.IndexFunc(c.Units, func(u units.File) bool { return u.Source() == f.From }); n >= 0 {
			u := c.Units[n]
			own.Enabled, own.Masks = u.Installs() && !slices.Contains(c.RoleUnits(), u.Unit()), u.Masks()
		}
		out = append(out, own)
	}
	return out
}

// note says what the path does not.
func (f OwnFile) note() string {
	switch {
	case f.Masks:
		return ", masks the unit of a package"
	case f.Enabled:
		return ", enabled"
	case f.Target != "":
		return ", a link to " + f.Target
	case f.Owner != "root" || f.Group != "root" || f.Mode != "0644":
		return ", " + f.Owner + ":" + f.Group + " " + f.Mode
	}
	return ""
}

// OwnProgram is a program of programs/.
type OwnProgram struct {
	Name        string `json:"name"`
	From        string `json:"from"`
	Description string `json:"description,omitempty"`
	// Paths are where it lies in the root, its links included.
	Paths []string `json:"paths"`
}

func ownPrograms(c *cluster.Config) []OwnProgram {
	var out []OwnProgram
	for _, p := range c.Programs {
		out = append(out, OwnProgram{p.Name, p.FileName(), p.Description, p.Targets()})
	}
	return out
}

// note is the description.
func (p OwnProgram) note() string {
	if p.Description == "" {
		return ""
	}
	return ", " + p.Description
}
