package fileutils

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"spore/builder/tree"
	"spore/cluster/filecap"
)

const capability = filecap.Attribute

// An owner is a user, a group or both; nil is for what stays as it is.
type owner struct {
	uid, gid *uint32
}

func (o owner) matches(n *tree.Inode) bool {
	return (o.uid == nil || *o.uid == n.UID) && (o.gid == nil || *o.gid == n.GID)
}

type owning struct {
	*job
	recursive, changes, verbose bool
	// referent is set when a symbolic link's file is changed, not the link.
	referent bool
	// traverse is which links to directories -R goes through: P none, H those among the operands, L all.
	traverse string
	to, from owner
}

const chownOptions = "R|recursive h|no-dereference dereference f|silent|quiet c|changes v|verbose L P H from= " +
	"reference= " +
	"preserve-root no-preserve-root"

func chown(j *job) error { return changeOwner(j, j.owner) }

func chgrp(j *job) error { return changeOwner(j, j.onlyGroup) }

func changeOwner(j *job, parse func(string) (owner, error)) error {
	o, err := j.options(chownOptions, permuted)
	if err != nil {
		return err
	}
	w := &owning{job: j, recursive: o.has("R"), changes: o.has("c"), verbose: o.has("v"), referent: o.lastOf("h",
		"dereference") != "h"}
	w.quiet = o.has("f")
	if w.recursive {
		if w.traverse = o.lastOf("P", "H", "L"); w.traverse == "" {
			w.traverse = "P"
		}
		if w.traverse == "P" {
			if o.lastOf("h", "dereference") == "dereference" {
				return j.stop(1, "-R --dereference requires either -H or -L")
			}
			w.referent = false
		}
	}
	if spec, ok := o.last("from"); ok {
		if w.from, err = j.owner(spec); err != nil {
			return j.stop(1, "%s", err)
		}
	}
	operands := o.operands
	if ref, ok := o.last("reference"); ok {
		n, err := j.stat(ref)
		if err != nil {
			return j.stop(1, "failed to get attributes of '%s': %s", ref, reason(err))
		}
		gid, uid := n.GID, n.UID
		w.to.gid = &gid
		if j.Name != "chgrp" {
			w.to.uid = &uid
		}
	} else {
		if len(operands) == 0 {
			return j.missing(nil)
		}
		if w.to, err = parse(operands[0]); err != nil {
			return j.stop(1, "%s", err)
		}
		if len(operands) == 1 {
			return j.stop(1, "missing operand after '%s'", operands[0])
		}
		operands = operands[1:]
	}
	if len(operands) == 0 {
		return j.missing(nil)
	}
	for _, name := range operands {
		if err := w.walk(name, j.abs(name), true, nil); err != nil {
			return err
		}
	}
	return nil
}

// walk changes what is below a directory and then the directory. The directories above are known, since with -L a
// link may lead back to one.
func (w *owning) walk(name, p string, operand bool, above []string) error {
	slash := operand && strings.HasSuffix(name, "/")
	follow := w.referent || slash
	n, err := w.Files.Lstat(p)
	if err == nil && follow {
		n, err = w.Files.Stat(p)
	}
	if err == nil && slash && n.Type != tree.Dir {
		err = errNotDir
	}
	if err != nil {
		w.tellFailure(name, p)
		if link, err2 := w.Files.Lstat(p); err2 == nil && link.Type == tree.Symlink && !slash {
			return w.soft(err, "cannot dereference '%s'", name)
		}
		return w.soft(w.why(p, err), "cannot access '%s'", name)
	}
	if w.recursive && w.enters(p, operand, slash) {
		if err := w.below(name, p, above); err != nil {
			return err
		}
	}
	return w.one(name, p, follow, n)
}

// enters tells whether -R goes into what is at a path.
func (w *owning) enters(p string, operand, slash bool) bool {
	n, err := w.Files.Lstat(p)
	if err != nil {
		return false
	}
	if n.Type == tree.Symlink && !slash {
		return w.Files.IsDir(p) && (w.traverse == "L" || w.traverse == "H" && operand)
	}
	return w.Files.IsDir(p)
}

func (w *owning) below(name, p string, above []string) error {
	real, err := w.Files.Resolve(p)
	if err != nil || slices.Contains(above, real) {
		return w.soft(err, "cannot access '%s'", name)
	}
	names, err := w.children(real)
	if err != nil {
		return w.soft(err, "cannot read directory '%s'", name)
	}
	for _, child := range names {
		if !w.known(path.Join(real, child)) {
			continue
		}
		if err := w.walk(join(name, child), path.Join(real, child), false, append(slices.Clip(above),
			real)); err != nil {
			return err
		}
	}
	return nil
}

// known tells whether there is something at a path that a directory lists; below / it is not for the kernel's
// filesystems.
func (j *job) known(p string) bool {
	_, err := j.Files.Lstat(p)
	return err == nil
}

func (w *owning) one(name, p string, follow bool, n *tree.Inode) error {
	if !w.from.matches(n) {
		if w.verbose {
			w.printf("ownership of '%s' retained as %s\n", name, w.accounts(n.UID, n.GID))
		}
		return nil
	}
	uid, gid := n.UID, n.GID
	if err := w.setOwner(p, follow, w.to); err != nil {
		return w.soft(err, "changing ownership of '%s'", name)
	}
	w.tell(name, uid, gid)
	return nil
}

// setOwner is chown(2) and lchown(2): both take set-user-ID and capabilities from whatever is not a directory, and
// set-group-ID from what the group may execute, even when the caller is root and nothing changes.
func (j *job) setOwner(p string, follow bool, to owner) error {
	return j.Files.Change(p, follow, func(n *tree.Inode) {
		if to.uid != nil {
			n.UID = *to.uid
		}
		if to.gid != nil {
			n.GID = *to.gid
		}
		chowned(n)
	})
}

// chowned takes from a file what chown(2) does.
func chowned(n *tree.Inode) {
	if n.Type == tree.Dir || n.Type == tree.Symlink {
		return
	}
	n.Mode &^= setuid
	if n.Mode&0o010 != 0 {
		n.Mode &^= setgid
	}
	n.Xattrs = without(n.Xattrs, capability)
}

// without returns attributes but one, in a list of its own.
func without(xattrs []tree.Xattr, name string) []tree.Xattr {
	var out []tree.Xattr
	for _, x := range xattrs {
		if x.Name != name {
			out = append(out, x)
		}
	}
	return out
}

// what is changed, in the words of -v.
func (w *owning) what() string {
	if w.Name == "chgrp" {
		return "group"
	}
	return "ownership"
}

// accounts are the names of an owner as -v prints them: of a file, those that are to change.
func (w *owning) accounts(uid, gid uint32) string {
	switch {
	case w.Name == "chgrp":
		return w.groupName(gid)
	case w.to.gid == nil:
		return w.userName(uid)
	}
	return w.userName(uid) + ":" + w.groupName(gid)
}

// wanted are the names of the new owner.
func (w *owning) wanted() string {
	switch {
	case w.Name == "chgrp" && w.to.gid != nil:
		return w.groupName(*w.to.gid)
	case w.to.uid == nil && w.to.gid != nil:
		return ":" + w.groupName(*w.to.gid)
	case w.to.uid != nil && w.to.gid != nil:
		return w.userName(*w.to.uid) + ":" + w.groupName(*w.to.gid)
	case w.to.uid != nil:
		return w.userName(*w.to.uid)
	}
	return ""
}

func (w *owning) tell(name string, uid, gid uint32) {
	changed := w.to.uid != nil && *w.to.uid != uid || w.to.gid != nil && *w.to.gid != gid
	switch {
	case changed && (w.changes || w.verbose):
		w.printf("changed %s of '%s' from %s to %s\n", w.what(), name, w.accounts(uid, gid), w.wanted())
	case w.verbose:
		w.printf("%s of '%s' retained as %s\n", w.what(), name, w.accounts(uid, gid))
	}
}

func (w *owning) tellFailure(name, p string) {
	if !w.verbose {
		return
	}
	from := ""
	if n, err := w.Files.Lstat(p); err == nil {
		from = " from " + w.accounts(n.UID, n.GID)
	}
	w.printf("failed to change %s of '%s'%s to %s\n", w.what(), name, from, w.wanted())
}

func (j *job) userName(uid uint32) string {
	if name := j.names.UserName(uid); name != "" {
		return name
	}
	return strconv.FormatUint(uint64(uid), 10)
}

func (j *job) groupName(gid uint32) string {
	if name := j.names.GroupName(gid); name != "" {
		return name
	}
	return strconv.FormatUint(uint64(gid), 10)
}

// owner reads USER, USER:GROUP, USER: (the user's own group), :GROUP, and the old forms with a dot. The errors are
// those of chown(1), which name the whole text.
func (j *job) owner(spec string) (owner, error) {
	o, err := j.splitOwner(spec, ":")
	if err != nil && !strings.Contains(spec, ":") && strings.Contains(spec, ".") {
		if dotted, err2 := j.splitOwner(spec, "."); err2 == nil {
			fmt.Fprintf(j.Stderr, "%s: warning: '.' should be ':': '%s'\n", j.Name, spec)
			return dotted, nil
		}
	}
	return o, err
}

func (j *job) splitOwner(spec, separator string) (owner, error) {
	var o owner
	user, group, both := strings.Cut(spec, separator)
	if user != "" {
		uid, ok := number(user, j.names.UserID)
		if !ok {
			return o, fmt.Errorf("invalid user: '%s'", spec)
		}
		o.uid = &uid
	}
	switch {
	case group != "":
		gid, ok := number(group, j.names.GroupID)
		if !ok {
			return owner{}, fmt.Errorf("invalid group: '%s'", spec)
		}
		o.gid = &gid
	case both && user != "":
		gid, ok := j.names.PrimaryGroup(user)
		if !ok {
			return owner{}, fmt.Errorf("invalid spec: '%s'", spec)
		}
		o.gid = &gid
	}
	return o, nil
}

func (j *job) onlyGroup(name string) (owner, error) {
	if name == "" {
		return owner{}, nil
	}
	gid, ok := number(name, j.names.GroupID)
	if !ok {
		return owner{}, fmt.Errorf("invalid group: '%s'", name)
	}
	return owner{gid: &gid}, nil
}

// number is the id of a name, or the id that the text is when no account has it as its name. "+1" is never a name.
// The largest number means "as it is" to the kernel and is not an id.
func number(text string, lookup func(string) (uint32, bool)) (uint32, bool) {
	if !strings.HasPrefix(text, "+") {
		if id, ok := lookup(text); ok {
			return id, true
		}
	}
	id, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 10, 32)
	if err != nil || id == 1<<32-1 {
		return 0, false
	}
	return uint32(id), true
}
