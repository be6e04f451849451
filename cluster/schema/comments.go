package schema

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"spore/cluster"
	"spore/cluster/spec"
)

// comments fills the reflector's comment map from the source of the packages of the settings: types by "PKG.Type", fields by
// "PKG.Type.Field". (Reflector.AddGoComments wants the working directory to be the module's.)
func comments(r *jsonschema.Reflector, module string) error {
	pkgs := map[string]bool{reflect.TypeFor[spec.Cluster]().PkgPath(): true} // also what the types of services hold
	for _, f := range cluster.Files() {
		pkgs[reflect.TypeOf(f.Type).Elem().PkgPath()] = true
	}
	for pkg := range pkgs {
		if err := commentsOf(r, module, pkg); err != nil {
			return err
		}
	}
	return nil
}

// commentsOf takes those of one package, whose path begins with the module's name.
func commentsOf(r *jsonschema.Reflector, module, pkg string) error {
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
