package cluster

import (
	"bytes"
	"errors"
	"io"

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

// parse reads the YAML of a file into nodes. Nothing is expanded, so the result is never larger than the file.
func (s *source) parse() *yamlfile.Fault {
	if f := yamlfile.CheckText(s.data); f != nil {
		return f
	}
	dec := yaml.NewDecoder(bytes.NewReader(s.data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return yamlfile.SyntaxFault(s.data, err)
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		return &yamlfile.Fault{Line: second.Line, Column: second.Column, Message: "a second YAML document begins here; a file holds one: remove the --- line"}
	} else if !errors.Is(err, io.EOF) {
		return yamlfile.SyntaxFault(s.data, err)
	}
	root := doc.Content[0]
	switch {
	case root.Kind == yaml.MappingNode:
		s.root = root
	case root.ShortTag() == "!!null":
	default:
		return &yamlfile.Fault{Line: root.Line, Column: root.Column, Message: "the file is not a mapping; write keys with values, as in `spore init`"}
	}
	return nil
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
