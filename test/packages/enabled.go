package packages

import (
	"fmt"
	"slices"
	"strings"

	"spore/builder/tree"
	"spore/test/packages/compare"
	"spore/test/packages/reference"
)

// localUnits is where links enable units (systemd.unit(5)).
const localUnits = "/etc/systemd/system/"

// startedOtherwise are packages whose units an image of the example starts in another way, and how.
var startedOtherwise = map[string]string{"mosquitto": "mqtt.target starts it, on nodes with the role"}

// Enablement is what an image says of units: the links that enable them, and the package of each unit.
type Enablement struct {
	links  map[string]bool
	owners map[string]string
}

func enablementOf(t *tree.Tree) (Enablement, error) {
	e := Enablement{links: map[string]bool{}, owners: map[string]string{}}
	err := t.Walk(func(p string, n *tree.Inode) error {
		switch {
		case strings.HasPrefix(p, localUnits) && n.Type == tree.Symlink:
			e.links[p] = true
		case strings.HasPrefix(p, "/usr/lib/systemd/system/") && n.Type == tree.Regular:
			e.owners[p] = compare.OfOrigin(n.Origin)
		}
		return nil
	})
	return e, err
}

// notEnabled are the links with which Debian enables units of a package and that the image does not have.
func (e Enablement) notEnabled(name string, root *reference.Root) []string {
	var out []string
	for p, f := range root.Files {
		if !strings.HasPrefix(p, localUnits) || e.owners[usrMerged(f.Target)] != name || e.links[p] || startedOtherwise[name] != "" {
			continue
		}
		out = append(out, fmt.Sprintf("not enabled: %s leads to %s in Debian  (package %s)", p, f.Target, name))
	}
	slices.Sort(out)
	return out
}

// usrMerged is the path of a unit below /usr.
func usrMerged(p string) string {
	if strings.HasPrefix(p, "/lib/") {
		return "/usr" + p
	}
	return p
}
