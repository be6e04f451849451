package payload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
	"gopkg.in/yaml.v3"
)

// DescriptionFile says, beside go.mod, which programs a payload has. Without it there is one: the main package of the
// module's root, as /usr/bin/NAME. Beside pom.xml it says where the jars go, and is always there.
const DescriptionFile = "payload.yaml"

// description is the content of DescriptionFile.
type description struct {
	// Version is the path of the module whose version is the payload's; describe puts that version here. It is the
	// version itself (semver.org, with a v before it) where go.mod can only name a commit.
	Version  string       `yaml:"version"`
	Programs []programRow `yaml:"programs"`
}

// programRow is one program of a payload.
type programRow struct {
	// Package is a main package: of the module ("." when empty), or of one that it requires.
	Package string `yaml:"package"`
	// Path is where it lies in the image; Links are further paths that lead to it.
	Path  string   `yaml:"path"`
	Links []string `yaml:"links"`
	// Tags are build tags.
	Tags []string `yaml:"tags"`
	// Variables are string variables, by import path and name, that the linker sets. {MODULE} stands for the version
	// that go.mod pins of a module.
	Variables map[string]string `yaml:"variables"`
}

// describe reads the description of the payload in dir.
func describe(dir string) (description, error) {
	fallback := description{Programs: []programRow{{Package: ".", Path: "/usr/bin/" + filepath.Base(dir)}}}
	data, err := os.ReadFile(filepath.Join(dir, DescriptionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fallback, nil
	}
	if err != nil {
		return description{}, err
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return description{}, err
	}
	d, err := parseDescription(data, mod)
	if err != nil {
		return description{}, fmt.Errorf("%s: %w", DescriptionFile, err)
	}
	return d, nil
}

func parseDescription(data, mod []byte) (description, error) {
	var d description
	if err := decodeDescription(data, &d); err != nil {
		return d, err
	}
	if len(d.Programs) == 0 {
		return d, errors.New("it lists no programs")
	}
	pins, err := pinned(mod)
	if err != nil {
		return d, err
	}
	if d.Version != "" && !semver.IsValid(d.Version) {
		module := d.Version
		if d.Version = pins[module]; d.Version == "" {
			return d, fmt.Errorf("version: go.mod does not require %s", module)
		}
	}
	for i := range d.Programs {
		if err := d.Programs[i].complete(pins); err != nil {
			return d, fmt.Errorf("program %d: %w", i+1, err)
		}
	}
	return d, nil
}

// decodeDescription reads YAML and refuses keys that the description does not have; no text is an empty description.
func decodeDescription(data []byte, into any) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// checkPaths refuses what is no path of a file in an image.
func checkPaths(list ...string) error {
	for _, p := range list {
		if !path.IsAbs(p) || path.Clean(p) != p || p == "/" {
			return fmt.Errorf("%q is not a clean absolute path", p)
		}
	}
	return nil
}

// pinned lists the versions that a go.mod requires by module.
func pinned(mod []byte) (map[string]string, error) {
	f, err := modfile.ParseLax("go.mod", mod, nil)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, r := range f.Require {
		out[r.Mod.Path] = r.Mod.Version
	}
	return out, nil
}

var (
	placeholder = regexp.MustCompile(`\{[^{}]+\}`)
	// A linker flag is split at blanks, so that a value cannot have any.
	linkerName  = regexp.MustCompile(`^[A-Za-z0-9_./-]+\.[A-Za-z_][A-Za-z0-9_]*$`)
	linkerValue = regexp.MustCompile(`^[A-Za-z0-9_.+:/-]*$`)
)

// complete fills in defaults and versions, and checks a row.
func (r *programRow) complete(pins map[string]string) error {
	if r.Package == "" {
		r.Package = "."
	}
	if strings.HasPrefix(r.Package, "-") || strings.HasPrefix(r.Package, "..") || path.Clean(strings.TrimPrefix(r.Package, "./")) != strings.TrimPrefix(r.Package, "./") {
		return fmt.Errorf("package: %q is not a clean import path", r.Package)
	}
	if err := checkPaths(append([]string{r.Path}, r.Links...)...); err != nil {
		return err
	}
	for name, value := range r.Variables {
		var missing string
		full := placeholder.ReplaceAllStringFunc(value, func(word string) string {
			module := word[1 : len(word)-1]
			if pins[module] == "" {
				missing = module
			}
			return pins[module]
		})
		if missing != "" {
			return fmt.Errorf("variable %s: go.mod does not require %s", name, missing)
		}
		if !linkerName.MatchString(name) || !linkerValue.MatchString(full) {
			return fmt.Errorf("variable %s: the linker cannot set it to %q", name, full)
		}
		r.Variables[name] = full
	}
	return nil
}
