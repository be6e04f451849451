package schema

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"spore/cluster"
)

// comments fills the reflector's comment map from the source of the packages of the settings: types by "PKG.Type",
// fields by "PKG.Type.Field", each in the words of the YAML file. (Reflector.AddGoComments wants the working directory
// to be the module's.)
func comments(r *jsonschema.Reflector, module string) error {
	choices := map[string]map[string][]string{} // of each package, by type and key
	for _, f := range cluster.Files() {
		for _, pkg := range packagesOf(reflect.TypeOf(f.Type)) {
			if choices[pkg] == nil {
				choices[pkg] = map[string][]string{}
			}
			maps.Copy(choices[pkg], f.Choices)
		}
	}
	for pkg, closed := range choices {
		if err := commentsOf(r, module, pkg, closed); err != nil {
			return err
		}
	}
	return nil
}

// packagesOf are the packages of a type and of all that it holds.
func packagesOf(t reflect.Type) []string {
	var out []string
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(t.Elem())
		case reflect.Struct:
			if seen[t] {
				return
			}
			seen[t] = true
			if !slices.Contains(out, t.PkgPath()) {
				out = append(out, t.PkgPath())
			}
			for i := range t.NumField() {
				walk(t.Field(i).Type)
			}
		}
	}
	walk(t)
	return out
}

// commentsOf takes those of one package, whose path begins with the module's name. choices has the closed lists of
// values.
func commentsOf(r *jsonschema.Reflector, module, pkg string, choices map[string][]string) error {
	_, dir, _ := strings.Cut(pkg, "/")
	names, err := filepath.Glob(filepath.Join(module, filepath.FromSlash(dir), "*.go"))
	if err != nil {
		return err
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, s := range gen.Specs {
				t := s.(*ast.TypeSpec)
				name := t.Name.Name
				r.CommentMap[pkg+"."+name] = commented{goName: name, text: oneLine(gen.Doc.Text())}.description()
				fields, ok := t.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, f := range commentedFields(fields) {
					f.values = choices[name+"."+f.key]
					r.CommentMap[pkg+"."+name+"."+f.goName] = f.description()
				}
			}
		}
	}
	return nil
}

// commentedFields returns the fields that a YAML file has.
func commentedFields(fields *ast.StructType) []commented {
	var out []commented
	keys := map[string]string{}
	for _, f := range fields.Fields.List {
		if f.Tag == nil {
			continue
		}
		key, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("yaml"), ",")
		for _, n := range f.Names {
			keys[n.Name] = key
			out = append(out, commented{goName: n.Name, key: key, text: oneLine(f.Doc.Text()), keys: keys})
		}
	}
	return out
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
