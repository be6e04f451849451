package check

import (
	"fmt"
	"slices"
)

// File is one file of the configuration with the positions of what is in it.
type File interface {
	// Path is relative to the configuration folder.
	Path() string
	// At returns the position of the value at a path of keys (string) and list indexes (int), or of the nearest thing around
	// it that exists.
	At(path ...any) (line, column int)
	// Has reports whether there is a value at the path.
	Has(path ...any) bool
	// Faulty reports whether a problem at this position was found before the checks.
	Faulty(line, column int) bool
}

// Place is where a problem is: a path of keys and indexes in a file.
type Place struct {
	File File
	Path []any
}

// In is a place in a file.
func In(file File, path ...any) Place { return Place{file, path} }

// Then is a place further down.
func (p Place) Then(path ...any) Place { return Place{p.File, append(slices.Clone(p.Path), path...)} }

// Where names a place for the message about another one.
func (p Place) Where() string {
	line, _ := p.File.At(p.Path...)
	return fmt.Sprintf("%s:%d", p.File.Path(), line)
}
