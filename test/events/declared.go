package events

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// declared are the tests of a package that go test runs with the arguments: those that a package which died did not
// begin have no events. They are read from the source, because `go test -list` runs TestMain, which may build an image.
func declared(a Args, env []string, pkg string) ([]string, error) {
	args := []string{"list"}
	if a.Dir != "" {
		args = append(args, "-C", a.Dir)
	}
	cmd := exec.Command("go", append(args, "-tags", a.Tags, "-json=Dir,TestGoFiles,XTestGoFiles", pkg)...)
	cmd.Env, cmd.Stderr = env, os.Stderr
	data, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the test files of %s: %w", pkg, err)
	}
	var in struct {
		Dir                       string
		TestGoFiles, XTestGoFiles []string
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("list the test files of %s: %w", pkg, err)
	}
	var files []*ast.File
	for _, name := range append(in.TestGoFiles, in.XTestGoFiles...) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(in.Dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	var tests []string
	for _, name := range testNames(files) {
		if a.chosen(name) {
			tests = append(tests, name)
		}
	}
	return tests, nil
}

// testNames are the functions that go help testfunc calls tests, with fuzz targets, which go test runs with their
// seeds, and examples that say what they print.
func testNames(files []*ast.File) (names []string) {
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv == nil && (isTest(fn.Name.Name, "Test") || isTest(fn.Name.Name, "Fuzz")) {
				names = append(names, fn.Name.Name)
			}
		}
	}
	for _, e := range doc.Examples(files...) {
		if e.Output != "" || e.EmptyOutput {
			names = append(names, "Example"+e.Name)
		}
	}
	return names
}

// isTest is the rule of go help testfunc: no lower-case letter follows the prefix.
func isTest(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	first, _ := utf8.DecodeRuneInString(rest)
	return ok && name != "TestMain" && !unicode.IsLower(first)
}
