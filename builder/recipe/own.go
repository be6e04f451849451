package recipe

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"spore/builder/tree"
	"spore/cluster/overlay"
)

// configuration begins the origin of what the configuration folder brings; the path in the folder follows.
const configuration = "configuration:"

// isOwn tells whether an inode is a file of the user's own.
func isOwn(n *tree.Inode) bool { return strings.HasPrefix(n.Origin, configuration) }

// laidOwn is a file of the user's own at its place.
type laidOwn struct {
	path string
	n    *tree.Inode
}

// ownProblems are what is wrong with files of the user's own, each with its place; they are said at once.
type ownProblems []string

func (p *ownProblems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

func (p ownProblems) err() error {
	if len(p) == 0 {
		return nil
	}
	return errors.New(strings.Join(p, "\n"))
}

// layOwn puts a file of the user's own at its place.
func (b *build) layOwn(where string, n *tree.Inode) error {
	if err := b.add(where, n, "from the configuration"); err != nil {
		return err
	}
	b.laid = append(b.laid, laidOwn{where, n})
	return nil
}

// layOwnFiles lays overlay/ of the configuration in. It runs after all that is ours, so that nothing of that is
// replaced unseen.
func layOwnFiles(b *build) error {
	var wrong ownProblems
	for _, e := range b.opts.Files {
		if err := b.layOwnFile(e); err != nil {
			wrong.add("%s: %v", e.At, err)
		}
	}
	if err := wrong.err(); err != nil {
		return err
	}
	for _, e := range b.opts.Files { // links may lead to each other
		if e.Type != fs.ModeSymlink {
			continue
		}
		if why := b.danglingOwn(e); why != "" {
			wrong.add("%s: %s", e.At, why)
		}
	}
	return wrong.err()
}

func (b *build) layOwnFile(e overlay.Entry) error {
	resolve := b.tree.Resolve
	if e.Type == fs.ModeDir {
		resolve = b.tree.Follow
	}
	where, err := resolve(e.Path)
	if err != nil {
		return err
	}
	// validate has refused this of the path itself; a link of the image may lead elsewhere.
	if why := overlay.Reserved(where); why != "" && e.Type != fs.ModeDir {
		return fmt.Errorf("%s leads to %s in the image, where no file of overlay/ can be: %s", e.Path, where, why)
	}
	n, err := b.ownInode(e)
	if err != nil {
		return err
	}
	old, err := b.tree.Lstat(where)
	if errors.Is(err, fs.ErrNotExist) {
		return b.layOwn(where, n)
	}
	if err != nil {
		return err
	}
	if e.Type == fs.ModeDir && old.Type == tree.Dir && e.File == (overlay.File{}) {
		return nil // It stays as it is.
	}
	if err := mayReplace(e, old); err != nil {
		return err
	}
	return b.layOwn(where, n)
}

// mayReplace refuses an entry at the place of something that is not to be replaced.
func mayReplace(e overlay.Entry, old *tree.Inode) error {
	switch pkg := packageOf(old.Origin); {
	case e.Type == fs.ModeDir && old.Type != tree.Dir:
		return fmt.Errorf("%s is a file of %s, and a directory in %s/; choose another path",
			e.Path, ownerOf(old), overlay.Dir)
	case e.Type != fs.ModeDir && old.Type == tree.Dir:
		return fmt.Errorf("%s is a directory in the image, of %s; a file cannot take its place", e.Path, ownerOf(old))
	case pkg == "":
		return fmt.Errorf("%s is there already, of %s, and cannot be replaced; choose another path",
			e.Path, ownerOf(old))
	case !e.File.Replace:
		return fmt.Errorf("%s is of package %s; to replace it, write into %s:\n  files: {%s: {replace: true}}",
			e.Path, pkg, overlay.SettingsFile, e.Path)
	}
	return nil
}

// packageOf is the package that a file is of, or whose maintainer script made it; empty for anything else.
func packageOf(origin string) string {
	scheme, name, _ := strings.Cut(origin, ":")
	switch scheme {
	case "deb":
		name, _, _ = strings.Cut(name, "_")
		return name
	case "script":
		return strings.TrimSuffix(name, path.Ext(name))
	}
	return ""
}

// ownerOf says in words whom a file is of.
func ownerOf(n *tree.Inode) string {
	scheme, name, _ := strings.Cut(n.Origin, ":")
	switch pkg := packageOf(n.Origin); {
	case pkg != "":
		return "package " + pkg
	case scheme == "payload":
		return "the program " + name
	case isOwn(n):
		return name
	}
	return "Spore"
}

// ownInode makes the inode of an entry, with the ids of its owner and group.
func (b *build) ownInode(e overlay.Entry) (*tree.Inode, error) {
	n := &tree.Inode{Type: tree.Regular, Mode: e.Mode(), Origin: configuration + e.Source()}
	switch e.Type {
	case fs.ModeDir:
		n.Type = tree.Dir
	case fs.ModeSymlink:
		n.Type, n.Target = tree.Symlink, e.Target
	default:
		n.Content = tree.Bytes(e.Data)
	}
	var ok bool
	if name := e.File.Owner; name != "" {
		if n.UID, ok = b.accounts.UserID(name); !ok {
			return nil, fmt.Errorf("the image has no user %s; %s", name, makeAccount)
		}
	}
	if name := e.File.Group; name != "" {
		if n.GID, ok = b.accounts.GroupID(name); !ok {
			return nil, fmt.Errorf("the image has no group %s; %s", name, makeAccount)
		}
	}
	return n, nil
}

// makeAccount says how an image gets an account.
const makeAccount = "add the package that makes it, or name it in scripts of image.yaml (users, groups)"

// madeAtBoot are directories whose content is there at run time alone.
var madeAtBoot = []string{"/dev/", "/proc/", "/run/", "/sys/", "/tmp/", "/var/"}

// danglingOwn says where a link leads that leads nowhere.
func (b *build) danglingOwn(e overlay.Entry) string {
	end, err := b.tree.Follow(e.Path)
	if err != nil {
		return err.Error()
	}
	atBoot := slices.ContainsFunc(madeAtBoot, func(dir string) bool { return strings.HasPrefix(end, dir) })
	if atBoot || b.tree.Exists(end) {
		return ""
	}
	return fmt.Sprintf("is a link to %s, and the image has no %s", e.Target, end)
}

// checkOwn makes sure that what the user brought is as it was laid, and that all of its scripts and units find what
// they need.
func checkOwn(b *build) error {
	var wrong ownProblems
	for _, own := range b.laid {
		source := strings.TrimPrefix(own.n.Origin, configuration)
		n, err := b.tree.Lstat(own.path)
		switch {
		case err != nil:
			wrong.add("%s: the build removes %s from each image; choose another path", source, own.path)
			continue
		case n != own.n:
			wrong.add("%s: the build writes %s itself; choose another path", source, own.path)
			continue
		case n.Type != tree.Regular || n.Mode&0o111 == 0:
			continue
		}
		interpreter, err := Interpreter(n.Content)
		if err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
		if interpreter != "" && b.runnable(interpreter) != "" {
			wrong.add("%s: it is a script for %s, which is not in the image; add its package to packages of image.yaml",
				source, interpreter)
		}
	}
	if err := b.checkHidden(&wrong); err != nil {
		return err
	}
	b.checkOwnUnits(&wrong)
	b.checkRoleUnits(&wrong)
	return wrong.err()
}
