package recipe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"spore/builder/privileged"
	"spore/builder/tree"
)

// privilege is a file that a package has with set-user-ID, set-group-ID or capabilities, or gives them to, and that
// every image with the package may have.
type privilege struct {
	pkg, path string
	// capabilities are those that it may have, in the words of setcap(8); with some it has no set-user-ID.
	capabilities string
	why          string
}

var privileges = []privilege{
	{"at", "/usr/bin/at", "", "writes jobs of the user who asks, as /etc/at.deny lets it"},
	{"cifs-utils", "/usr/sbin/mount.cifs", "",
		"mounts what fstab lets users mount; the image lets them mount nothing"},
	{"cron", "/usr/bin/crontab", "", "its group writes the table of the user who asks"},
	{"dbus", "/usr/lib/dbus-1.0/dbus-daemon-launch-helper", "",
		"starts services for the bus, which alone may execute it"},
	{"exim4-daemon-light", "/usr/sbin/exim4", "", "takes and delivers mail for the user who asks, and keeps no rights that it does not need"},
	{"fuse3", "/usr/bin/fusermount3", "", "mounts a filesystem of the user who asks where that user may write"},
	{"krb5-user", "/usr/bin/ksu.mit", "", "becomes a user whose ~/.k5login allows it; no user has one"},
	{"liblxc-common", "/usr/libexec/lxc/lxc-user-nic", "",
		"gives users the interfaces that /etc/lxc/lxc-usernet allows; it allows none"},
	{"libpam-modules-bin", "/usr/sbin/unix_chkpwd", "", "compares a password with /etc/shadow for the user who asks"},
	{"lldpd", "/usr/sbin/lldpcli", "", "speaks to the daemon for group adm, which alone may execute it"},
	{"login", "/usr/bin/newgrp", "", "enters a group of the user who asks"},
	{"mariadb-server", "/usr/lib/mysql/plugin/auth_pam_tool_dir/auth_pam_tool", "",
		"asks PAM for the server; the directory is for user mysql alone"},
	{"mount", "/usr/bin/mount", "", "mounts what fstab lets users mount; the image lets them mount nothing"},
	{"mount", "/usr/bin/umount", "", "the same for umount"},
	{"mtr-tiny", "/usr/bin/mtr-packet", "cap_net_raw=ep", "sends the packets of mtr"},
	{"nfs-common", "/usr/sbin/mount.nfs", "",
		"mounts what fstab lets users mount; the image lets them mount nothing"},
	{"opensmtpd", "/usr/libexec/opensmtpd/mail.local", "", "its group delivers into /var/mail"},
	{"opensmtpd", "/usr/sbin/smtpctl", "", "its group writes a mail into the queue for the user who asks"},
	{"openssh-client", "/usr/bin/ssh-agent", "",
		"its group only keeps other programs of the user from reading its memory"},
	{"openssh-client", "/usr/lib/openssh/ssh-keysign", "",
		"signs with the host's key; without EnableSSHKeysign it refuses"},
	{"passwd", "/usr/bin/chage", "", "shows users the age of their own password"},
	{"passwd", "/usr/bin/chfn", "", "writes /etc/passwd for the user who asks, by PAM"},
	{"passwd", "/usr/bin/chsh", "", "writes /etc/passwd for the user who asks, by PAM"},
	{"passwd", "/usr/bin/expiry", "", "reads /etc/shadow for the user who asks"},
	{"passwd", "/usr/bin/gpasswd", "", "writes /etc/group for administrators of a group; no group has one"},
	{"passwd", "/usr/bin/passwd", "", "writes /etc/shadow for the user who asks, by PAM"},
	{"polkitd", "/usr/lib/polkit-1/polkit-agent-helper-1", "", "asks PAM for the password of a user for polkit"},
	{"postfix", "/usr/sbin/postdrop", "", "its group writes a mail into the queue for the user who asks"},
	{"postfix", "/usr/sbin/postqueue", "", "its group shows the queue to the user who asks"},
	{"ppp", "/usr/sbin/pppd", "", "connects for group dip, which alone may execute it"},
	{"prometheus-blackbox-exporter", "/usr/bin/prometheus-blackbox-exporter", "cap_net_raw=ep",
		"its probes send ICMP"},
	{"squid", "/usr/lib/squid/pinger", "cap_net_raw=ep", "measures the way to other servers"},
	{"sssd-common", "/usr/libexec/sssd/sssd_pam", "cap_dac_read_search=p",
		"reads the keytab for the daemon; only root and its group execute it"},
	{"sssd-ipa", "/usr/libexec/sssd/selinux_child", "cap_setgid,cap_setuid=p",
		"sets the context of a user for the daemon; only root and its group execute it"},
	{"sssd-krb5-common", "/usr/libexec/sssd/krb5_child", "cap_dac_read_search,cap_setgid,cap_setuid=p",
		"becomes the user who logs in for the daemon; only root and its group execute it"},
	{"sssd-krb5-common", "/usr/libexec/sssd/ldap_child", "cap_dac_read_search=p",
		"reads the keytab for the daemon; only root and its group execute it"},
	{"sudo", "/usr/bin/sudo", "", "does what /etc/sudoers lets a user do"},
	{"uidmap", "/usr/bin/newgidmap", "", "maps the groups that /etc/subgid gives to the user who asks"},
	{"uidmap", "/usr/bin/newuidmap", "", "maps the users that /etc/subuid gives to the user who asks"},
	{"util-linux", "/usr/bin/su", "", "becomes a user whose password is known; no user has one"},
}

// checkPrivileged refuses a file that gives rights of somebody else to whoever starts it, unless a row or image.yaml
// allows it for its package. It refuses too what image.yaml allows of a file that the image does not have.
func checkPrivileged(b *build) error {
	files, err := privileged.List(b.tree)
	if err != nil {
		return err
	}
	granted, err := b.grantedPrivileges()
	if err != nil {
		return err
	}
	refused := map[string][]string{}
	var problems []string
	for _, f := range files {
		if granted.take(f) || ownPrivilege(f) {
			continue
		}
		refused[f.Package] = append(refused[f.Package], f.Path)
		problems = append(problems, fmt.Sprintf("%s of package %s has %s", f.Path, f.Package, f))
	}
	if len(problems) > 0 {
		return fmt.Errorf("programs give rights of their owner or group to whoever starts them:\n  %s\n"+
			"where this image may have them, write into image.yaml:\n  scripts: {%s}",
			strings.Join(problems, "\n  "), decision(refused))
	}
	return granted.unused(b.tree)
}

// ownPrivilege reports whether a row of ours allows a file.
func ownPrivilege(f privileged.File) bool {
	return slices.ContainsFunc(privileges, func(p privilege) bool {
		return p.pkg == f.Package && p.path == f.Path && p.capabilities == f.Capabilities && (f.Capabilities == "" || !f.SetID())
	})
}

// decision is what image.yaml says to allow files, by package.
func decision(files map[string][]string) string {
	var words []string
	for _, pkg := range slices.Sorted(maps.Keys(files)) {
		words = append(words, fmt.Sprintf("%s: {setuid: [%s]}", pkg, strings.Join(files[pkg], ", ")))
	}
	return strings.Join(words, ", ")
}

// grant is a file that image.yaml allows.
type grant struct {
	pkg, path string // the path as it is written there
	resolved  string
	// made says that image.yaml itself gives the file its rights (modes), whatever package it is of.
	made bool
	used bool
}

type grants []*grant

// grantedPrivileges are the grants of image.yaml, in the order of packages and paths.
func (b *build) grantedPrivileges() (grants, error) {
	var out grants
	for _, pkg := range slices.Sorted(maps.Keys(b.opts.Scripts)) {
		d := b.opts.Scripts[pkg].Sorted()
		for _, p := range d.SetUID {
			out = append(out, &grant{pkg: pkg, path: p})
		}
		for _, m := range d.Modes {
			// The mode is four octal digits; the bits of set-user-ID and set-group-ID are in the first.
			if m.Capabilities != "" || (len(m.Mode) == 4 && strings.ContainsAny(m.Mode[:1], "234567")) {
				out = append(out, &grant{pkg: pkg, path: m.Path, made: true})
			}
		}
	}
	for _, g := range out {
		var err error
		if g.resolved, err = b.tree.Resolve(g.path); err != nil {
			return nil, fmt.Errorf("scripts of image.yaml, package %s: %w", g.pkg, err)
		}
	}
	return out, nil
}

// take reports whether a grant is for the file: of its package, or for a file of no package.
func (list grants) take(f privileged.File) bool {
	taken := false
	for _, g := range list {
		if g.resolved == f.Path && (g.made || g.pkg == f.Package || strings.Contains(f.Package, ":")) {
			g.used, taken = true, true
		}
	}
	return taken
}

// unused refuses entries of setuid that allow nothing.
func (list grants) unused(t *tree.Tree) error {
	var problems []string
	for _, g := range list {
		if g.used || g.made {
			continue
		}
		n, err := t.Lstat(g.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			problems = append(problems, fmt.Sprintf("the image has no %s", g.path))
		case err != nil:
			return err
		case !privileged.Is(n):
			problems = append(problems, fmt.Sprintf("%s has neither set-user-ID, set-group-ID nor capabilities", g.path))
		default:
			problems = append(problems, fmt.Sprintf("%s is of package %s", g.path, cmp.Or(privileged.Package(n.Origin), "none")))
		}
		problems[len(problems)-1] = fmt.Sprintf("scripts: {%s: {setuid: [%s]}}: %s", g.pkg, g.path, problems[len(problems)-1])
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("image.yaml allows what there is not; remove:\n  %s", strings.Join(problems, "\n  "))
}
