// Package schema generates the JSON Schemas (draft 2020-12) of the configuration files, and the reference page for
// people, from the Go types of package spec and of the services, and their comments. Editors read the schemas through
// the yaml-language-server line at the top of each file. They say less than `spore validate`: shape, types and closed
// lists only.
package schema

//go:generate go run generate.go

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"

	"spore/cluster"
)

// Generate returns the schemas by file name (cluster.json, …). module is the directory of the Go module, whose source
// holds the comments.
func Generate(module string) (map[string][]byte, error) {
	r, err := reflector(module)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, f := range cluster.Files() {
		s := reflectFile(r, f)
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(s); err != nil {
			return nil, fmt.Errorf("generate schema of %s: %w", f.Path, err)
		}
		out[f.Schema+".json"] = b.Bytes()
	}
	return out, nil
}

func reflector(module string) (*jsonschema.Reflector, error) {
	r := &jsonschema.Reflector{FieldNameTag: "yaml", Anonymous: true, ExpandedStruct: true}
	r.CommentMap = map[string]string{}
	if err := comments(r, module); err != nil {
		return nil, fmt.Errorf("read the comments of the settings: %w", err)
	}
	return r, nil
}

// reflectFile makes the schema of one file, with its closed lists.
func reflectFile(r *jsonschema.Reflector, f cluster.File) *jsonschema.Schema {
	s := r.Reflect(f.Type)
	addChoices(f, reflect.TypeOf(f.Type).Elem().Name(), s)
	for name, def := range s.Definitions {
		addChoices(f, name, def)
	}
	return s
}

func addChoices(f cluster.File, name string, s *jsonschema.Schema) {
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		list := f.Choices[name+"."+p.Key]
		if list == nil {
			continue
		}
		into := p.Value
		if into.Items != nil {
			into = into.Items
		}
		if form := f.Open[name+"."+p.Key]; form != "" {
			// An editor offers the words of the list, and takes others.
			known := &jsonschema.Schema{}
			into.AnyOf = []*jsonschema.Schema{known, {Pattern: form}}
			into = known
		}
		for _, v := range list {
			into.Enum = append(into.Enum, v)
		}
	}
}
