package explain

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"

	"spore/builder/exposure"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/cluster/role/unit"
	"spore/cluster/units"
)

// analyzer is the program that knows how exposed a service is.
const analyzer = "systemd-analyze"

// Exposure is how much a service of a role of the configuration's own may do.
type Exposure struct {
	Unit string `json:"unit"`
	// Level is nil where nobody could tell, and Problem says why.
	Level   *exposure.Level `json:"level,omitempty"`
	Problem string          `json:"problem,omitempty"`
	// Elsewhere says that units/ does not have the unit itself: the level is that of what the role lays over it.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// note is what the figure is of.
func (e Exposure) note() string {
	switch {
	case e.Level == nil:
		return e.Problem
	case e.Elsewhere:
		return fmt.Sprintf("%.1f %s, by what the role lays over the unit, which is not in units/", e.Level.Figure,
			e.Level.Word)
	}
	return fmt.Sprintf("%.1f %s", e.Level.Figure, e.Level.Word)
}

// exposures asks about all services of a node's roles of the configuration's own.
func exposures(ctx context.Context, c *cluster.Config, n *facts.Node) []Exposure {
	var out []Exposure
	program, missing := exec.LookPath(analyzer)
	for _, d := range c.Roles {
		if !slices.Contains(n.Roles, d.Name) {
			continue
		}
		for _, name := range d.Services() {
			e := Exposure{Unit: name}
			if missing != nil {
				e.Problem = analyzer + " is not on this machine"
				out = append(out, e)
				continue
			}
			files, own := textsOf(c, d, name)
			e.Elsewhere = !own
			if level, err := exposure.Of(ctx, program, name, files); err != nil {
				e.Problem = err.Error()
			} else {
				e.Level = &level
			}
			out = append(out, e)
		}
	}
	return out
}

// bare stands for a unit whose text is in a package.
const bare = "[Service]\nExecStart=/usr/bin/true\n"

// textsOf are the texts of a service with its drop-ins; own is false where units/ does not have the unit itself.
func textsOf(c *cluster.Config, d *role.Definition, name string) (files map[string]string, own bool) {
	files = map[string]string{name: bare}
	for _, f := range c.Units {
		switch {
		case f.DropIn() && (f.Unit() == name || f.Unit() == units.Template(name)):
			files[f.Path] = string(f.Data)
		case f.Path == name, f.Path == units.Template(name) && !own:
			// An instance is read from its template.
			files[name], own = string(f.Data), true
		}
	}
	prefix := name + ".d/"
	for at, text := range unit.DropIns(d) {
		if at == prefix+unit.DropIn {
			files[at] = text
		}
	}
	return files, own
}

func printExposures(w io.Writer, list []Exposure) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "exposure of the services of own roles, from 0 to 10, by systemd-analyze security of this machine")
	for _, e := range list {
		fmt.Fprintf(w, "  %s: %s\n", e.Unit, e.note())
	}
}
