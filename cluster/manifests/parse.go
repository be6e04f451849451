// Package manifests reads manifests/ of the configuration folder: Kubernetes objects that the masters apply and keep
// (package services/kubernetes/applyset). It finds what can be said of them without an API server, each with file, line
// and column; what an object means is the API server's to say.
//
// A file holds one object or several, as YAML documents with --- between. Of YAML it takes what has one meaning:
// aliases, merge keys, tags, duplicate keys and keys that are not texts are refused, and so are the words that YAML 1.1
// has for booleans. It takes no list apart: an object is a document of its own, so that a person finds it by its line.
package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"spore/cluster/yamlfile"
)

// Bounds on what is read.
const (
	// MaxFiles is how many files the folder may hold, MaxFileSize and MaxSize bound one and all in bytes: the cluster
	// part has them twice, as they are and compiled.
	MaxFiles    = 200
	MaxFileSize = 1 << 20
	MaxSize     = 16 << 20
	// MaxObjects is how many objects there may be: a node names all of them when it is asked what a push would change.
	MaxObjects = 2000
	// maxDocuments is how many of them a file may hold.
	maxDocuments = 1000
	// maxDepth is how deep a value may lie in others; the schema of a kind has about thirty levels.
	maxDepth = 100
	// maxFaults is how many problems of one file are told.
	maxFaults = 20
)

// Document is one object as it was written. It is a check.File.
type Document struct {
	// Line is where it begins.
	Line int
	// Content is the object in the form of JSON: maps, lists, texts, booleans, int, int64, uint64, float64 and nil.
	Content map[string]any

	path   string
	root   *yaml.Node
	faults map[[2]int]bool
}

// Path is the path of its file in the configuration folder.
func (d *Document) Path() string { return d.path }

// At returns the position of the value at a path, or of the nearest thing around it that exists.
func (d *Document) At(path ...any) (line, column int) {
	n := yamlfile.At(d.root, path...)
	return n.Line, n.Column
}

// Has reports whether there is a value at the path.
func (d *Document) Has(path ...any) bool { return yamlfile.Find(d.root, path...) != nil }

// Faulty reports whether Parse found a problem at this position.
func (d *Document) Faulty(line, column int) bool { return d.faults[[2]int{line, column}] }

// Parse reads the objects of a file, and what is wrong with its YAML. An object with such a problem is among them with
// what could be read of it.
func Parse(path string, data []byte) ([]*Document, []yamlfile.Fault) {
	if f := yamlfile.CheckText(data); f != nil {
		return nil, []yamlfile.Fault{*f}
	}
	p := &parser{path: path, known: map[[2]int]bool{}}
	d := yaml.NewDecoder(bytes.NewReader(data))
	for n := 0; ; n++ {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return p.documents, p.faults
		}
		if err != nil {
			return p.documents, append(p.faults, *yamlfile.SyntaxFault(data, err))
		}
		if n == maxDocuments {
			p.fault(&doc, "a file holds at most %d objects; put those from here on into another file", maxDocuments)
			return p.documents, p.faults
		}
		p.document(doc.Content[0])
	}
}

type parser struct {
	path      string
	documents []*Document
	faults    []yamlfile.Fault
	known     map[[2]int]bool
}

func (p *parser) fault(n *yaml.Node, format string, args ...any) {
	p.known[[2]int{n.Line, n.Column}] = true
	if len(p.faults) < maxFaults {
		p.faults = append(p.faults, yamlfile.Fault{Line: n.Line, Column: n.Column, Message: fmt.Sprintf(format,
			args...)})
	}
}

func (p *parser) document(root *yaml.Node) {
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return // nothing but comments between two ---
	}
	if root.Kind != yaml.MappingNode {
		p.fault(root,
			"this is not an object of Kubernetes; write apiVersion, kind and metadata, and --- between two objects")
		return
	}
	content, _ := p.value(root, 0).(map[string]any)
	p.documents = append(p.documents, &Document{
		Line: root.Line, Content: content, path: p.path, root: root, faults: p.known,
	})
}

// value is a node in the form of JSON; nil where something is wrong with it.
func (p *parser) value(n *yaml.Node, depth int) any {
	switch {
	case depth > maxDepth:
		p.fault(n, "this value lies in more than %d others; no kind of Kubernetes is that deep", maxDepth)
		return nil
	case n.Kind == yaml.AliasNode:
		p.fault(n, "aliases are not used here: write the value out, or put a text that begins with * into quotes")
		return nil
	case n.Style&yaml.TaggedStyle != 0:
		p.fault(n, "the tag %.40s is not used here; write the value alone, a text in quotes", n.Tag)
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		return p.mapping(n, depth)
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, item := range n.Content {
			out[i] = p.value(item, depth+1)
		}
		return out
	}
	return p.scalar(n)
}

func (p *parser) mapping(n *yaml.Node, depth int) any {
	out := make(map[string]any, len(n.Content)/2)
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.ShortTag() == "!!merge":
			p.fault(key, "<< is not used here: write the keys out")
		case key.Kind != yaml.ScalarNode || key.Style&yaml.TaggedStyle != 0 || key.ShortTag() != "!!str" && !isTime(key):
			p.fault(key, "a key is a text; put it into quotes")
		case lines[key.Value] > 0:
			p.fault(key, "the key %q is there already, in line %d; remove one", clip(key.Value), lines[key.Value])
		case ambiguous(key):
			p.fault(key, "%s", ambiguity(key.Value))
		default:
			lines[key.Value] = key.Line
			out[key.Value] = p.value(value, depth+1)
		}
	}
	return out
}

// isTime tells whether a text looks like a date, which JSON has none of.
func isTime(n *yaml.Node) bool { return n.ShortTag() == "!!timestamp" }

func (p *parser) scalar(n *yaml.Node) any {
	switch tag := n.ShortTag(); {
	case ambiguous(n):
		p.fault(n, "%s", ambiguity(n.Value))
		return nil
	case tag == "!!str" || isTime(n):
		return n.Value
	case tag == "!!null":
		return nil
	}
	var out any
	if err := n.Decode(&out); err != nil {
		p.fault(n,
			"%q cannot be read as %s; put a text into quotes", clip(n.Value), strings.TrimPrefix(n.ShortTag(), "!!"))
		return nil
	}
	switch v := out.(type) {
	case bool, int, int64, uint64:
		return v
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v
		}
	}
	p.fault(n, "%q is not a number of JSON; put a text into quotes", clip(n.Value))
	return nil
}

// ambiguous tells whether a text is a boolean for readers of YAML 1.1, of which kubectl is one.
func ambiguous(n *yaml.Node) bool {
	plain := n.Kind == yaml.ScalarNode && n.Style == 0 && n.ShortTag() == "!!str"
	return plain && slices.Contains([]string{"yes", "no", "on", "off"}, strings.ToLower(n.Value))
}

func ambiguity(word string) string {
	return fmt.Sprintf("%s is a boolean for kubectl and a text for others; write true or false, or put the text into quotes", clip(word))
}

// clip shortens a text of the user for a message.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
