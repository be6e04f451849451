package explain

import (
	"fmt"
	"slices"
	"strings"

	"spore/cluster"
	"spore/cluster/facts"
)

// Directory is what a role of the configuration's own keeps on the node.
type Directory struct {
	Role  string `json:"role"`
	Path  string `json:"path"`
	Owner string `json:"owner"`
	Mode  string `json:"mode"`
	// Quota is what it may fill; empty where nothing holds it to a size.
	Quota string `json:"quota,omitempty"`
}

func (d Directory) note() string {
	text := fmt.Sprintf("of %s, mode %s", d.Owner, d.Mode)
	if d.Quota != "" {
		text += ", at most " + d.Quota
	}
	return text
}

// ownRoles tells of the node's roles of the configuration's own what no row of a service does.
func (a *Answer) ownRoles(c *cluster.Config, n *facts.Node) {
	for _, d := range c.Roles {
		if !slices.Contains(n.Roles, d.Name) {
			continue
		}
		for _, unit := range d.Triggered() {
			if a.StartedBy == nil {
				a.StartedBy = map[string][]string{}
			}
			a.StartedBy[unit] = d.Starters(unit)
		}
		for _, dir := range d.DirectoriesFilled() {
			a.Directories = append(a.Directories, Directory{d.Name, dir.Path, dir.Owner, dir.Mode, dir.Quota})
		}
	}
}

// startedBy says what starts a unit now and then, with a comma behind it; it is empty where it starts with its role.
func (a *Answer) startedBy(unit string) string {
	if by := a.StartedBy[unit]; len(by) > 0 {
		return "started by " + strings.Join(by, " and ") + ", "
	}
	return ""
}
