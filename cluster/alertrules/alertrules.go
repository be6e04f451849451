// Package alertrules has the rules of alerts that a configuration brings to its nodes: those of the image without the
// unwanted ones, and those of the folder, which it checks.
package alertrules

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"

	"spore/cluster/yamlfile"
	"spore/services/metrics"
)

//go:embed basic.yaml
var basic []byte

// MaxFiles and MaxFile bound the files of the folder.
const (
	MaxFiles = 64
	MaxFile  = 256 << 10
)

// Problem is what is wrong with a file.
type Problem struct {
	File string
	yamlfile.Fault
}

var form = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`)

// Names are the names of the rules of the image.
func Names() []string { return names(basic) }

// Shipped are the files of the image without the rules of these names.
func Shipped(off []string) ([]metrics.RuleFile, error) {
	var f file
	if err := yaml.Unmarshal(basic, &f); err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	for i := range f.Groups {
		g := &f.Groups[i]
		g.Rules = slices.DeleteFunc(g.Rules, func(r rule) bool { return slices.Contains(off, r.Alert) })
	}
	text, err := yaml.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	return []metrics.RuleFile{{Name: "spore-basic.yaml", Text: string(text)}}, nil
}

type file struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	} `yaml:"groups"`
}

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

func names(data []byte) []string {
	var f file
	if yaml.Unmarshal(data, &f) != nil {
		return nil
	}
	var out []string
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			out = append(out, r.Alert)
		}
	}
	return out
}

// Check finds what is wrong with the files of the folder, by their names.
func Check(files map[string][]byte) []Problem {
	var out []Problem
	for _, name := range slices.Sorted(maps.Keys(files)) {
		add := func(line, column int, message string) {
			out = append(out, Problem{name, yamlfile.Fault{Line: line, Column: column, Message: message}})
		}
		data := files[name]
		if f := yamlfile.CheckText(data); f != nil {
			add(f.Line, f.Column, f.Message)
			continue
		}
		d := yaml.NewDecoder(bytes.NewReader(data))
		d.KnownFields(true)
		var f file
		if err := d.Decode(&f); err != nil {
			fault := yamlfile.SyntaxFault(data, err)
			add(fault.Line, fault.Column, fault.Message)
			continue
		}
		for _, n := range names(data) {
			if !form.MatchString(n) || slices.Contains(Names(), n) {
				add(1, 1, fmt.Sprintf("the alert %.64q has a name that is not valid, or that is one of the image", n))
			}
		}
	}
	return out
}
