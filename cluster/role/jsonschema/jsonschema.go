// Package jsonschema writes the JSON Schema (draft 2020-12) of the settings that a role of the user's own declares, so
// that an editor helps with services/NAME.yaml as it does with the settings of Spore's services.
//
// A schema says less than `spore validate`: bounds of sizes and durations, which are texts, and the whole syntax of
// addresses, networks and host names are not in it. What `spore validate` takes, the schema takes.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"spore/cluster/role"
	"spore/cluster/role/setting"
)

// Draft is the version of JSON Schema.
const Draft = "https://json-schema.org/draft/2020-12/schema"

// schema is the part of JSON Schema that settings need.
type schema struct {
	Draft                string             `json:"$schema,omitempty"`
	Description          string             `json:"description,omitempty"`
	Type                 any                `json:"type"` // a name, or several
	Enum                 []string           `json:"enum,omitempty"`
	Pattern              string             `json:"pattern,omitempty"`
	Minimum              *float64           `json:"minimum,omitempty"`
	Maximum              *float64           `json:"maximum,omitempty"`
	MinLength            *float64           `json:"minLength,omitempty"`
	MaxLength            *float64           `json:"maxLength,omitempty"`
	MinItems             *float64           `json:"minItems,omitempty"`
	MaxItems             *float64           `json:"maxItems,omitempty"`
	MinProperties        *float64           `json:"minProperties,omitempty"`
	MaxProperties        *float64           `json:"maxProperties,omitempty"`
	Items                *schema            `json:"items,omitempty"`
	Properties           map[string]*schema `json:"properties,omitempty"`
	AdditionalProperties any                `json:"additionalProperties,omitempty"` // false, or a *schema
	Required             []string           `json:"required,omitempty"`
	Default              any                `json:"default,omitempty"`
}

// Settings is the schema of services/NAME.yaml of a role whose definition has no faults.
func Settings(d *role.Definition) ([]byte, error) {
	s := object(d.Settings)
	s.Draft = Draft
	s.Description = fmt.Sprintf("The settings of the role %s: %s", d.Name, d.Description)
	if len(s.Required) == 0 {
		s.Type = []string{"object", "null"} // An empty file takes the defaults.
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return nil, fmt.Errorf("write the JSON Schema of the settings of %s: %w", d.Name, err)
	}
	return b.Bytes(), nil
}

func object(keys map[string]setting.Type) *schema {
	s := &schema{Type: "object", Properties: map[string]*schema{}, AdditionalProperties: false}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		t := keys[name]
		s.Properties[name] = of(&t)
		if t.Required {
			s.Required = append(s.Required, name)
		}
	}
	return s
}

// Forms of texts. Each takes all that package setting takes.
const (
	sizeForm     = `^[0-9]{1,15}(\.[0-9]{1,6})?(KiB|MiB|GiB|TiB)$`
	durationForm = `^(0|([0-9.]+(ns|us|µs|μs|ms|s|m|h))+)$`
	secretForm   = `^[a-z0-9][a-z0-9-]{0,62}$`
)

// of is the schema of one setting.
func of(t *setting.Type) *schema {
	s := &schema{Type: "string"}
	low, high := bounds(t)
	switch t.Type {
	case setting.String:
		s.Enum, s.MinLength, s.MaxLength = t.OneOf, low, high
		if portable(t.Pattern) {
			s.Pattern = "^(?:" + t.Pattern + ")$"
		}
	case setting.Integer, setting.Number, setting.Boolean:
		s.Type, s.Minimum, s.Maximum = t.Type, low, high
	case setting.Port:
		s.Type, s.Minimum, s.Maximum = setting.Integer, orBound(low, 1), orBound(high, 65535)
	case setting.Bytes:
		s.Type, s.Pattern, s.Minimum, s.Maximum = []string{"string", "integer"}, sizeForm, orBound(low, 0), high
	case setting.Length:
		s.Pattern = durationForm
	case setting.CIDR:
		s.Pattern = "/[0-9]{1,3}$"
	case setting.Path:
		s.Pattern = "^/"
	case setting.List:
		s.Type, s.Items, s.MinItems, s.MaxItems = "array", entry(t), low, high
	case setting.Map:
		s.Type, s.AdditionalProperties, s.MinProperties, s.MaxProperties = "object", entry(t), low, high
	case setting.Object:
		s = object(t.Keys)
	case setting.SecretOf:
		s = object(map[string]setting.Type{"secretRef": {Type: setting.String, Required: true}})
		s.Properties["secretRef"].Pattern = secretForm
	}
	s.Description, s.Default = t.Description, t.Default
	return s
}

// entry is what a list or map holds; texts where the declaration does not say it.
func entry(t *setting.Type) *schema {
	if t.Of == nil {
		return of(&setting.Type{Type: setting.String})
	}
	return of(t.Of)
}

// bounds are min and max as numbers, where they are ones that JSON Schema compares.
func bounds(t *setting.Type) (low, high *float64) {
	return bound(t.Type, t.Min), bound(t.Type, t.Max)
}

func bound(kind string, v any) *float64 {
	switch n := v.(type) {
	case int:
		return bound(kind, float64(n))
	case int64:
		return bound(kind, float64(n))
	case float64:
		if !math.IsNaN(n) && !math.IsInf(n, 0) {
			return &n
		}
	case json.Number:
		if f, err := n.Float64(); err == nil {
			return bound(kind, f)
		}
	case string:
		if size, err := setting.ParseSize(n); err == nil && kind == setting.Bytes {
			return bound(kind, float64(size))
		}
	}
	return nil
}

func orBound(n *float64, otherwise float64) *float64 {
	if n == nil {
		return &otherwise
	}
	return n
}

// portable tells whether an editor reads a pattern as Spore does: JSON Schema has expressions of ECMA 262, Spore those
// of RE2. An editor does without the others.
func portable(pattern string) bool {
	rest := same.ReplaceAllString(pattern, "")
	return pattern != "" && !strings.ContainsAny(rest, `\{}`) && !onlyRE2.MatchString(rest)
}

// same are escapes and counts that both have with one meaning; onlyRE2 are flags, names of groups and classes of RE2.
var (
	same    = regexp.MustCompile(`\\[.*+?()\[\]{}|^$\\/dDwWnrt]|\{[0-9]+(,[0-9]*)?\}`)
	onlyRE2 = regexp.MustCompile(`\(\?[^:]|\[\[:|\[\^?\]`)
)
