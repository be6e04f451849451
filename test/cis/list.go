// Package cis holds our nodes against the CIS Kubernetes Benchmark as kube-bench checks it.
//
// The list of checks with their conditions is kube-bench's own, read from its pinned module; none of its commands is run.
// What the conditions are held against is Evidence: made from what spore-agent renders and from the units, or collected
// from running nodes. Both go through the same rows, which map a check to the part of Evidence that it asks for.
package cis

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

const (
	// module is where the list comes from, and listDir the module that pins it.
	module  = "github.com/aquasecurity/kube-bench"
	listDir = "list"
)

// Check is one entry of the list.
type Check struct {
	ID string `yaml:"id"`
	// Type is "manual" where a person is to look.
	Type string `yaml:"type"`
	// Multiple says that each line of what was found must pass.
	Multiple bool  `yaml:"use_multiple_values"`
	Tests    tests `yaml:"tests"`
}

// tests are a check's conditions.
type tests struct {
	Items []item `yaml:"test_items"`
	BinOp string `yaml:"bin_op"`
}

// item is one condition: a flag, or a path in a configuration file, is there and compares well.
type item struct {
	Flag    string  `yaml:"flag"`
	Path    string  `yaml:"path"`
	Env     string  `yaml:"env"`
	Set     *bool   `yaml:"set"`
	Compare compare `yaml:"compare"`
}

type compare struct {
	Op    string `yaml:"op"`
	Value string `yaml:"value"`
}

// List is one edition of the benchmark.
type List struct {
	// Edition is its name, such as cis-1.12; Version is that of the module which holds it.
	Edition, Version string
	// Checks are in the order of their numbers.
	Checks []Check
}

// Module finds the pinned module, downloading it when it is not there. folder is that of this package.
func Module(folder string) (dir, version string, err error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = filepath.Join(folder, listDir)
	out, err := cmd.Output()
	var m struct{ Dir, Version, Error string }
	if jerr := json.Unmarshal(out, &m); jerr == nil && m.Error != "" {
		err = errors.New(m.Error)
	}
	if err != nil || m.Dir == "" {
		return "", "", fmt.Errorf("download %s, which has the list of checks: %w", module, err)
	}
	return m.Dir, m.Version, nil
}

// ReadList reads the edition that the module has for the newest Kubernetes that it knows, from a tree of the module. The
// numbers of the editions themselves are in no order.
func ReadList(fsys fs.FS, version string) (List, error) {
	data, err := fs.ReadFile(fsys, "cfg/config.yaml")
	if err != nil {
		return List{}, err
	}
	var config struct {
		Editions map[string]string `yaml:"version_mapping"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return List{}, fmt.Errorf("read cfg/config.yaml: %w", err)
	}
	newest, last := "", ""
	for kubernetes, edition := range config.Editions {
		if isNumber(kubernetes) && (last == "" || compareNumbers(kubernetes, last) > 0) {
			newest, last = edition, kubernetes
		}
	}
	if newest == "" {
		return List{}, errors.New("cfg/config.yaml has no edition for any version of Kubernetes")
	}
	l := List{Edition: newest, Version: version}
	files, err := fs.Glob(fsys, path.Join("cfg", newest, "*.yaml"))
	if err != nil {
		return List{}, err
	}
	for _, file := range files {
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			return List{}, err
		}
		var doc struct {
			Groups []struct {
				Checks []Check `yaml:"checks"`
			} `yaml:"groups"`
		}
		if err := yaml.Unmarshal(data, &doc); err != nil {
			return List{}, fmt.Errorf("read %s: %w", file, err)
		}
		for _, g := range doc.Groups {
			l.Checks = append(l.Checks, g.Checks...)
		}
	}
	slices.SortFunc(l.Checks, func(a, b Check) int { return compareNumbers(a.ID, b.ID) })
	return l, nil
}

func isNumber(s string) bool {
	for _, part := range strings.Split(s, ".") {
		if _, err := strconv.Atoi(part); err != nil {
			return false
		}
	}
	return true
}

// compareNumbers compares dotted numbers.
func compareNumbers(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		m, _ := strconv.Atoi(x)
		n, _ := strconv.Atoi(y)
		return m - n
	})
}
