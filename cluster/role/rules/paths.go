package rules

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/overlay"
)

// etcForm is the name of a folder of a program in /etc. Those with a point are of the system, such as sysctl.d.
var etcForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?$`)

// inEtc refuses a file of a role in /etc that is not in a folder of its program. Of /etc/default, which units of
// Debian's packages read, a role has the files of its own services. It reports false after an error.
func (c *checker) inEtc(p check.Place, file string) bool {
	below, is := strings.CutPrefix(file, "/etc/")
	if !is {
		return true
	}
	folder, name, deeper := strings.Cut(below, "/")
	switch {
	case folder == "default" && slices.Contains(c.d.Services(), name+".service"):
		return true
	case overlay.Reserved(file) == "" && deeper && folder != "default" && etcForm.MatchString(folder):
		return true
	}
	c.Errorf(p, "the path %q is in a folder of the system; write one in a folder of the program, such as "+
		"/etc/%s/%s.conf", check.Clip(strings.TrimSuffix(file, "/x")), c.d.Name, c.d.Name)
	return false
}

// firstName is the first element of a path below the directories that roles have something in, and that directory.
func firstName(p string) (name, dir string) {
	for _, dir := range fileDirs {
		if below, is := strings.CutPrefix(p, dir+"/"); is {
			name, _, _ := strings.Cut(below, "/")
			return name, dir
		}
	}
	return path.Base(p), path.Dir(p)
}

// systemNames are files and folders of Debian and systemd that no role can have, by their directories. What is in our
// units, RestOf knows.
var systemNames = map[string][]string{
	"/etc": {
		"NetworkManager", "X11", "alternatives", "apparmor", "apt", "audit", "ca-certificates", "cloud", "cni",
		"credstore", "crypttab", "cryptsetup-initramfs", "dbus-1", "dhcp", "dpkg", "dracut", "environment", "fonts",
		"gnutls", "gss", "initramfs-tools", "inputrc", "iproute2", "iscsi", "issue", "kernel", "ldap", "libnl-3",
		"localtime", "lvm", "mdadm", "modules", "motd", "mtab", "multipath", "network", "networks", "opt", "perl",
		"pki", "polkit-1", "profile", "protocols", "python3", "rpc", "securetty", "security", "selinux", "services",
		"sgml", "shells", "skel", "ssl", "subgid", "subuid", "sudoers", "terminfo", "timezone", "tpm2-tss", "udev",
		"xdg", "xml",
	},
	"/run": {
		"NetworkManager", "agetty.reload", "blkid", "cni", "containers", "crun", "cryptsetup", "dbus", "docker",
		"docker.sock", "fsck", "host", "initctl", "initramfs", "integritysetup", "keys", "lock", "log", "lvm",
		"machine-id", "mount", "netns", "network", "nologin", "ostree", "podman", "polkit-1", "private", "resolvconf",
		"rpcbind", "runc", "shm", "sshd", "sshd.pid", "sudo", "user", "utmp", "veritysetup", "xtables.lock",
	},
	"/var/cache": {"apparmor", "apt", "debconf", "fontconfig", "ldconfig", "man", "private"},
	"/var/lib": {
		"apt", "ca-certificates", "cloud", "cni", "containers", "dbus", "dpkg", "initramfs-tools", "machines", "misc",
		"os-prober", "pam", "polkit-1", "portables", "private", "python", "sgml-base", "shells.state", "sudo", "ucf",
		"xml-core",
	},
	"/var/log": {
		"README", "alternatives.log", "apt", "audit", "btmp", "containers", "dpkg.log", "faillog", "lastlog", "pods",
		"private", "wtmp",
	},
	"/var/spool": {"cron", "mail", "private"},
}
