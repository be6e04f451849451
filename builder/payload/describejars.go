package payload

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// jarsDescription is the content of DescriptionFile for a payload of jars.
type jarsDescription struct {
	// Version is the dependency of pom.xml, as GROUP:NAME, whose version is the payload's; describeJars puts that version here.
	Version string `yaml:"version"`
	// Jars is the directory of the image that the jars are laid into.
	Jars string `yaml:"jars"`
	// Files are laid in from the payload's own folder.
	Files []fileRow `yaml:"files"`
}

// fileRow is one file of a payload's folder.
type fileRow struct {
	// From is its name there; its execute bit is kept.
	From string `yaml:"from"`
	// Path is where it lies in the image; Links are further paths that lead to it.
	Path  string   `yaml:"path"`
	Links []string `yaml:"links"`
}

// describeJars reads the description of a payload of jars, whose pom.xml has the given dependencies.
func describeJars(root fs.FS, direct []Artifact) (jarsDescription, error) {
	data, err := fs.ReadFile(root, DescriptionFile)
	if err != nil {
		return jarsDescription{}, err
	}
	return parseJarsDescription(data, direct)
}

func parseJarsDescription(data []byte, direct []Artifact) (jarsDescription, error) {
	var d jarsDescription
	if err := decodeDescription(data, &d); err != nil {
		return d, err
	}
	if d.Jars == "" {
		return d, errors.New("it does not say where the jars go (jars: /usr/share/NAME/libs)")
	}
	if err := checkPaths(d.Jars); err != nil {
		return d, err
	}
	version := ""
	for _, a := range direct {
		if a.Group+":"+a.Name == d.Version && a.Classifier == "" {
			version = a.Version
		}
	}
	if version == "" {
		return d, fmt.Errorf("version: %s has no dependency %q; name one as GROUP:NAME", PomFile, d.Version)
	}
	d.Version = version
	for i, f := range d.Files {
		if !fs.ValidPath(f.From) || f.From == "." || path.Base(f.From) != f.From {
			return d, fmt.Errorf("file %d: from: %q is not the name of a file beside %s", i+1, f.From, PomFile)
		}
		if err := checkPaths(append([]string{f.Path}, f.Links...)...); err != nil {
			return d, fmt.Errorf("file %d: %w", i+1, err)
		}
	}
	return d, nil
}
