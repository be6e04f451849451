package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// target is one fuzz target.
type target struct {
	// module is the folder from which the go command finds the package.
	module string
	// dir is the folder of the package, pkg its import path.
	dir, pkg string
	name     string
}

// String is the target as the table and -run name it.
func (t target) String() string { return strings.TrimPrefix(t.pkg, "spore/") + "." + t.name }

// corpus is where go test looks for inputs to replay.
func (t target) corpus() string { return filepath.Join(t.dir, "testdata", "fuzz", t.name) }

// list finds the targets of a module by reading its tests; go test -list would compile all of them first.
func list(ctx context.Context, module string, match *regexp.Regexp) ([]target, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = module
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var out []target
	d := json.NewDecoder(bytes.NewReader(text))
	for {
		var p struct {
			Dir, ImportPath           string
			TestGoFiles, XTestGoFiles []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		for _, file := range append(p.TestGoFiles, p.XTestGoFiles...) {
			names, err := targetsOf(filepath.Join(p.Dir, file))
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				if t := (target{module, p.Dir, p.ImportPath, name}); match.MatchString(t.String()) {
					out = append(out, t)
				}
			}
		}
	}
}

// targetsOf names the functions of a file that take a *testing.F.
func targetsOf(file string) ([]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("read the tests: %w", err)
	}
	var out []string
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz") && takesF(fn.Type.Params.List) {
			out = append(out, fn.Name.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

func takesF(params []*ast.Field) bool {
	if len(params) != 1 {
		return false
	}
	star, ok := params[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	sel, ok := star.X.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "F"
}
