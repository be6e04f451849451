package accountcmd

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"spore/builder/accounts"
	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/tree"
)

// defaultSkeleton is the folder whose files the home of a person begins with.
const defaultSkeleton = "/etc/skel"

// home says how the home of a new user is made.
type home struct {
	mode uint32
	// unwanted says that the call wants none.
	unwanted bool
	// skeleton is the folder whose files it begins with, or empty.
	skeleton string
}

// makeHome makes the home of a user, unless something is there.
func (s commands) makeHome(c *command.Call, name string, h home) error {
	u, _ := s.db.User(name)
	if h.unwanted || u.Home == "/nonexistent" || strings.HasPrefix(u.Home, "/nonexistent/") {
		return nil
	}
	dir := path.Clean(u.Home)
	if _, err := c.Files.Stat(dir); err == nil {
		return nil
	}
	if err := c.Files.MkdirAll(dir, h.mode); err != nil {
		return fmt.Errorf("make the home of user %s: %w", u.Name, err)
	}
	gid, _ := s.db.PrimaryGroup(name)
	own := func(n *tree.Inode) { n.UID, n.GID = u.ID, gid }
	if err := c.Files.Change(dir, true, own); err != nil {
		return fmt.Errorf("make the home of user %s: %w", u.Name, err)
	}
	if h.skeleton == "" || !c.Files.IsDir(h.skeleton) {
		return nil
	}
	if err := copyOwned(c.Files, h.skeleton, dir, own); err != nil {
		return fmt.Errorf("copy %s for user %s: %w", h.skeleton, u.Name, err)
	}
	return nil
}

// copyOwned copies what is in one folder to another, and gives the copies to their owner.
func copyOwned(f *files.Files, from, to string, own func(*tree.Inode)) error {
	names, err := f.ReadDir(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		src, dst := path.Join(from, name), path.Join(to, name)
		n, err := f.Lstat(src)
		if err != nil {
			return err
		}
		if n.Type == tree.Dir {
			if err := f.Mkdir(dst, n.Mode); err != nil {
				return err
			}
			if err := copyOwned(f, src, dst, own); err != nil {
				return err
			}
		} else if err := f.Copy(n, dst); err != nil {
			return err
		}
		if err := f.Change(dst, false, own); err != nil {
			return err
		}
	}
	return nil
}

// kept are folders that no command removes as somebody's home: NO_DEL_PATHS of deluser.conf(5), and what others live
// in.
var kept = []string{
	"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/media", "/mnt", "/opt", "/root", "/run", "/sbin", "/srv",
	"/tmp", "/usr", "/usr/bin", "/usr/sbin", "/usr/games", "/var", "/var/cache", "/var/lib", "/var/log", "/var/mail",
	"/var/spool",
	"/nonexistent",
}

func removeHome(c *command.Call, u accounts.User) error {
	where, err := c.Files.Resolve(u.Home)
	if err != nil {
		return err
	}
	if !c.Files.IsDir(where) || slices.Contains(kept, where) {
		return nil
	}
	if n, err := c.Files.Stat(where); err != nil || n.UID != u.ID {
		return err // a folder of somebody else
	}
	if err := c.Files.RemoveAll(where); err != nil {
		return fmt.Errorf("remove the home of user %s: %w", u.Name, err)
	}
	return nil
}
