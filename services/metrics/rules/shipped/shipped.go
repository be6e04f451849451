// Package shipped has the rules of alerts that come with an image, as files in the format of Prometheus: groups of
// rules by what they are about. docs/alerts.md has a section for each alert. The package parses no expressions, so that
// nodes can link it; package rules checks what is in the files.
package shipped

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

//go:embed *.yaml
var files embed.FS

// Files are the names of the files, sorted, such as node.yaml.
func Files() []string {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		panic("internal error: " + err.Error()) // The pattern is a constant.
	}
	return names
}

// Read returns a file; nil where there is none of this name.
func Read(name string) []byte {
	data, err := files.ReadFile(name)
	if err != nil {
		return nil
	}
	return data
}

// Names are the names of all alerts, sorted.
func Names() []string {
	var all []string
	for _, file := range Files() {
		for line := range strings.Lines(string(Read(file))) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "- alert: "); ok {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return all
}

// Without returns a file without the alerts of these names, and without groups that have none left; nil where nothing
// is left of the file.
func Without(name string, off []string) ([]byte, error) {
	data := Read(name)
	has := func(alert string) bool { return strings.Contains(string(data), "- alert: "+alert+"\n") }
	if !slices.ContainsFunc(off, has) {
		return data, nil
	}
	var file struct {
		Groups []group `yaml:"groups"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("internal error: the rules %s: %w", name, err)
	}
	for i := range file.Groups {
		g := &file.Groups[i]
		g.Rules = slices.DeleteFunc(g.Rules, func(r rule) bool { return slices.Contains(off, r.Alert) })
	}
	file.Groups = slices.DeleteFunc(file.Groups, func(g group) bool { return len(g.Rules) == 0 })
	if len(file.Groups) == 0 {
		return nil, nil
	}
	out, err := yaml.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("internal error: the rules %s: %w", name, err)
	}
	return out, nil
}

// group and rule have the keys that the files have.
type group struct {
	Name     string `yaml:"name"`
	Interval string `yaml:"interval"`
	Rules    []rule `yaml:"rules"`
}

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}
