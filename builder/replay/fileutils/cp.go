package fileutils

import (
	"fmt"
	"path"
	"strings"

	"spore/builder/replay/files"
	"spore/builder/tree"
)

// keep says what of an original a copy gets.
type keep struct {
	mode, ownership, timestamps, xattrs, links bool
}

// A copier copies files: cp, and install in its own way.
type copier struct {
	*job
	keep
	recursive, removeFirst, noClobber, update, verbose bool
	hardLinks, symLinks                                bool
	// follow is which symbolic links are copied as what they lead to: P none, H those among the operands, L all.
	follow string
	// copied has the first copy of each file with several names.
	copied   map[*tree.Inode]string
	justMade justMade
	// made are the directories of this copy, which is not copied into itself.
	made map[*tree.Inode]bool
	// top are the names of the operand and of its copy.
	top [2]string
	// intoItself ends the copy of an operand.
	intoItself bool
}

const cpOptions = "a|archive d p r|R|recursive f|force n|no-clobber u|update v|verbose l|link s|symbolic-link " +
	"L|dereference " +
	"P|no-dereference H x|one-file-system T|no-target-directory t|target-directory= preserve? no-preserve= " +
	"remove-destination Z " +
	"reflink? sparse= strip-trailing-slashes"

func cp(j *job) error {
	o, err := j.options(cpOptions, permuted)
	if err != nil {
		return err
	}
	k := &copier{job: j, copied: map[*tree.Inode]string{}, justMade: justMade{}, made: map[*tree.Inode]bool{}}
	for _, opt := range o.given {
		if err := k.option(opt); err != nil {
			return err
		}
	}
	if k.hardLinks && k.symLinks {
		return j.stop(1, "cannot make both hard and symbolic links")
	}
	if k.follow == "" {
		k.follow = "L"
		if k.recursive {
			k.follow = "P"
		}
	}
	sources, dests, err := j.targets(o, true)
	if err != nil {
		return err
	}
	for i, source := range sources {
		if o.has("strip-trailing-slashes") {
			source = strings.TrimRight(source, "/")
		}
		if err := k.operand(source, dests[i]); err != nil {
			return err
		}
	}
	return nil
}

func (k *copier) option(opt option) error {
	switch opt.name {
	case "a":
		k.recursive, k.follow = true, "P"
		k.keep = keep{true, true, true, true, true}
	case "d":
		k.follow, k.links = "P", true
	case "p":
		k.mode, k.ownership, k.timestamps = true, true, true
	case "preserve":
		if !opt.has {
			k.mode, k.ownership, k.timestamps = true, true, true
			return nil
		}
		return k.preserved(opt.value, true)
	case "no-preserve":
		return k.preserved(opt.value, false)
	case "r":
		k.recursive = true
	case "L", "P", "H":
		k.follow = opt.name
	case "n":
		k.noClobber = true
	case "u":
		k.update = true
	case "v":
		k.verbose = true
	case "l":
		k.hardLinks = true
	case "s":
		k.symLinks = true
	case "remove-destination":
		k.removeFirst = true
	}
	return nil
}

func (k *copier) preserved(list string, on bool) error {
	for _, word := range strings.Split(list, ",") {
		switch word {
		case "mode":
			k.mode = on
		case "ownership":
			k.ownership = on
		case "timestamps":
			k.timestamps = on
		case "links":
			k.links = on
		case "xattr":
			k.xattrs = on
		case "context":
		case "all":
			k.keep = keep{on, on, on, on, on}
		default:
			return k.stop(1, "invalid argument '%s' for '--preserve'", word)
		}
	}
	return nil
}

// operand copies one operand.
func (k *copier) operand(source, dest string) error {
	n, err := k.look(source, k.follow != "P")
	if err != nil {
		return k.soft(err, "cannot stat '%s'", source)
	}
	if n.Type == tree.Dir && !k.recursive {
		k.fail("-r not specified; omitting directory '%s'", source)
		return nil
	}
	if n.Type != tree.Dir && strings.HasSuffix(dest, "/") {
		k.fail("cannot create regular file '%s': Not a directory", dest)
		return nil
	}
	if n.Type != tree.Dir && !k.noClobber && k.justMade.has(k.job, k.abs(dest)) {
		k.fail("will not overwrite just-created '%s' with '%s'", dest, source)
		return nil
	}
	k.top, k.intoItself = [2]string{source, dest}, false
	return k.copy(source, k.abs(source), n, dest, k.abs(dest))
}

// copy copies n, which is at source, to dest.
func (k *copier) copy(sourceName, source string, n *tree.Inode, destName, dest string) error {
	if err := k.ctx.Err(); err != nil {
		return err
	}
	have, err := k.Files.Lstat(dest)
	if err == nil && n.Type == tree.Regular && have.Type == tree.Symlink && !k.removeFirst && !k.hardLinks &&
		!k.symLinks {
		target, err := k.Files.Stat(dest)
		if err != nil {
			k.fail("not writing through dangling symlink '%s'", destName)
			return nil
		}
		have = target
	} else if err == nil && n.Type == tree.Dir && have.Type == tree.Symlink && k.Files.IsDir(dest) {
		k.fail("cannot overwrite non-directory '%s' with directory '%s'", destName, sourceName)
		return nil
	}
	if err != nil {
		have = nil
	}
	if have != nil {
		if done, err := k.exists(sourceName, source, n, destName, dest, have); done || err != nil {
			return err
		}
	}
	if n.Type == tree.Dir {
		return k.dir(sourceName, source, n, destName, dest, have)
	}
	return k.file(sourceName, source, n, destName, dest, have)
}

// exists decides what is done with what is at the destination.
func (k *copier) exists(sourceName, source string, n *tree.Inode, destName, dest string,
	have *tree.Inode) (done bool, err error) {
	dir := n.Type == tree.Dir
	switch {
	case k.noClobber && !dir:
		return true, nil
	case !dir && have.Type == tree.Dir:
		k.fail("cannot overwrite directory '%s' with non-directory", destName)
		return true, nil
	case dir && have.Type != tree.Dir:
		k.fail("cannot overwrite non-directory '%s' with directory '%s'", destName, sourceName)
		return true, nil
	case !dir && n == have && k.hardLinks && !k.symLinks:
		return true, nil
	case k.isLinkTo(n, source, have):
		k.fail("'%s' and '%s' are the same file", sourceName, destName)
		return true, nil
	case n == have && !k.removesLink(dest, n, source):
		k.fail("'%s' and '%s' are the same file", sourceName, destName)
		return true, nil
	case k.update && !dir && have.MTime >= n.MTime:
		return true, nil
	case k.symLinks && !k.removeFirst && !dir, k.hardLinks && !k.removeFirst && !dir:
		kind := "hard link"
		if k.symLinks {
			kind = "symbolic link"
		}
		k.fail("cannot create %s '%s' to '%s': File exists", kind, destName, sourceName)
		return true, nil
	}
	return false, nil
}

// removesLink tells whether the destination is another name, which --remove-destination takes away before the copy.
func (k *copier) removesLink(dest string, n *tree.Inode, source string) bool {
	if !k.removeFirst {
		return false
	}
	a, errA := k.place(dest)
	b, errB := k.place(source)
	return errA == nil && errB == nil && a != b
}

func (k *copier) dir(sourceName, source string, n *tree.Inode, destName, dest string, have *tree.Inode) error {
	if k.made[n] {
		k.fail("cannot copy a directory, '%s', into itself, '%s'", k.top[0], k.top[1])
		k.intoItself = true
		return nil
	}
	real, err := k.Files.Resolve(source)
	if err != nil {
		return k.soft(err, "cannot access '%s'", sourceName)
	}
	if have == nil {
		if err := k.makeDir(dest, n.Mode&(allRWX|sticky)&^k.Umask); err != nil {
			return k.soft(err, "cannot create directory '%s'", destName)
		}
		if made, err := k.Files.Lstat(dest); err == nil {
			k.made[made] = true
		}
		if k.verbose {
			k.printf("'%s' -> '%s'\n", sourceName, destName)
		}
	}
	names, err := k.children(real)
	if err != nil {
		return k.soft(err, "cannot access '%s'", sourceName)
	}
	for _, name := range names {
		child, err := k.Files.Lstat(path.Join(real, name))
		if err == nil && k.follow == "L" {
			child, err = k.Files.Stat(path.Join(real, name))
			if err != nil {
				if err := k.soft(err, "cannot stat '%s'", join(sourceName, name)); err != nil {
					return err
				}
				continue
			}
		}
		if err != nil {
			continue
		}
		if err := k.copy(join(sourceName, name), path.Join(real, name), child, join(destName, name), path.Join(dest,
			name)); err != nil {
			return err
		}
		if k.intoItself {
			break
		}
	}
	return k.preserve(dest, n, k.keep)
}

func (k *copier) file(sourceName, source string, n *tree.Inode, destName, dest string, have *tree.Inode) error {
	if k.verbose {
		k.printf("'%s' -> '%s'\n", sourceName, destName)
	}
	replaced := k.removeFirst || n.Type != tree.Regular && k.follow == "P" || k.links && have != nil &&
		k.linkCount(have) > 1
	if have != nil && replaced {
		if err := k.Files.Remove(dest); err != nil {
			return k.soft(err, "cannot remove '%s'", destName)
		}
		have = nil
	}
	switch {
	case k.hardLinks:
		return k.soft(k.Files.Link(source, dest), "cannot create hard link '%s' to '%s'", destName, sourceName)
	case k.symLinks:
		if !path.IsAbs(sourceName) && path.Dir(dest) != path.Clean(k.Dir) {
			k.fail("%s: can make relative symbolic links only in current directory", destName)
			return nil
		}
		return k.soft(k.makeLink(sourceName, dest), "cannot create symbolic link '%s' to '%s'", destName, sourceName)
	}
	if first, ok := k.copied[n]; ok && k.links {
		if have != nil {
			if err := k.Files.Remove(dest); err != nil {
				return k.soft(err, "cannot remove '%s'", destName)
			}
		}
		return k.soft(k.Files.Link(first, dest), "cannot create hard link '%s' to '%s'", destName, first)
	}
	k.copied[n] = dest
	if err := k.data(n, dest, have); err != nil {
		return k.soft(err, "cannot create regular file '%s'", destName)
	}
	if have == nil || have.Type != tree.Symlink {
		if to, err := k.Files.Resolve(dest); err == nil && n.Type == tree.Regular {
			dest = to
		}
	}
	if n.Type == tree.CharDevice {
		return nil
	}
	return k.preserve(dest, n, k.keep)
}

// data makes the copy. A device is read, which is for /dev/null: it is empty.
func (k *copier) data(n *tree.Inode, dest string, have *tree.Inode) error {
	switch n.Type {
	case tree.Symlink:
		return k.makeLink(n.Target, dest)
	case tree.CharDevice, tree.BlockDevice:
		if k.recursive {
			return fmt.Errorf("copy a device node: %w", files.ErrRefused)
		}
	case tree.Fifo:
		if !k.recursive {
			return fmt.Errorf("read a named pipe: %w", files.ErrRefused)
		}
		if err := k.Files.Mkfifo(dest, n.Mode&allRWX&^k.Umask); err != nil {
			return err
		}
		return k.inherit(dest)
	}
	content := n.Content
	if n.Type != tree.Regular {
		content = tree.Bytes(nil)
	}
	if have == nil {
		return k.makeFile(dest, content, n.Mode&allRWX&^k.Umask)
	}
	if have.Type == tree.CharDevice {
		return nil
	}
	return k.remake(dest, content)
}
