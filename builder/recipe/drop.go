package recipe

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"spore/builder/omit"
	"spore/builder/tree"
	"spore/services"
)

// drop is one thing that packages bring and the image leaves out.
type drop struct {
	pattern string // path.Match pattern, or a path
	why     string
	// unless names packages that use it: it stays when one of them is there.
	unless []string
}

// unusedPackages are packages whose every file is left out, with their dpkg status: they are there because something
// depends on them at installation time, or to make an initramfs that the image does not use.
var unusedPackages = []drop{
	{"adduser", "accounts are fixed at build", nil},
	{"base-passwd", "accounts are fixed at build", nil},
	{"ca-certificates-java", "its key store is made by a program in Java; programs of the image are told in PEM whom they trust", nil},
	{"cpio", "only makes initramfs images", nil},
	{"debconf", "no maintainer script runs", nil},
	{"dpkg", "packages are not changed on a read-only root; its status file stays, for scanners", nil},
	{"dracut-install", "only makes initramfs images", nil},
	{"init-system-helpers", "only maintainer scripts use it", nil},
	{"initramfs-tools", "the initramfs is ours", nil},
	{"initramfs-tools-bin", "the initramfs is ours", nil},
	{"initramfs-tools-core", "the initramfs is ours", nil},
	{"java-common", "only chooses between several JREs", nil},
	{"klibc-utils", "only for other initramfs images", nil},
	{"libklibc", "only for other initramfs images", nil},
	{"libdebconfclient0", "only for dpkg's and base-passwd's tools", nil},
	{"libtss2-tcti-cmd0t64", "speaks to no TPM of a machine", nil},
	{"libtss2-tcti-mssim0t64", "speaks to a simulator", nil},
	{"libtss2-tcti-swtpm0t64", "speaks to a simulator", nil},
	{"linux-base", "only maintainer scripts use it", nil},
	{"logsave", "there is no log to keep before /var is mounted", nil},
	{"sysvinit-utils", "systemd is the init", nil},
	{"tpm-udev", "root alone uses the TPM", nil},
}

// dropPackages removes the files of unusedPackages.
func dropPackages(b *build) error {
	list := unusedPackages
	if !b.opts.Keep.Class(omit.Perl) {
		list = append([]drop{{"perl-base", omit.Reason(omit.Perl, "no program of the image is written in Perl"), []string{"perl"}}}, list...)
	}
	byOrigin := map[string][]string{}
	_ = b.tree.Walk(func(path string, n *tree.Inode) error {
		byOrigin[n.Origin] = append(byOrigin[n.Origin], path)
		return nil
	})
	for _, d := range list {
		p := b.present[d.pattern]
		if p == nil || b.named(p.Name) || b.uses(d) {
			continue
		}
		paths := byOrigin["deb:"+p.Name+"_"+p.Version]
		var files []string
		var bytes int64
		// From the leaves up, so that directories that others use stay.
		for i := len(paths) - 1; i >= 0; i-- {
			n, err := b.tree.Lstat(paths[i])
			if err != nil {
				return err
			}
			if n.Type == tree.Regular {
				bytes += n.Content.Size()
			}
			if n.Type != tree.Dir {
				files = append(files, paths[i])
			}
			if n.Type == tree.Dir && len(b.tree.Children(paths[i])) > 0 {
				continue
			}
			if err := b.tree.Remove(paths[i]); err != nil {
				return err
			}
		}
		b.dropped[p.Name] = true
		b.report.Entries = append(b.report.Entries, Entry{Step: b.step, Action: "drop", Path: "package " + p.Name, Why: d.why, Bytes: bytes, Package: p.Name, Files: files})
	}
	return nil
}

// unusedFiles are left out of every image, before those that services leave out of their packages.
var unusedFiles = []drop{
	{"/boot/*", "the kernel is in the UKI; its configuration and symbols are in the package", nil},
	{"/etc/apt", "packages are not changed on a read-only root", nil},
	{"/etc/cron.*", "no cron; timers do this", []string{"cron", "cron-daemon-common", "systemd-cron"}},
	{"/etc/binfmt.d", "no foreign binaries", []string{"binfmt-support"}},
	{"/etc/default/useradd", "accounts are fixed at build", nil},
	{"/etc/depmod.d", "module indexes are made at build", nil},
	{"/etc/dhcp", "networkd is the DHCP client", nil},
	{"/etc/e2scrub.conf", "only for ext4 on LVM", nil},
	{"/etc/default/haproxy", "kube-balancer.service runs it", nil},
	{"/etc/haproxy", "spore-agent writes the configuration", nil},
	{"/etc/init.d", "systemd runs the services", nil},
	{"/etc/rc?.d", "systemd runs the services", nil},
	{"/etc/initramfs-tools", "the initramfs is ours", nil},
	{"/etc/kernel", "kernels are not installed on the machine", nil},
	{"/etc/ld.so.conf*", "no ld.so.cache, no directory that is not a default", nil},
	{"/etc/logrotate.d", "the journal is the log", []string{"logrotate"}},
	{"/etc/modules-load.d/modules.conf", "leads to /etc/modules, which is obsolete", nil},
	{"/etc/motd", "nobody logs in", nil},
	{"/etc/profile.d/70-systemd-shell-extra.sh", "terminal decoration", nil},
	{"/etc/rsyslog.d", "the journal is the log", []string{"rsyslog"}},
	{"/etc/skel", "no home directory is made", nil},
	{"/etc/ssh/ssh_config.d/20-systemd-ssh-proxy.conf", "no ssh through vsock", nil},
	{"/etc/systemd/logind.conf", "no logind", nil},
	{"/etc/systemd/sleep.conf", "servers do not sleep", nil},
	{"/etc/systemd/user*", "no user managers", nil},
	{"/etc/update-motd.d", "nobody logs in", nil},
	{"/lost+found", "not a real directory", nil},
	{"/usr/lib/dracut", "the initramfs is ours", nil},
	{"/usr/lib/environment.d", "no user managers", nil},
	{"/usr/lib/jvm/*/lib/libawt*.so", "no display", nil},
	{"/usr/lib/jvm/*/lib/libfontmanager.so", "no display", nil},
	{"/usr/lib/jvm/*/lib/libjavajpeg.so", "no display", nil},
	{"/usr/lib/jvm/*/lib/libjsound.so", "no sound", nil},
	{"/usr/lib/jvm/*/lib/liblcms.so", "no display", nil},
	{"/usr/lib/jvm/*/lib/libmlib_image.so", "no display", nil},
	{"/usr/lib/jvm/*/lib/security/cacerts", "leads to a key store that nobody makes: see ca-certificates-java", nil},
	{"/usr/lib/jvm/*/lib/server/classes_nocoops.jsa", "the JVM's own classes, laid out for heaps of 32 GiB and more", nil},
	{"/usr/lib/kernel", "kernels are not installed on the machine", nil},
	{"/usr/lib/lsb", "systemd runs the services", nil},
	{"/usr/lib/modules/*/build", "no compiler", nil},
	{"/usr/lib/modules/*/source", "no compiler", nil},
	{"/usr/lib/pcrlock.d", "no TPM policy is made on the machine", nil},
	{"/usr/lib/ssl/misc", "scripts of a certificate authority, in Perl", nil},
	{"/usr/lib/systemd/boot", "the boot files are in the ESP", nil},
	{"/usr/lib/systemd/catalog", "a message catalogue only adds explanations to journalctl -x", nil},
	{"/usr/lib/systemd/journald.conf.d/syslog.conf", "no syslog daemon to forward to", nil},
	{"/usr/lib/systemd/network/*.example", "documentation", nil},
	{"/usr/lib/systemd/network/*.network", "every interface is configured by spore-agent, by MAC", nil},
	{"/usr/lib/systemd/network/*.netdev", "every interface is configured by spore-agent, by MAC", nil},
	{"/usr/lib/systemd/ntp-units.d", "only timedated reads it", nil},
	{"/usr/lib/systemd/profile.d", "terminal decoration", nil},
	{"/usr/lib/systemd/ssh_config.d", "no ssh through vsock", nil},
	{"/usr/lib/systemd/repart/definitions", "spore-agent writes the definitions", nil},
	{"/usr/lib/systemd/system-generators", "every unit is in the image; generators cost a fork each at each boot", nil},
	{"/usr/lib/systemd/system-preset/9*", "presets are ours and applied at build", nil},
	{"/usr/lib/systemd/user*", "no user managers", nil},
	{"/usr/lib/sysusers.d", "accounts are fixed at build", nil},
	{"/usr/lib/tmpfiles.d/20-systemd-shell-extra.conf", "terminal decoration", nil},
	{"/usr/lib/tmpfiles.d/20-systemd-ssh-generator.conf", "no ssh through vsock", nil},
	{"/usr/lib/tmpfiles.d/20-systemd-stub.conf", "stage1 hands over what the stub leaves", nil},
	{"/usr/lib/tmpfiles.d/credstore.conf", "the directories are in the image", nil},
	{"/usr/lib/tmpfiles.d/haproxy.conf", "only for a chroot with a socket of a syslog daemon", nil},
	{"/usr/lib/tmpfiles.d/home.conf", "the directories are in the image", nil},
	{"/usr/lib/tmpfiles.d/legacy.conf", "for programs from before /run; /run/lock is in our own file", nil},
	{"/usr/lib/tmpfiles.d/libselinux1.conf", "no SELinux policy", nil},
	{"/usr/lib/tmpfiles.d/debian.conf", "the links are in the image; /run/lock is in our own file", nil},
	{"/usr/lib/tmpfiles.d/passwd.conf", "accounts are fixed at build", nil},
	{"/usr/lib/tmpfiles.d/provision.conf", "root cannot be given keys or files by an unauthenticated credential", nil},
	{"/usr/lib/tmpfiles.d/static-nodes-permissions.conf", "udev's rules set the same", nil},
	{"/usr/lib/tmpfiles.d/systemd-nologin.conf", "nobody logs in while the system starts, and nothing would remove the file", nil},
	{"/usr/lib/tmpfiles.d/x11.conf", "no display", nil},
	{"/etc/udev/hwdb.d", "see /usr/lib/udev/hwdb.d", nil},
	{"/usr/lib/udev/hwdb.d", "names of vendors, keyboards and mice; no /dev/disk/by-* or interface name is made of it", nil},
	{"/usr/lib/x86_64-linux-gnu/security/pam_systemd*", "no logind", nil},
	{"/usr/share/apport", "no crash reporter", nil},
	{"/usr/share/base-files", "templates that the recipe has used", nil},
	{"/usr/share/base-passwd", "templates that the recipe has used", nil},
	{"/usr/share/binfmts", "no foreign binaries", []string{"binfmt-support"}},
	{"/usr/share/dbus-1", "no bus", []string{"dbus", "dbus-broker"}},
	{"/usr/share/debconf", "no maintainer script runs", nil},
	{"/usr/share/debianutils", "templates that the recipe has used", nil},
	{"/usr/share/initramfs-tools", "the initramfs is ours", nil},
	{"/usr/share/libc-bin", "templates that the recipe has used", nil},
	{"/usr/share/pam", "templates that the recipe has used", nil},
	{"/usr/share/pam-configs", "templates that the recipe has used", nil},
	{"/usr/share/polkit-1", "no bus", []string{"polkitd"}},
	{"/etc/hosts.allow", "a comment", nil},
	{"/etc/hosts.deny", "a comment", nil},
	{"/etc/modules", "a comment that says that the file is obsolete", nil},
	{"/var/lib/python", "a record of Python's scripts", nil},
	{"/var/lib/shells.state", "a record of update-shells", nil},
	{"/var/log/README", "documentation", nil},
	{"/var/log/btmp", "nobody logs in by password", nil},
	{"/var/log/lastlog", "trixie's login keeps it elsewhere", nil},
	{"/var/log/wtmp", "trixie's programs keep it elsewhere", nil},
	{"/var/lib/dpkg", "status is kept in /usr", nil},
	{"/var/lib/haproxy", "only for a chroot", nil},
	{"/var/lib/systemd/catalog", "a message catalogue only adds explanations to journalctl -x", nil},
	// Programs that ask a D-Bus service or serve what has no unit here.
	{"/usr/bin/busctl", "no bus", []string{"dbus", "dbus-broker"}},
	{"/usr/bin/hostnamectl", "asks hostnamed over D-Bus", nil},
	{"/usr/bin/kernel-install", "kernels are not installed on the machine", nil},
	{"/usr/bin/localectl", "asks localed over D-Bus", nil},
	{"/usr/bin/loginctl", "asks logind over D-Bus", nil},
	{"/usr/bin/systemd-ac-power", "no battery", nil},
	{"/usr/bin/systemd-hwdb", "no hwdb", nil},
	{"/usr/bin/systemd-inhibit", "asks logind over D-Bus", nil},
	{"/usr/bin/systemd-sysusers", "accounts are fixed at build", nil},
	{"/usr/bin/systemd-firstboot", "nothing is asked at the first boot", nil},
	{"/usr/bin/timedatectl", "asks timedated over D-Bus", nil},
	{"/usr/sbin/halog", "reads logs that nobody writes", nil},
	{"/usr/sbin/ldconfig*", "no ld.so.cache", nil},
}

// serviceDrops are left out of the Debian packages of all services, as their rows say.
func serviceDrops(l *services.List) []drop {
	var out []drop
	for _, s := range l.All() {
		for _, d := range s.Debian {
			for _, one := range d.Drop {
				out = append(out, drop{one.Path, one.Why, nil})
			}
		}
	}
	return out
}

// dropFiles removes unusedFiles and serviceDrops, but those of packages that image.yaml names. keepPaths of image.yaml,
// which may name none that decides how a machine starts, goes first.
func dropFiles(b *build) error {
	b.sparing = true
	defer func() { b.sparing = false }()
	var err error
	if b.started, err = b.startedByUnits(); err != nil {
		return err
	}
	for _, d := range slices.Concat(unusedFiles, serviceDrops(b.opts.Services)) {
		if b.uses(d) {
			continue
		}
		if err := b.omit(d.pattern, d.why); err != nil {
			return err
		}
	}
	return nil
}

// startedByUnits are the scripts of /etc/init.d and /etc/cron.* that units start, with the functions that those of init
// read. They stay.
func (b *build) startedByUnits() (map[string]bool, error) {
	out := map[string]bool{}
	for _, unit := range b.unitNames() {
		commands, err := b.commands(unit)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", unit, err)
		}
		for _, c := range commands {
			if strings.HasPrefix(c.program, "/etc/") && b.tree.Exists(c.program) {
				out[c.program] = true
				out["/usr/lib/lsb"] = out["/usr/lib/lsb"] || path.Dir(c.program) == "/etc/init.d"
			}
		}
	}
	return out, nil
}

// namedOrigin tells whether a file is of a package that image.yaml names, or of its scripts.
func (b *build) namedOrigin(n *tree.Inode) bool {
	name := packageOf(n.Origin)
	return name != "" && b.named(name)
}

// uses tells whether a package that uses what a rule leaves out is there.
func (b *build) uses(d drop) bool {
	return slices.ContainsFunc(d.unless, func(name string) bool { return b.present[name] != nil })
}

// omit removes what a pattern (path.Match) names, but what keepPaths of image.yaml puts back.
func (b *build) omit(pattern, why string) error {
	paths := []string{pattern}
	if strings.ContainsAny(pattern, "*?[") {
		var err error
		if paths, err = b.tree.Glob(pattern); err != nil {
			return err
		}
	}
	for _, p := range paths {
		if b.tree.Exists(p) {
			if err := b.omitPath(p, why); err != nil {
				return err
			}
		}
	}
	return nil
}

// omitPath removes a path with all below it, but what keepPaths puts back.
func (b *build) omitPath(p, why string) error {
	n, err := b.tree.Lstat(p)
	if err != nil {
		return err
	}
	if b.opts.Keep.Path(p) || b.sparing && b.started[p] || b.sparing && n.Type != tree.Dir && b.namedOrigin(n) {
		return nil
	}
	if n.Type != tree.Dir || !b.opts.Keep.Below(p) && !(b.sparing && len(b.opts.Named)+len(b.started) > 0) {
		return b.remove(p, why)
	}
	for _, name := range b.tree.Children(p) {
		if err := b.omitPath(path.Join(p, name), why); err != nil {
			return err
		}
	}
	return b.removeIfEmpty(p)
}

// dropDangling removes links directly in a directory that lead nowhere.
func (b *build) dropDangling(dir string) error {
	for _, name := range b.tree.Children(dir) {
		p := path.Join(dir, name)
		n, err := b.tree.Lstat(p)
		if err != nil {
			return err
		}
		if n.Type != tree.Symlink || isOwn(n) {
			continue
		}
		if _, err := b.tree.Stat(p); err == nil {
			continue
		}
		if err := b.remove(p, "its target was dropped"); err != nil {
			return err
		}
	}
	return nil
}
