package etc

import (
	"encoding/json"
	"fmt"
	"strings"
)

// yamlDocument writes a value as YAML 1.2 in block style, keys sorted. Scalars are written as JSON, which YAML includes, so
// that no rule of YAML about plain scalars has to be known here.
func yamlDocument(about string, v any) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s; written by spore-agent at each boot\n", about)
	data, err := json.Marshal(v)
	if err != nil {
		return b.String()
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return b.String()
	}
	writeYAML(&b, tree, 0, false)
	return b.String()
}

// writeYAML writes a block at an indentation. inline says that the first line continues one that a "- " began.
func writeYAML(b *strings.Builder, v any, indent int, inline bool) {
	pad := strings.Repeat("  ", indent)
	first := pad
	if inline {
		first = ""
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			fmt.Fprintf(b, "%s%s:", first, scalarKey(k))
			writeValue(b, v[k], indent+1)
			first = pad
		}
	case []any:
		for _, e := range v {
			fmt.Fprintf(b, "%s-", first)
			if block(e) {
				b.WriteString(" ")
				writeYAML(b, e, indent+1, true)
			} else {
				writeValue(b, e, indent+1)
			}
			first = pad
		}
	}
}

// writeValue writes what follows a key or a dash.
func writeValue(b *strings.Builder, v any, indent int) {
	if block(v) {
		b.WriteString("\n")
		writeYAML(b, v, indent, false)
		return
	}
	data, _ := json.Marshal(v) // A tree that came from JSON goes back to it.
	fmt.Fprintf(b, " %s\n", data)
}

// block tells whether v takes lines of its own.
func block(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return false
}

// scalarKey leaves simple keys bare and quotes all others.
func scalarKey(k string) string {
	for _, c := range []byte(k) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			data, _ := json.Marshal(k)
			return string(data)
		}
	}
	switch strings.ToLower(k) {
	case "", "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return `"` + k + `"`
	}
	return k
}
