package rolefiles

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"spore/cluster/role/render"
)

// Accounts finds the numbers of a user and a group by their names.
type Accounts func(owner, group string) (uid, gid int, err error)

// Account finds the numbers of a user and a group of the image by their names.
func Account(owner, group string) (uid, gid int, err error) {
	u, err := user.Lookup(owner)
	if err != nil {
		return 0, 0, err
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return 0, 0, err
	}
	uid, err = strconv.Atoi(u.Uid)
	if err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(g.Gid)
	return uid, gid, err
}

// Write puts files where they belong, below root, each whole or not at all. Directories that are missing are made for
// root. It follows no link on the way.
func Write(root string, files []render.File, account Accounts) error {
	for _, f := range files {
		uid, gid, err := account(f.Owner, f.Group)
		if err == nil {
			err = write(root, f, uid, gid)
		}
		if err != nil {
			return fmt.Errorf("write %s for %s:%s: %w", f.Path, f.Owner, f.Group, err)
		}
	}
	return nil
}

func write(root string, f render.File, uid, gid int) (err error) {
	dir, err := directory(root, path.Dir(f.Path))
	if err != nil {
		return err
	}
	defer dir.Close()
	at, name := int(dir.Fd()), path.Base(f.Path)
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	fresh := "." + name + "-" + hex.EncodeToString(random)
	fd, err := unix.Openat(at, fresh, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), f.Path)
	// Nobody else reads it before it has its owner and mode. It is made again at each start: a power cut takes nothing.
	_, err = file.Write(f.Data)
	if err = errors.Join(err, file.Chown(uid, gid), file.Chmod(f.Mode), file.Close()); err == nil {
		err = unix.Renameat(at, fresh, at, name)
	}
	if err != nil {
		return errors.Join(err, unix.Unlinkat(at, fresh, 0))
	}
	return nil
}

// directory opens a directory step by step, and makes what is missing. A link is an error.
func directory(root, name string) (*os.File, error) {
	at, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	for _, step := range strings.Split(strings.Trim(name, "/"), "/") {
		next, err := enter(at, step)
		at.Close()
		if err != nil {
			return nil, fmt.Errorf("open the directory %s: %w", name, err)
		}
		at = next
	}
	return at, nil
}

func enter(at *os.File, step string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(at.Fd()), step, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		if err := unix.Mkdirat(int(at.Fd()), step, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
		fd, err = unix.Openat(int(at.Fd()), step, flags, 0)
	}
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return nil, fmt.Errorf("%s is not a directory: %w", step, err)
	case err != nil:
		return nil, err
	}
	return os.NewFile(uintptr(fd), step), nil
}
