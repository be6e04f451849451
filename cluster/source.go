package cluster

import (
	"gopkg.in/yaml.v3"

	"spore/cluster/yamlfile"
)

// source is one YAML file with the positions of what is in it.
type source struct {
	// path is relative to the configuration folder.
	path string
	data []byte
	// root is the top mapping; nil when the file is empty or could not be parsed.
	root *yaml.Node
	// broken says that the file could not be read or parsed, so that nothing is known of its content.
	broken bool
	// faults holds the positions that Load reported.
	faults map[[2]int]bool
}

// parse reads the YAML of a file into nodes.
func (s *source) parse() (f *yamlfile.Fault) {
	s.root, f = yamlfile.Parse(s.data)
	return f
}

// Path is the path in the configuration folder.
func (s *source) Path() string { return s.path }

// At returns the position of the value at a path of keys (string) and list indexes (int), or of the nearest thing
// around it that exists.
func (s *source) At(path ...any) (line, column int) {
	if s.root == nil {
		return 1, 1
	}
	n := yamlfile.At(s.root, path...)
	return n.Line, n.Column
}

// Has reports whether there is a value at the path.
func (s *source) Has(path ...any) bool { return yamlfile.Find(s.root, path...) != nil }

// Faulty reports whether Load found a problem at this position already.
func (s *source) Faulty(line, column int) bool { return s.faults[[2]int{line, column}] }
