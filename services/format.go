package services

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"

	"spore/cluster/facts"
	"spore/cluster/role"
)

// Format names the form of facts.Cluster and facts.Node: 16 hexadecimal digits that change whenever a field of them, of
// the settings of a service, or of what these hold, is added, removed, renamed or retyped. A root says which form its
// agent reads, so that nobody hands it another one.
func Format() string {
	values := []any{facts.Cluster{}, facts.Node{}, role.Definition{}}
	for _, s := range Ours().all {
		values = append(values, s.Name, s.Settings())
	}
	return formatOf(values...)
}

// formatOf describes the types of values; a text stands for itself, the name of what follows.
func formatOf(values ...any) string {
	h := sha256.New()
	seen := map[reflect.Type]bool{}
	for _, v := range values {
		if name, ok := v.(string); ok {
			fmt.Fprintf(h, "service %q\n", name)
			continue
		}
		describe(h, reflect.TypeOf(v), seen)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// describe writes a type down to its scalars; a type that it has seen is named alone.
func describe(w io.Writer, t reflect.Type, seen map[reflect.Type]bool) {
	fmt.Fprintf(w, "%s %s\n", t.Kind(), t.Name())
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		describe(w, t.Elem(), seen)
	case reflect.Map:
		describe(w, t.Key(), seen)
		describe(w, t.Elem(), seen)
	case reflect.Struct:
		if seen[t] {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			f := t.Field(i)
			fmt.Fprintf(w, "%s %q ", f.Name, f.Tag.Get("json"))
			describe(w, f.Type, seen)
		}
		fmt.Fprintln(w, "end")
	}
}
