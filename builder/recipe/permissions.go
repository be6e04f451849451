package recipe

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"spore/builder/tree"
	"spore/services"
	"spore/services/service"
)

// permission is an owner and mode that a postinst sets, because the archive cannot carry a name without a fixed id.
type permission struct {
	pkg, path   string
	user, group string // empty leaves what the package has
	mode        uint32 // 0 leaves what the package has
	why         string
}

// permissions replays chown, chmod and dpkg-statoverride of the packages named, with those of the services.
var permissions = slices.Concat([]permission{
	{pkg: "dbus-daemon", path: "/usr/lib/dbus-1.0/dbus-daemon-launch-helper", group: "messagebus", mode: 0o4754, why: "starts services of the system bus for the bus alone"},
	{pkg: "dbus", path: "/usr/lib/dbus-1.0/dbus-daemon-launch-helper", group: "messagebus", mode: 0o4754, why: "starts services of the system bus for the bus alone"},
	{pkg: "openssh-client", path: "/usr/bin/ssh-agent", group: "_ssh", mode: 0o2755, why: "not to be traced by other programs of the user"},
	{pkg: "libpam-modules-bin", path: "/usr/sbin/unix_chkpwd", group: "shadow", mode: 0o2755, why: "reads /etc/shadow for unprivileged programs"},
	{pkg: "systemd", path: "/etc/credstore", mode: 0o700, why: "tmpfiles.d/credstore.conf"},
	{pkg: "systemd", path: "/etc/credstore.encrypted", mode: 0o700, why: "tmpfiles.d/credstore.conf"},
}, servicePermissions())

func servicePermissions() []permission {
	var out []permission
	for _, d := range debian() {
		for _, o := range d.Owners {
			out = append(out, permission{d.Package, o.Path, o.User, o.Group, o.Mode, o.Why})
		}
	}
	return out
}

// debian are the rows of all services for Debian packages.
func debian() []service.Debian {
	var out []service.Debian
	for _, s := range services.All() {
		out = append(out, s.Debian...)
	}
	return out
}

// fixPermissions walks permissions for the packages that are there.
func fixPermissions(b *build) error {
	for _, p := range permissions {
		if b.present[p.pkg] == nil {
			continue
		}
		n, err := b.tree.Stat(p.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := b.permit(p, n); err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
	}
	return nil
}

func (b *build) permit(p permission, n *tree.Inode) error {
	before := *n
	if p.user != "" {
		uid, ok := b.accounts.uid[p.user]
		if !ok {
			return fmt.Errorf("internal error: user %s is not in accounts/table", p.user)
		}
		n.UID = uid
	}
	if p.group != "" {
		gid, ok := b.accounts.gid[p.group]
		if !ok {
			return fmt.Errorf("internal error: group %s is not in accounts/table", p.group)
		}
		n.GID = gid
	}
	if p.mode != 0 {
		n.Mode = p.mode
	}
	if n.UID != before.UID || n.GID != before.GID || n.Mode != before.Mode {
		b.note("change", p.path, fmt.Sprintf("%04o %d:%d, was %04o %d:%d: %s",
			n.Mode, n.UID, n.GID, before.Mode, before.UID, before.GID, p.why))
	}
	return nil
}
