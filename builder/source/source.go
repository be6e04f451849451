// Package source finds the project's own files that go into an image: units, overlay, payload pins, and the Go code of
// the agent and of stage1.
package source

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// module is the name in go.mod that marks the tree.
const module = "spore"

// ErrNotFound is returned when no source tree is at or above the places that were looked at.
var ErrNotFound = errors.New("source tree not found")

// Find returns the source tree: dir itself when given, else the first of the start directories, or a parent of one, whose
// go.mod names this module.
func Find(dir string, start ...string) (string, error) {
	if dir != "" {
		if !isTree(dir) {
			return "", fmt.Errorf("%w: %s has no go.mod of module %s", ErrNotFound, dir, module)
		}
		return filepath.Abs(dir)
	}
	for _, s := range start {
		d, err := filepath.Abs(s)
		if err != nil {
			continue
		}
		for {
			if isTree(d) {
				return d, nil
			}
			parent := filepath.Dir(d)
			if parent == d {
				break
			}
			d = parent
		}
	}
	return "", fmt.Errorf("%w: looked in and above %s; name it with --source", ErrNotFound, strings.Join(start, " and "))
}

func isTree(dir string) bool {
	f, err := os.Open(filepath.Join(dir, "go.mod"))
	if err != nil {
		return false
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		if line := strings.TrimSpace(s.Text()); line != "" && !strings.HasPrefix(line, "//") {
			return line == "module "+module
		}
	}
	return false
}

// Units is the directory of systemd units.
func Units(tree string) fs.FS { return os.DirFS(filepath.Join(tree, "units")) }

// Overlay is the directory of files that are laid in as they are.
func Overlay(tree string) fs.FS { return os.DirFS(filepath.Join(tree, "overlay")) }

// Payload is the directory of a payload's pins.
func Payload(tree, name string) string { return filepath.Join(tree, "payloads", name) }

// Payloads are the names of all payloads, sorted.
func Payloads(tree string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(tree, "payloads"))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}
