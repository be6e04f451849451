package compare

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"spore/builder/manifest"
	"spore/builder/origins"
	"spore/builder/rootfs"
	"spore/builder/tree"
	"spore/builder/unsquash"
)

// File is a path that differs.
type File struct {
	Path string `json:"path"`
	// Change is added, removed or changed.
	Change string `json:"change"`
	// What differs of a changed one: type, content, mode, owner, target, attributes, device. Times are not compared: a
	// build gives its own to all that no package dates.
	What []string `json:"what,omitempty"`
	// OldSize and NewSize are lengths in bytes.
	OldSize int64 `json:"oldSize,omitempty"`
	NewSize int64 `json:"newSize,omitempty"`
	// Origin is where it comes from, of a removed one where it came from.
	Origin string `json:"origin,omitempty"`
}

// Changes.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// self are files that an image writes of itself: they differ whenever anything does.
var self = map[string]bool{manifest.ImagePath: true, origins.Path: true}

// files compares two filesystems. The images tell where their files come from; they are nil where nothing does.
func files(oldImage, freshImage *rootfs.Image, old, fresh *rootfs.Filesystem) ([]File, error) {
	if old.Hash == fresh.Hash && old.Hash != "" {
		return nil, nil
	}
	var out []File
	a, b := 0, 0
	for a < len(old.Entries) || b < len(fresh.Entries) {
		switch order := compareWalk(old.Entries, fresh.Entries, a, b); {
		case order < 0:
			e := &old.Entries[a]
			out = append(out, File{Path: e.Path, Change: Removed, OldSize: e.Size, Origin: originOf(oldImage, a)})
			a++
		case order > 0:
			e := &fresh.Entries[b]
			out = append(out, File{Path: e.Path, Change: Added, NewSize: e.Size, Origin: originOf(freshImage, b)})
			b++
		default:
			was, is := &old.Entries[a], &fresh.Entries[b]
			what, err := changes(old.Image, fresh.Image, was, is)
			if err != nil {
				return nil, err
			}
			if len(what) > 0 {
				out = append(out, File{is.Path, Changed, what, was.Size, is.Size, originOf(freshImage, b)})
			}
			a, b = a+1, b+1
		}
	}
	return out, nil
}

func originOf(i *rootfs.Image, n int) string {
	if i == nil || i.Origins == nil {
		return ""
	}
	return i.Origins[n]
}

// compareWalk tells which of two walks is at the earlier path.
func compareWalk(old, fresh []unsquash.Entry, a, b int) int {
	switch {
	case a == len(old):
		return 1
	case b == len(fresh):
		return -1
	}
	// A walk compares names, not letters: what is in /a comes before /a-b.
	return strings.Compare(strings.ReplaceAll(old[a].Path, "/", "\x00"), strings.ReplaceAll(fresh[b].Path, "/", "\x00"))
}

// changes tells what of a path differs.
func changes(old, fresh *unsquash.Image, was, is *unsquash.Entry) ([]string, error) {
	if was.Type != is.Type {
		return []string{"type"}, nil
	}
	var out []string
	if is.Type == tree.Regular && !self[is.Path] {
		same, err := sameContent(old, fresh, was, is)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", is.Path, err)
		}
		if !same {
			out = append(out, "content")
		}
	}
	for _, v := range []struct {
		what    string
		differs bool
	}{
		{"mode", was.Mode != is.Mode},
		{"owner", was.UID != is.UID || was.GID != is.GID},
		{"target", was.Target != is.Target},
		{"device", was.Major != is.Major || was.Minor != is.Minor},
		{"attributes", !reflect.DeepEqual(was.Xattrs, is.Xattrs)},
	} {
		if v.differs {
			out = append(out, v.what)
		}
	}
	return out, nil
}

// sameContent compares the data of two files.
func sameContent(old, fresh *unsquash.Image, was, is *unsquash.Entry) (bool, error) {
	if was.Size != is.Size {
		return false, nil
	}
	const step = 64 << 10
	a, b := bufio.NewReaderSize(old.Content(was), step), bufio.NewReaderSize(fresh.Content(is), step)
	for {
		x, errX := a.Peek(step)
		y, errY := b.Peek(step)
		if !bytes.Equal(x, y) {
			return false, errors.Join(notEOF(errX), notEOF(errY))
		}
		if errX != nil || errY != nil {
			return true, errors.Join(notEOF(errX), notEOF(errY))
		}
		if _, err := a.Discard(step); err != nil {
			return false, err
		}
		if _, err := b.Discard(step); err != nil {
			return false, err
		}
	}
}

// notEOF is an error but for that of the end of a file.
func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
