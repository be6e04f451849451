package yamlfile

import (
	"bytes"
	"errors"
	"io"

	"gopkg.in/yaml.v3"
)

// Parse reads a file of one document that is a mapping; nil for one that is empty. Nothing is expanded, so the result is
// never larger than the file.
func Parse(data []byte) (*yaml.Node, *Fault) {
	if f := CheckText(data); f != nil {
		return nil, f
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, SyntaxFault(data, err)
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		return nil, &Fault{second.Line, second.Column, "a second YAML document begins here; a file holds one: remove the --- line"}
	} else if !errors.Is(err, io.EOF) {
		return nil, SyntaxFault(data, err)
	}
	root := doc.Content[0]
	switch {
	case root.Kind == yaml.MappingNode:
		return root, nil
	case root.ShortTag() == "!!null":
		return nil, nil
	}
	return nil, &Fault{root.Line, root.Column, "the file is not a mapping; write keys with values, as in `spore init`"}
}
