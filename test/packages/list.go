// Package packages proves that images take the packages of Debian which appliances use: list.yaml has 200 of them, and
// the tests beside it build each alone and compare what the builder makes of it with what Debian's own tools make.
package packages

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"

	"gopkg.in/yaml.v3"

	"spore/builder/deb"
)

//go:embed list.yaml
var listYAML []byte

// Group is a part of the list.
type Group struct {
	// Name says what its packages are for.
	Name string `yaml:"group"`
	// Packages are in the order of the file.
	Packages []Entry `yaml:"packages"`
}

// Entry is one package of the list.
type Entry struct {
	// Name is that of the Debian package.
	Name string
	// Instead are packages of every image that this one takes the place of.
	Instead []string
	// Fails is why no image takes it; empty for one that builds.
	Fails string
}

// UnmarshalYAML reads a name alone, or a mapping.
func (e *Entry) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return n.Decode(&e.Name)
	}
	var row struct {
		Name    string   `yaml:"name"`
		Instead []string `yaml:"instead"`
		Fails   string   `yaml:"fails"`
	}
	// Node.Decode takes keys that it does not know.
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i].Value; !slices.Contains([]string{"name", "instead", "fails"}, key) {
			return fmt.Errorf("line %d: unknown key %q; use name, instead and fails", n.Content[i].Line, key)
		}
	}
	if err := n.Decode(&row); err != nil {
		return err
	}
	e.Name, e.Instead, e.Fails = row.Name, row.Instead, row.Fails
	return nil
}

// List is list.yaml.
func List() ([]Group, error) { return read(listYAML) }

// read refuses names that are no package names, or that are there twice.
func read(data []byte) ([]Group, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	var groups []Group
	if err := d.Decode(&groups); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read list.yaml: %w", err)
	}
	seen := map[string]string{}
	for _, g := range groups {
		if g.Name == "" {
			return nil, errors.New("list.yaml: a group has no name")
		}
		for _, e := range g.Packages {
			for _, name := range append([]string{e.Name}, e.Instead...) {
				if !deb.ValidName(name) {
					return nil, fmt.Errorf("list.yaml: group %s: %q is not a package name", g.Name, name)
				}
			}
			if other, twice := seen[e.Name]; twice {
				return nil, fmt.Errorf("list.yaml: package %s is in the groups %s and %s", e.Name, other, g.Name)
			}
			seen[e.Name] = g.Name
		}
	}
	return groups, nil
}

// Entries are the packages of all groups, in the order of the list.
func Entries(groups []Group) []Entry {
	var out []Entry
	for _, g := range groups {
		out = append(out, g.Packages...)
	}
	return out
}

// Only are the groups with these packages alone; with all where no name is given.
func Only(groups []Group, names []string) ([]Group, error) {
	if len(names) == 0 {
		return groups, nil
	}
	var out []Group
	found := map[string]bool{}
	for _, g := range groups {
		part := Group{Name: g.Name}
		for _, e := range g.Packages {
			if slices.Contains(names, e.Name) {
				part.Packages = append(part.Packages, e)
				found[e.Name] = true
			}
		}
		if len(part.Packages) > 0 {
			out = append(out, part)
		}
	}
	for _, name := range names {
		if !found[name] {
			return nil, fmt.Errorf("package %s is not in list.yaml", name)
		}
	}
	return out, nil
}
