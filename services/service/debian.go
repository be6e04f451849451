package service

// Debian is what an image needs besides the files of a Debian package, since none of its maintainer scripts runs, and what of
// it an image leaves out. Packages that are of no one service have their rows in builder/recipe; accounts have fixed numbers
// in builder/recipe/accounts/table.
type Debian struct {
	// Package is its name.
	Package string
	// Scripts says, by the verb of a maintainer script, why no more than the recipe does is needed (builder/recipe, scripts.go).
	Scripts map[string]string
	// Owners replay chown, chmod and dpkg-statoverride.
	Owners []Owner
	// Drop is left out.
	Drop []Drop
}

// Owner is an owner and mode that a postinst sets, because the archive cannot carry a name without a fixed id.
type Owner struct {
	Path string
	// User and Group are names of the table of accounts, and Mode is the whole mode; what is empty stays as the package has it.
	User, Group string
	Mode        uint32
	// Why is for the report of a build.
	Why string
}

// Drop is what an image leaves out: a path, or a pattern of path.Match.
type Drop struct{ Path, Why string }
