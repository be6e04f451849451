package accounts

import (
	"bytes"
	"fmt"
	"strings"

	"spore/builder/replay/files"
	"spore/builder/tree"
)

// Render returns the files passwd(5), group(5), shadow(5) and gshadow(5), sorted by id. No account has a password.
func (db *DB) Render() (passwd, group, shadow, gshadow []byte) {
	var p, g, s, gs bytes.Buffer
	for _, x := range db.Groups() {
		members := strings.Join(x.Members, ",")
		fmt.Fprintf(&g, "%s:x:%d:%s\n", x.Name, x.ID, members)
		fmt.Fprintf(&gs, "%s:!*::%s\n", x.Name, members)
	}
	for _, u := range db.Users() {
		fmt.Fprintf(&p, "%s:x:%d:%d:%s:%s:%s\n", u.Name, u.ID, db.groups[u.Group].ID, u.Gecos, u.Home, u.Shell)
		// No date of the last change: it would be a clock, and without one pam_unix does not age the password.
		fmt.Fprintf(&s, "%s:!*:::::::\n", u.Name)
	}
	return p.Bytes(), g.Bytes(), s.Bytes(), gs.Bytes()
}

// Write brings the four files in /etc up to date. Files that are as they should be are not touched.
func (db *DB) Write(f *files.Files) error {
	if err := f.MkdirAll("/etc", 0o755); err != nil {
		return fmt.Errorf("write accounts: %w", err)
	}
	passwd, group, shadow, gshadow := db.Render()
	shadowGroup, _ := db.GroupID("shadow")
	for _, file := range []struct {
		path      string
		data      []byte
		mode, gid uint32
	}{
		{"/etc/passwd", passwd, 0o644, 0},
		{"/etc/group", group, 0o644, 0},
		{"/etc/shadow", shadow, 0o640, shadowGroup},
		{"/etc/gshadow", gshadow, 0o640, shadowGroup},
	} {
		n, err := f.Lstat(file.path)
		if err == nil && n.Type == tree.Regular && n.Mode == file.mode && n.UID == 0 && n.GID == file.gid {
			if have, err := f.ReadFile(file.path); err == nil && bytes.Equal(have, file.data) {
				continue
			}
		}
		if err := f.WriteFile(file.path, file.data, file.mode); err != nil {
			return fmt.Errorf("write accounts: %w", err)
		}
		err = f.Change(file.path, true, func(n *tree.Inode) { n.Mode, n.UID, n.GID = file.mode, 0, file.gid })
		if err != nil {
			return fmt.Errorf("write accounts: %w", err)
		}
	}
	return nil
}
