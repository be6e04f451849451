// Package programs is the model of programs/ in a configuration folder: programs of the user's own, one file
// programs/NAME.yaml each, and of what lies beside these files. It checks what can be known without asking a network;
// package payload of the builder makes the programs.
package programs

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"spore/cluster/check"
)

// Dir is the folder of the files in a configuration folder.
const Dir = "programs"

// Bounds on what is read.
const (
	// MaxPrograms bounds the files.
	MaxPrograms = 100
	// MaxMembers bounds the files that one archive gives.
	MaxMembers = 1000
	// MaxLinks bounds the links of one program.
	MaxLinks = 100
)

// Program is a file programs/NAME.yaml: a program of the user's own in the root of the image. Exactly one of the keys
// go, folder, file and archive says where it comes from. What is beside the file is named as ./NAME.
type Program struct {
	// Description says in one line what the program does.
	Description string `yaml:"description,omitempty"`
	// Go is a module of Go at a version: its sources are fetched, verified and compiled.
	Go *Go `yaml:"go,omitempty"`
	// Folder is a folder beside this file with a go.mod, such as ./gateway: it is compiled.
	Folder string `yaml:"folder,omitempty"`
	// Package is the main package in Folder; the folder itself when empty.
	Package string `yaml:"package,omitempty"`
	// File is one executable file that is taken as it is: a program for this architecture, or a script.
	File *File `yaml:"file,omitempty"`
	// Archive is an archive (tar, tar.gz, tar.xz, tar.zst or zip) of which named files are taken as they are.
	Archive *Archive `yaml:"archive,omitempty"`
	// Version is the version of the program, for the bill of materials; that of Go is the module's.
	Version string `yaml:"version,omitempty"`
	// Licence is an SPDX licence expression for the bill of materials; NOASSERTION when empty.
	Licence string `yaml:"licence,omitempty"`
	// Path is where the program lies in the image, below /usr or /opt; /usr/bin/NAME when empty. Not with an archive,
	// whose files say it.
	Path string `yaml:"path,omitempty"`
	// Mode holds the permissions as four octal digits in quotes; "0755" when empty, and of an archive's files "0755" or
	// "0644", as the archive says who may execute them.
	Mode string `yaml:"mode,omitempty"`
	// Links holds further paths that lead to the program. Not with an archive.
	Links []string `yaml:"links,omitempty"`
}

// Go is a Go module at a version.
type Go struct {
	// Module is the path of the module, such as example.org/gateway.
	Module string `yaml:"module"`
	// Version is its version, such as v1.2.3.
	Version string `yaml:"version"`
	// Package is the main package in the module, such as ./cmd/gateway; the module itself when empty.
	Package string `yaml:"package,omitempty"`
	// Sum is the module's checksum in the form of go.sum, h1: and 44 characters. It is needed unless the folder
	// programs/NAME has a go.mod and a go.sum that pin the module and all that it needs.
	Sum string `yaml:"sum,omitempty"`
}

// File is one file, from a URL or from beside programs/NAME.yaml.
type File struct {
	// URL is where the file is fetched from, by https or http.
	URL string `yaml:"url,omitempty"`
	// Path is a file beside this one, such as ./gateway.bin.
	Path string `yaml:"path,omitempty"`
	// SHA256 is the SHA-256 of the file, as 64 hexadecimal digits.
	SHA256 string `yaml:"sha256"`
}

// Archive is an archive, from a URL or from beside programs/NAME.yaml.
type Archive struct {
	// URL is where the archive is fetched from, by https or http.
	URL string `yaml:"url,omitempty"`
	// Path is an archive beside this file, such as ./tool.tar.gz.
	Path string `yaml:"path,omitempty"`
	// SHA256 is the SHA-256 of the archive, as 64 hexadecimal digits.
	SHA256 string `yaml:"sha256"`
	// Files says by the path in the archive which files are taken, and where each lies in the image.
	Files map[string]string `yaml:"files"`
}

// kinds are the keys of which a program has exactly one.
var kinds = []string{"go", "folder", "file", "archive"}

// Entry is one file with its name and what lies beside it.
type Entry struct {
	// Name is the name of the program: that of its file without .yaml.
	Name string
	Program
	// Source is the file.
	Source check.File
	// Broken says that the file could not be read, so that nothing is known of its content.
	Broken bool
	// Beside says of each file and folder of the configuration that the program names, by its path in the configuration
	// folder, what is wrong with it; nil for what is as it should be.
	Beside map[string]error
	// Mod and Sum are go.mod and go.sum of a folder beside; nil without.
	Mod, Sum []byte
	// Vendored says that the folder has vendor/modules.txt.
	Vendored bool
}

// FileName is the path of the file in the configuration folder.
func (e Entry) FileName() string { return path.Join(Dir, e.Name+".yaml") }

// ModuleFolder is the folder beside with go.mod, by its path in the configuration folder: that which the program is
// compiled from, or which pins a module. The latter may be missing.
func (e Entry) ModuleFolder() string {
	switch {
	case e.Go != nil:
		return path.Join(Dir, e.Name)
	case e.Folder != "":
		return beside(e.Folder)
	}
	return ""
}

// Local is a file beside that the program is, or is taken from, by its path in the configuration folder; empty for
// none.
func (e Entry) Local() string {
	switch {
	case e.File != nil && e.File.Path != "":
		return beside(e.File.Path)
	case e.Archive != nil && e.Archive.Path != "":
		return beside(e.Archive.Path)
	}
	return ""
}

// Pinned reports whether go.mod and go.sum beside the file pin the module.
func (e Entry) Pinned() bool { return e.Go != nil && e.Mod != nil }

// Target is where the program lies; an archive's files have targets of their own.
func (e Entry) Target() string {
	if e.Path != "" {
		return e.Path
	}
	return "/usr/bin/" + e.Name
}

// Targets are all paths of the image that the program has, links included, sorted.
func (e Entry) Targets() []string {
	out := slices.Clone(e.Links)
	if e.Archive == nil {
		out = append(out, e.Target())
	} else {
		for _, to := range e.Archive.Files {
			out = append(out, to)
		}
	}
	slices.Sort(out)
	return out
}

// beside is the path in the configuration folder of what a file of programs/ calls ./NAME; empty for no such form.
func beside(name string) string {
	rest, ok := strings.CutPrefix(name, "./")
	if !ok || !below(rest) {
		return ""
	}
	return path.Join(Dir, rest)
}

// below reports whether a name is that of something below a folder, written in the shortest way.
func below(name string) bool {
	if path.IsAbs(name) || path.Clean(name) != name || strings.ContainsFunc(name, unicode.IsControl) {
		return false
	}
	return name != "." && name != ".." && !strings.HasPrefix(name, "../")
}
