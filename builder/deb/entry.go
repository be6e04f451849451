package deb

import (
	"archive/tar"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"

	"spore/builder/tree"
)

// Bounds of one entry: PATH_MAX and NAME_MAX of Linux, and the largest value of an extended attribute (xattr(7)).
const (
	maxPath  = 4095
	maxName  = 255
	maxXattr = 64 << 10
)

// xattrPrefix is where tar keeps extended attributes in pax records.
const xattrPrefix = "SCHILY.xattr."

// types maps tar's types to ours. A contiguous file is a regular one to all who read tar today.
var types = map[byte]tree.Type{
	tar.TypeReg:     tree.Regular,
	tar.TypeCont:    tree.Regular,
	tar.TypeDir:     tree.Dir,
	tar.TypeSymlink: tree.Symlink,
	tar.TypeChar:    tree.CharDevice,
	tar.TypeBlock:   tree.BlockDevice,
	tar.TypeFifo:    tree.Fifo,
}

// header turns a tar header into ours and checks every field of it.
func header(h *tar.Header) (*Header, error) {
	p, err := entryPath(h.Name)
	if err != nil {
		return nil, err
	}
	if h.Typeflag == tar.TypeLink {
		target, err := entryPath(h.Linkname)
		if err != nil {
			return nil, fmt.Errorf("%s: hard link: %w", p, err)
		}
		return &Header{Path: p, Link: target}, nil
	}
	typ, ok := types[h.Typeflag]
	if !ok {
		return nil, fmt.Errorf("%s: entries of tar type %q are not allowed in a package", p, h.Typeflag)
	}
	if h.Uid < 0 || h.Gid < 0 || int64(h.Uid) > 1<<32-2 || int64(h.Gid) > 1<<32-2 {
		return nil, fmt.Errorf("%s: owner %d:%d is not a user and group id", p, h.Uid, h.Gid)
	}
	out := &Header{
		Path: p, User: h.Uname, Group: h.Gname,
		Inode: tree.Inode{Type: typ, Mode: uint32(h.Mode & 0o7777), UID: uint32(h.Uid), GID: uint32(h.Gid), MTime: h.ModTime.Unix()},
	}
	switch typ {
	case tree.Regular:
		out.Size = h.Size
	case tree.Symlink:
		if err := checkText(h.Linkname); err != nil {
			return nil, fmt.Errorf("%s: symbolic link: %w", p, err)
		}
		out.Inode.Target = h.Linkname
	case tree.CharDevice, tree.BlockDevice:
		// The kernel has 12 bits of major and 20 bits of minor number.
		if h.Devmajor < 0 || h.Devmajor >= 1<<12 || h.Devminor < 0 || h.Devminor >= 1<<20 {
			return nil, fmt.Errorf("%s: there is no device %d:%d", p, h.Devmajor, h.Devminor)
		}
		out.Inode.Major, out.Inode.Minor = uint32(h.Devmajor), uint32(h.Devminor)
	}
	if out.Inode.Xattrs, err = xattrs(h.PAXRecords); err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	return out, nil
}

// xattrs takes the extended attributes out of pax records, sorted by name.
func xattrs(records map[string]string) ([]tree.Xattr, error) {
	var out []tree.Xattr
	for k, v := range records {
		name, ok := strings.CutPrefix(k, xattrPrefix)
		if !ok {
			continue
		}
		if !strings.Contains(name, ".") || len(name) > maxName || len(v) > maxXattr {
			return nil, fmt.Errorf("extended attribute %.60q of %d bytes is not possible", name, len(v))
		}
		out = append(out, tree.Xattr{Name: name, Value: []byte(v)})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// entryPath makes the name of an entry ("./usr/bin/env") an absolute path and refuses what would lead elsewhere.
func entryPath(name string) (string, error) {
	if err := checkText(name); err != nil {
		return "", err
	}
	if strings.HasPrefix(name, "/") {
		return "", fmt.Errorf("path %.200q is absolute; in a package it is relative", name)
	}
	for elem := range strings.SplitSeq(name, "/") {
		if elem == ".." {
			return "", fmt.Errorf("path %.200q leads out of the archive by \"..\"", name)
		}
		if len(elem) > maxName {
			return "", fmt.Errorf("path %.60q… has an element of more than %d bytes", name, maxName)
		}
	}
	return path.Clean("/" + name), nil
}

// checkText refuses what cannot be a path or a link target. dpkg refuses line feeds too: its file lists have one path a
// line.
func checkText(s string) error {
	switch {
	case s == "":
		return errors.New("an empty path")
	case len(s) > maxPath:
		return fmt.Errorf("path %.60q… has more than %d bytes", s, maxPath)
	case strings.ContainsAny(s, "\x00\n"):
		return fmt.Errorf("path %.200q holds a NUL byte or a line feed", s)
	}
	return nil
}

// place checks an entry against those before it: no path twice, nothing below what is no directory, and a hard link only
// to a file that is there.
func (d *Reader) place(h *Header) error {
	typ := h.Inode.Type
	if h.Link != "" {
		t, ok := d.seen[h.Link]
		if !ok || t == tree.Dir {
			return fmt.Errorf("%s: a hard link to %s, which is not a file of the archive before it", h.Path, h.Link)
		}
		typ = t
	}
	if old, ok := d.seen[h.Path]; ok && (old != tree.Dir || typ != tree.Dir) {
		return fmt.Errorf("%s occurs twice", h.Path)
	}
	for dir := path.Dir(h.Path); ; dir = path.Dir(dir) {
		if t, ok := d.seen[dir]; ok {
			if t != tree.Dir {
				return fmt.Errorf("%s lies below %s, which is not a directory", h.Path, dir)
			}
			break
		}
		// A directory without an entry of its own is still one from now on.
		d.seen[dir] = tree.Dir
	}
	d.seen[h.Path] = typ
	return nil
}
