package service

// Debian is what an image leaves out of a Debian package. Packages that are of no one service have their rows in
// builder/recipe; accounts have fixed numbers in builder/accounts/table.
type Debian struct {
	// Package is its name.
	Package string
	// Drop is left out.
	Drop []Drop
}

// Drop is what an image leaves out: a path, or a pattern of path.Match.
type Drop struct{ Path, Why string }
