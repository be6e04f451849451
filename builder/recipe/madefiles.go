package recipe

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"spore/builder/tree"
)

// made is a file that a package does not ship and its postinst makes.
type made struct {
	pkg, path string
	mode      uint32
	gid       string // name of the group; root when empty
	from      string // copied from this file of the package
	link      string // a symbolic link to this
	dir       bool
	replace   bool // takes the place of an empty directory of the package
	text      string
}

// osdRules give partitions with Ceph's type for OSDs to the user that OSDs run as, as Ceph's own rules once did. spore-agent
// does it too; but when a table was written, the kernel makes the nodes of its partitions anew.
const osdRules = `SUBSYSTEM=="block", ENV{DEVTYPE}=="partition", ENV{ID_PART_ENTRY_TYPE}=="4fbd7e29-9d25-41b8-afd0-062c0ceff05d", OWNER="ceph", GROUP="ceph", MODE="0660"
`

// madeFiles replays the postinst of the packages named, when they are there and the file is not.
var madeFiles = []made{
	{pkg: "base-files", path: "/root/.profile", from: "/usr/share/base-files/dot.profile"},
	{pkg: "base-files", path: "/root/.bashrc", from: "/usr/share/base-files/dot.bashrc"},
	{pkg: "base-files", path: "/etc/profile", from: "/usr/share/base-files/profile"},
	{pkg: "base-files", path: "/etc/motd", from: "/usr/share/base-files/motd"},
	{pkg: "base-files", path: "/etc/dpkg/origins/default", link: "debian"},
	{pkg: "base-files", path: "/mnt", dir: true, mode: 0o755},
	{pkg: "base-files", path: "/srv", dir: true, mode: 0o755},
	{pkg: "base-files", path: "/opt", dir: true, mode: 0o755},
	{pkg: "base-files", path: "/media", dir: true, mode: 0o755},
	{pkg: "base-files", path: "/etc/opt", dir: true, mode: 0o755},
	{pkg: "base-files", path: "/var/opt", dir: true, mode: 0o755},
	{pkg: "base-files", path: "/var/mail", dir: true, mode: 0o2775, gid: "mail"},
	{pkg: "base-files", path: "/var/spool/mail", link: "../mail"},
	{pkg: "base-files", path: "/var/run", link: "/run", replace: true},
	{pkg: "base-files", path: "/var/lock", link: "/run/lock", replace: true},
	{pkg: "base-files", path: "/run/lock", dir: true, mode: 0o1777},
	{pkg: "base-files", path: "/usr/local/bin", dir: true, mode: 0o755},
	{pkg: "base-files", path: "/usr/local/etc", dir: true, mode: 0o755},
	{pkg: "base-files", path: "/usr/local/games", dir: true, mode: 0o755},
	{pkg: "base-files", path: "/usr/local/include", dir: true, mode: 0o755},
	{pkg: "base-files", path: "/usr/local/lib", dir: true, mode: 0o755},
	{pkg: "base-files", path: "/usr/local/libexec", dir: true, mode: 0o755},
	{pkg: "base-files", path: "/usr/local/sbin", dir: true, mode: 0o755},
	{pkg: "base-files", path: "/usr/local/share/man", dir: true, mode: 0o755},
	{pkg: "base-files", path: "/usr/local/src", dir: true, mode: 0o755},
	{pkg: "base-files", path: "/usr/local/man", link: "share/man"},
	{pkg: "base-files", path: "/usr/share/info/dir", from: "/usr/share/base-files/info.dir"},
	{pkg: "ca-certificates", path: "/usr/local/share/ca-certificates", dir: true, mode: 0o755},
	// What people type on a node with a monitor finds the cluster and the administrator's key.
	{pkg: "ceph-common", path: "/etc/ceph/ceph.conf", link: "/run/ceph-bootstrap/ceph.conf"},
	// The manager runs each of its modules in a Python of its own, and Debian's bcrypt refuses to be loaded into a second one
	// (PyO3/pyo3#576), so that no module would work. They load it for a function that only the dashboard calls.
	{pkg: "ceph-mgr-modules-core", path: "/usr/lib/python3/dist-packages/bcrypt.py", mode: 0o644, text: noBcrypt},
	{pkg: "ceph-osd", path: "/usr/lib/udev/rules.d/95-spore-osd.rules", mode: 0o644, text: osdRules},
	{pkg: "debianutils", path: "/etc/shells", from: "/usr/share/debianutils/shells"},
	{pkg: "java-common", path: "/etc/.java", dir: true, mode: 0o755},
	{pkg: "java-common", path: "/etc/.java/.systemPrefs", dir: true, mode: 0o755},
	{pkg: "java-common", path: "/etc/.java/.systemPrefs/.system.lock", mode: 0o644},
	{pkg: "java-common", path: "/etc/.java/.systemPrefs/.systemRootModFile", mode: 0o644},
	{pkg: "libc-bin", path: "/etc/nsswitch.conf", from: "/usr/share/libc-bin/nsswitch.conf"},
	{pkg: "libpam-modules", path: "/etc/security/opasswd", mode: 0o600},
	{pkg: "libpam-modules", path: "/etc/environment", mode: 0o644},
	{pkg: "netbase", path: "/etc/hosts", mode: 0o644,
		text: "127.0.0.1\tlocalhost\n::1\t\tlocalhost ip6-localhost ip6-loopback\nff02::1\t\tip6-allnodes\nff02::2\t\tip6-allrouters\n\n"},
	{pkg: "netbase", path: "/etc/networks", mode: 0o644,
		text: "default\t\t0.0.0.0\nloopback\t127.0.0.0\nlink-local\t169.254.0.0\n\n"},
	// systemd's postinst runs systemd-tmpfiles for these (tmpfiles.d/debian.conf).
	{pkg: "systemd", path: "/etc/mtab", link: "../proc/self/mounts"},
	{pkg: "systemd", path: "/etc/default/locale", link: "../locale.conf"},
	{pkg: "systemd", path: "/etc/vconsole.conf", link: "default/keyboard"},
	{pkg: "systemd", path: "/root/.ssh", dir: true, mode: 0o700},
}

// noBcrypt stands for a Python module that is loaded and never used.
const noBcrypt = `# In the place of python3-bcrypt, which ceph-mgr cannot load.


def _missing(*args, **kwargs):
    raise NotImplementedError("there is no bcrypt in this image")


gensalt = hashpw = checkpw = _missing
`

// makeFiles walks madeFiles and merges the shells that packages list.
func makeFiles(b *build) error {
	for _, m := range madeFiles {
		if b.present[m.pkg] == nil || (b.tree.Exists(m.path) && !m.replace) {
			continue
		}
		if err := b.makeFile(m); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	return b.mergeShells()
}

func (b *build) makeFile(m made) error {
	why := "made by the postinst of " + m.pkg
	gid, ok := b.accounts.gid[m.gid]
	if m.gid != "" && !ok {
		return fmt.Errorf("internal error: group %s is not in accounts/table", m.gid)
	}
	switch {
	case m.link != "":
		return b.link(m.link, m.path, why)
	case m.dir:
		return b.add(m.path, &tree.Inode{Type: tree.Dir, Mode: m.mode, GID: gid}, why)
	case m.from != "":
		src, err := b.tree.Stat(m.from)
		if errors.Is(err, fs.ErrNotExist) {
			b.note("note", m.path, fmt.Sprintf("%s has no %s any more to make it of", m.pkg, m.from))
			return nil
		}
		if err != nil {
			return err
		}
		c := *src
		return b.add(m.path, &c, why)
	}
	return b.add(m.path, &tree.Inode{Type: tree.Regular, Mode: m.mode, GID: gid, Content: tree.Bytes(m.text)}, why)
}

// mergeShells adds to /etc/shells what packages list in shells.d, under both names of a merged /usr, as update-shells(8)
// of debianutils does.
func (b *build) mergeShells() error {
	const dir, file = "/usr/share/debianutils/shells.d", "/etc/shells"
	if !b.tree.Exists(file) {
		return nil
	}
	data, err := b.tree.ReadFile(file)
	if err != nil {
		return err
	}
	have := map[string]bool{}
	var shells []string
	note := func(list string) {
		for _, shell := range strings.Split(list, "\n") {
			shell, _, _ = strings.Cut(shell, "#")
			if shell == "" {
				continue
			}
			shells = append(shells, shell)
			if real, err := b.tree.Resolve(shell); err == nil {
				shells = append(shells, real)
			}
		}
	}
	note(string(data))
	for _, name := range b.tree.Children(dir) {
		list, err := b.tree.ReadFile(path.Join(dir, name))
		if err != nil {
			return err
		}
		note(string(list))
	}
	for _, line := range strings.Split(string(data), "\n") {
		have[line] = true
	}
	text := string(data)
	for _, shell := range shells {
		if !have[shell] {
			have[shell] = true
			text += shell + "\n"
		}
	}
	return b.file(file, []byte(text), 0o644, "shells of "+dir)
}
