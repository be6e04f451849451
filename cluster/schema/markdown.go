package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"spore/cluster"
)

// Markdown returns the reference page of all configuration files.
func Markdown(module string) ([]byte, error) {
	r, err := reflector(module)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("# Configuration files\n\n")
	b.WriteString("Generated from the Go types by `go generate ./cluster/schema`; do not edit. A key in **bold** is required.\n")
	b.WriteString("`spore init` writes a commented example, `spore validate` checks more than types.\n")
	for _, f := range cluster.Files() {
		s := reflectFile(r, f)
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", f.Path, s.Description)
		table(&b, "", s, s.Definitions, nil)
	}
	return []byte(b.String()), nil
}

// table writes one row a key, and goes down into mappings. open holds the definitions that are being written.
func table(b *strings.Builder, prefix string, s *jsonschema.Schema, defs jsonschema.Definitions, open []string) {
	if prefix == "" {
		b.WriteString("\n| key | type | meaning |\n|---|---|---|\n")
	}
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		key := prefix + p.Key
		shown := "`" + key + "`"
		if slices.Contains(s.Required, p.Key) {
			shown = "**" + shown + "**"
		}
		kind, inner := describe(p.Value)
		fmt.Fprintf(b, "| %s | %s | %s |\n", shown, kind, strings.ReplaceAll(p.Value.Description, "|", `\|`))
		if def := defs[inner]; def != nil && !slices.Contains(open, inner) {
			next := key + "."
			switch p.Value.Type {
			case "array":
				next = key + "[]."
			case "object":
				next = key + ".NAME."
			}
			table(b, next, def, defs, append(slices.Clone(open), inner))
		}
	}
}

// describeNamed is describe for a mapping whose keys are names that the user chooses, by the type of its values.
func describeNamed(values *jsonschema.Schema) (kind, definition string) {
	if values == nil {
		return "mapping of texts", ""
	}
	kind, definition = describe(values)
	if kind == "text" {
		return "mapping of texts", ""
	}
	return "mapping of " + strings.Replace(kind, "mapping", "mappings", 1), definition
}

// describe returns the type of a value in words, and the definition that it refers to.
func describe(s *jsonschema.Schema) (kind, definition string) {
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		return "mapping", name
	}
	switch {
	case len(s.AnyOf) > 0:
		kind, definition = describe(s.AnyOf[0])
		return kind + " or a name of the user's own", definition
	case len(s.Enum) > 0:
		words := make([]string, len(s.Enum))
		for i, v := range s.Enum {
			words[i] = fmt.Sprintf("`%v`", v)
		}
		return strings.Join(words, ", "), ""
	case s.Type == "array":
		kind, definition = describe(s.Items)
		return "list of " + kind, definition
	case s.Type == "object":
		return describeNamed(s.AdditionalProperties)
	case s.Type == "string":
		return "text", ""
	case s.Type == "integer":
		return "number", ""
	case s.Type == "boolean":
		return "true or false", ""
	case s.Type == "":
		return "any value", ""
	}
	return s.Type, ""
}
