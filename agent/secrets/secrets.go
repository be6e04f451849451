// Package secrets lays the secrets of the node's bundle into files that units load as credentials (LoadCredential=),
// one directory for each program.
package secrets

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"spore/cluster/spec"
	"spore/pki/bundle"
	"spore/storage/atomicfile"
)

// Install makes dir hold exactly those secrets that wanted names by program: one directory for each, readable by root
// alone, so that a program is given its own secrets and no other. What nobody wants is not written. changed lists, by
// program, the secrets that are not as they were.
func Install(dir string, have map[string]string, wanted map[string][]string) (changed map[string][]string, err error) {
	if err := privateDir(dir); err != nil {
		return nil, fmt.Errorf("install secrets: %w", err)
	}
	keep := map[string]bool{}
	changed = map[string][]string{}
	for _, program := range slices.Sorted(maps.Keys(wanted)) {
		keep[program] = true
		did, err := installFor(filepath.Join(dir, program), have, wanted[program])
		if err != nil {
			return nil, fmt.Errorf("install secrets of %s: %w", program, err)
		}
		if len(did) > 0 {
			changed[program] = did
		}
	}
	_, err = prune(dir, keep)
	return changed, err
}

func installFor(dir string, have map[string]string, refs []string) (changed []string, err error) {
	if err := privateDir(dir); err != nil {
		return nil, err
	}
	keep := map[string]bool{}
	for _, ref := range refs {
		secret, ok := have[ref]
		if !ok || !bundle.ValidName(ref) {
			continue
		}
		keep[ref] = true
		did, err := atomicfile.Write(filepath.Join(dir, ref), []byte(secret), 0o600)
		if err != nil {
			return nil, err
		}
		if did {
			changed = append(changed, ref)
		}
	}
	gone, err := prune(dir, keep)
	return append(changed, gone...), err
}

func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// prune removes what an earlier bundle left.
func prune(dir string, keep map[string]bool) (gone []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !keep[e.Name()] {
			gone = append(gone, e.Name())
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return gone, fmt.Errorf("remove an earlier secret: %w", err)
			}
		}
	}
	return gone, nil
}

// Refs lists the secrets that the settings of a service name, sorted, each once.
func Refs(settings any) []string {
	var out []string
	if own, ok := settings.(spec.Referring); ok {
		out = slices.Clone(own.SecretRefs())
	} else {
		walk(reflect.ValueOf(settings), &out)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var refType = reflect.TypeFor[spec.SecretRef]()

func walk(v reflect.Value, out *[]string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), out)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			walk(v.Index(i), out)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			walk(v.MapIndex(k), out)
		}
	case reflect.Struct:
		if v.Type() == refType {
			if ref := v.Field(0).String(); ref != "" {
				*out = append(*out, ref)
			}
			return
		}
		for i := range v.NumField() {
			walk(v.Field(i), out)
		}
	}
}
