package fileutils

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"

	"spore/builder/tree"
)

// makeFile puts a new regular file at a path. Data that is there already is shared, not read.
func (j *job) makeFile(p string, content tree.Content, mode uint32) error {
	if err := j.Files.Copy(&tree.Inode{Type: tree.Regular, Mode: mode, Content: content}, p); err != nil {
		return err
	}
	return j.inherit(p)
}

// makeDir is mkdir(2): with the group and set-group-ID of its parent, where that has it.
func (j *job) makeDir(p string, mode uint32) error {
	if _, err := j.Files.Lstat(p); err == nil {
		return &fs.PathError{Op: "mkdir", Path: p, Err: fs.ErrExist}
	}
	if err := j.Files.Mkdir(p, mode); err != nil {
		return err
	}
	return j.inherit(p)
}

// makeLink is symlink(2).
func (j *job) makeLink(target, p string) error {
	if err := j.Files.Symlink(target, p); err != nil {
		return err
	}
	return j.inherit(p)
}

// inherit gives a new file the group of a parent with set-group-ID, as inode_init_owner of the kernel does.
func (j *job) inherit(p string) error {
	parent, err := j.Files.Stat(path.Dir(p))
	if err != nil || parent.Mode&setgid == 0 {
		return err
	}
	gid := parent.GID
	return j.Files.Change(p, false, func(n *tree.Inode) {
		n.GID = gid
		if n.Type == tree.Dir {
			n.Mode |= setgid
		}
	})
}

// remake gives an existing file new data: it stays the same inode. The kernel takes its capabilities away.
func (j *job) remake(p string, content tree.Content) error {
	now := j.Files.MTime
	return j.Files.Change(p, true, func(n *tree.Inode) {
		n.Content, n.MTime, n.Xattrs = content, now, without(n.Xattrs, capability)
	})
}

func (j *job) setMode(p string, mode uint32) error {
	return j.Files.Change(p, true, func(n *tree.Inode) { n.Mode = mode })
}

// justMade has the places that operands of one command were put at; a second operand of the same name does not replace
// the first.
type justMade map[string]bool

// has tells whether an operand was put at a path, and keeps in mind that one is.
func (m justMade) has(j *job, p string) bool {
	if resolved, err := j.place(p); err == nil {
		p = resolved
	}
	if m[p] && j.known(p) {
		return true
	}
	m[p] = true
	return false
}

// preserve gives a copy what its original has: of owner, time stamp, attributes and mode those that are asked for. It
// does so in the order of cp, because a change of the owner takes bits of the mode away.
func (j *job) preserve(p string, from *tree.Inode, k keep) error {
	return j.Files.Change(p, false, func(n *tree.Inode) {
		if k.ownership && (n.UID != from.UID || n.GID != from.GID) {
			n.UID, n.GID = from.UID, from.GID
			chowned(n)
		}
		if k.xattrs {
			n.Xattrs = slices.Clone(from.Xattrs)
		}
		if k.timestamps {
			n.MTime = from.MTime
		}
		if k.mode && n.Type != tree.Symlink {
			// cp sets an access list of the permission bits, and calls chmod only when there are others.
			n.Mode = from.Mode | n.Mode&^allRWX
			if from.Mode&^allRWX != 0 {
				n.Mode = from.Mode
			}
		}
	})
}

// equal compares the data of two files.
func equal(a, b tree.Content) (bool, error) {
	if a.Size() != b.Size() {
		return false, nil
	}
	ra, err := a.Open()
	if err != nil {
		return false, err
	}
	defer ra.Close()
	rb, err := b.Open()
	if err != nil {
		return false, err
	}
	defer rb.Close()
	bufA, bufB := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		na, errA := io.ReadFull(ra, bufA)
		nb, errB := io.ReadFull(rb, bufB)
		if !bytes.Equal(bufA[:na], bufB[:nb]) {
			return false, nil
		}
		if errA != nil || errB != nil {
			return isEnd(errA) && isEnd(errB), notEnd(errA, errB)
		}
	}
}

func isEnd(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF }

func notEnd(errs ...error) error {
	for _, err := range errs {
		if err != nil && !isEnd(err) {
			return err
		}
	}
	return nil
}
