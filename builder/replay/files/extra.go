package files

import (
	"io/fs"

	"spore/builder/tree"
)

// Mkfifo makes a named pipe; fs.ErrExist when something is there. No process ever reads or writes it.
func (f *Files) Mkfifo(p string, mode uint32) error {
	if _, err := f.Lstat(p); err == nil {
		return &fs.PathError{Op: "mkfifo", Path: p, Err: fs.ErrExist}
	}
	if err := f.WriteFile(p, nil, mode); err != nil {
		return err
	}
	return f.Change(p, false, func(n *tree.Inode) { n.Type, n.Content = tree.Fifo, nil })
}
