package schema

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"spore/cluster/spec"
)

// comments fills the reflector's comment map from the source of package spec: types by "PKG.Type", fields by
// "PKG.Type.Field". (Reflector.AddGoComments wants the working directory to be the module's.)
func comments(r *jsonschema.Reflector, module string) error {
	pkg := reflect.TypeFor[spec.Cluster]().PkgPath()
	names, err := filepath.Glob(filepath.Join(module, "cluster", "spec", "*.go"))
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
				r.CommentMap[pkg+"."+t.Name.Name] = oneLine(gen.Doc.Text())
				fields, ok := t.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, f := range fields.Fields.List {
					for _, n := range f.Names {
						r.CommentMap[pkg+"."+t.Name.Name+"."+n.Name] = oneLine(f.Doc.Text())
					}
				}
			}
		}
	}
	return nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
