package explainfile

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"spore/builder/deb/deb822"
	"spore/builder/manifest"
	"spore/builder/recipe"
	"spore/builder/rootfs"
	"spore/cluster/facts"
	"spore/services"
)

// maxStatus bounds dpkg's status file, in bytes.
const maxStatus = 64 << 20

// maxCluster bounds what the image says of its cluster, in bytes.
const maxCluster = 64 << 20

// because finds the shortest way from a package that the configuration asks for to this one, by the dependencies in the
// image's dpkg status. Where the image has none, it tells only of packages that were asked for.
func (p *Package) because(i *rootfs.Image) error {
	m := i.Manifest
	needs, essential, err := dependencies(i)
	if err != nil {
		return err
	}
	from := map[string]string{}
	queue := append(slices.Clone(m.Requested), essential...)
	for _, name := range queue {
		from[name] = ""
	}
	for len(queue) > 0 && !has(from, p.Name) {
		name := queue[0]
		queue = queue[1:]
		for _, next := range needs[name] {
			if !has(from, next) {
				from[next] = name
				queue = append(queue, next)
			}
		}
	}
	if !has(from, p.Name) {
		p.AskedBy = leftOutPackages(m.Packages, needs)
		return nil
	}
	for name := p.Name; name != ""; name = from[name] {
		p.Because = append(p.Because, name)
	}
	slices.Reverse(p.Because)
	if slices.Contains(m.Requested, p.Because[0]) {
		list, err := servicesOf(i)
		if err != nil {
			return err
		}
		p.AskedBy = askedBy(list, p.Because[0], m.Programs)
	} else {
		p.AskedBy = []string{"Debian, which marks " + p.Because[0] + " essential"}
	}
	return nil
}

// leftOutPackages says what leads to a package when none of those that are in the image does: one that was resolved,
// and left out as a whole. The image has no record of what those need.
func leftOutPackages(list []manifest.Package, needs map[string][]string) []string {
	var out []string
	for _, p := range list {
		if _, ok := needs[p.Name]; !ok {
			out = append(out, p.Name)
		}
	}
	if len(needs) == 0 || len(out) == 0 {
		return nil
	}
	return []string{"a package that is left out as a whole, one of " + strings.Join(out, " ")}
}

func has(m map[string]string, name string) bool {
	_, ok := m[name]
	return ok
}

// dependencies reads which packages of the image each one needs: those that are there of all alternatives, by their own
// names or by what they provide. Essential packages (Debian Policy 3.8) are there without being needed.
func dependencies(i *rootfs.Image) (needs map[string][]string, essential []string, err error) {
	data, err := i.Root.ReadFile(recipe.StatusPath, maxStatus)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	provided := map[string][]string{}
	wanted := map[string][]string{}
	s := deb822.NewScanner(string(data))
	for s.Next() {
		p := s.Paragraph()
		name := p.Get("Package")
		provided[name] = append(provided[name], name)
		for _, virtual := range relations(p.Get("Provides")) {
			provided[virtual] = append(provided[virtual], name)
		}
		if p.Get("Essential") == "yes" {
			essential = append(essential, name)
		}
		wanted[name] = append(relations(p.Get("Pre-Depends")), relations(p.Get("Depends"))...)
	}
	if err := s.Err(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", recipe.StatusPath, err)
	}
	needs = map[string][]string{}
	for name, list := range wanted {
		needs[name] = nil
		for _, w := range list {
			needs[name] = append(needs[name], provided[w]...)
		}
	}
	return needs, essential, nil
}

// relations are the names in a field such as Depends (Debian Policy 7.1), alternatives included.
func relations(field string) []string {
	var out []string
	for _, item := range strings.FieldsFunc(field, func(r rune) bool { return r == ',' || r == '|' }) {
		name, _, _ := strings.Cut(strings.TrimSpace(item), " ")
		name, _, _ = strings.Cut(name, "(")
		name, _, _ = strings.Cut(name, ":")
		if name != "" {
			out = append(out, name)
		}
	}
	return out
}

// servicesOf is the list of the image's cluster; ours where its cluster part is empty, or of a form that this program
// does not read.
func servicesOf(i *rootfs.Image) (*services.List, error) {
	if i.Manifest.ConfigFormat != services.Format() {
		return services.Ours(), nil
	}
	data, err := i.Cluster.ReadFile("/"+facts.ClusterFile, maxCluster)
	if errors.Is(err, fs.ErrNotExist) {
		return services.Ours(), nil
	}
	if err != nil {
		return nil, err
	}
	var c facts.Cluster
	if err := services.ReadCluster(data, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", facts.ClusterFile, err)
	}
	return services.Of(&c), nil
}

// askedBy says what a requested package is for.
func askedBy(l *services.List, name string, programs []string) []string {
	var out []string
	for _, p := range l.Programs() {
		if !slices.Contains(programs, p.Name) || !slices.Contains(p.Packages, name) {
			continue
		}
		var of []string
		for _, r := range l.Roles() {
			if slices.Contains(r.Programs, p.Name) {
				of = append(of, r.Name)
			}
		}
		if len(of) == 0 {
			of = []string{"every node"}
		}
		out = append(out, p.Name+" ("+strings.Join(of, ", ")+")")
	}
	if len(out) == 0 {
		out = []string{"every image, or image.yaml"}
	}
	return out
}
