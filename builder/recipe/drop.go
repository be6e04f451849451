package recipe

import (
	"path"
	"slices"
	"strings"

	"spore/builder/omit"
	"spore/builder/tree"
)

// drop is one thing that packages bring and the image leaves out.
type drop struct {
	pattern string // path.Match pattern, or a path
	why     string
}

// unusedPackages are packages whose every file is left out, with their dpkg status: they are there because something
// depends on them at installation time, or to make an initramfs that the image does not use.
var unusedPackages = []drop{
	{"adduser", "accounts are fixed at build"},
	{"base-passwd", "accounts are fixed at build"},
	{"ca-certificates-java", "its key store is made by a program in Java; programs of the image are told in PEM whom they trust"},
	{"cpio", "only makes initramfs images"},
	{"debconf", "no maintainer script runs"},
	{"dpkg", "packages are not changed on a read-only root; its status file stays, for scanners"},
	{"dracut-install", "only makes initramfs images"},
	{"init-system-helpers", "only maintainer scripts use it"},
	{"initramfs-tools", "the initramfs is ours"},
	{"initramfs-tools-bin", "the initramfs is ours"},
	{"initramfs-tools-core", "the initramfs is ours"},
	{"java-common", "only chooses between several JREs"},
	{"klibc-utils", "only for other initramfs images"},
	{"libklibc", "only for other initramfs images"},
	{"libdebconfclient0", "only for dpkg's and base-passwd's tools"},
	{"libtss2-tcti-cmd0t64", "speaks to no TPM of a machine"},
	{"libtss2-tcti-mssim0t64", "speaks to a simulator"},
	{"libtss2-tcti-swtpm0t64", "speaks to a simulator"},
	{"linux-base", "only maintainer scripts use it"},
	{"logsave", "there is no log to keep before /var is mounted"},
	{"sysvinit-utils", "systemd is the init"},
	{"tpm-udev", "root alone uses the TPM"},
}

// dropPackages removes the files of unusedPackages.
func dropPackages(b *build) error {
	list := unusedPackages
	if !b.opts.Keep.Class(omit.Perl) {
		list = append([]drop{{"perl-base", omit.Reason(omit.Perl, "no program of the image is written in Perl")}}, list...)
	}
	byOrigin := map[string][]string{}
	_ = b.tree.Walk(func(path string, n *tree.Inode) error {
		byOrigin[n.Origin] = append(byOrigin[n.Origin], path)
		return nil
	})
	for _, d := range list {
		p := b.present[d.pattern]
		if p == nil {
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

// unusedFiles are left out of every image, with those that services leave out of their packages.
var unusedFiles = slices.Concat([]drop{
	{"/boot/*", "the kernel is in the UKI; its configuration and symbols are in the package"},
	{"/etc/apt", "packages are not changed on a read-only root"},
	{"/etc/cron.*", "no cron; timers do this"},
	{"/etc/binfmt.d", "no foreign binaries"},
	{"/etc/default/useradd", "accounts are fixed at build"},
	{"/etc/depmod.d", "module indexes are made at build"},
	{"/etc/dhcp", "networkd is the DHCP client"},
	{"/etc/e2scrub.conf", "only for ext4 on LVM"},
	{"/etc/default/haproxy", "kube-balancer.service runs it"},
	{"/etc/haproxy", "spore-agent writes the configuration"},
	{"/etc/init.d", "systemd runs the services"},
	{"/etc/rc?.d", "systemd runs the services"},
	{"/etc/initramfs-tools", "the initramfs is ours"},
	{"/etc/kernel", "kernels are not installed on the machine"},
	{"/etc/ld.so.conf*", "no ld.so.cache, no directory that is not a default"},
	{"/etc/logrotate.d", "the journal is the log"},
	{"/etc/modules-load.d/modules.conf", "leads to /etc/modules, which is obsolete"},
	{"/etc/motd", "nobody logs in"},
	{"/etc/profile.d/70-systemd-shell-extra.sh", "terminal decoration"},
	{"/etc/rsyslog.d", "the journal is the log"},
	{"/etc/skel", "no home directory is made"},
	{"/etc/ssh/ssh_config.d/20-systemd-ssh-proxy.conf", "no ssh through vsock"},
	{"/etc/systemd/logind.conf", "no logind"},
	{"/etc/systemd/sleep.conf", "servers do not sleep"},
	{"/etc/systemd/user*", "no user managers"},
	{"/etc/update-motd.d", "nobody logs in"},
	{"/lost+found", "not a real directory"},
	{"/usr/lib/dracut", "the initramfs is ours"},
	{"/usr/lib/environment.d", "no user managers"},
	{"/usr/lib/jvm/*/lib/libawt*.so", "no display"},
	{"/usr/lib/jvm/*/lib/libfontmanager.so", "no display"},
	{"/usr/lib/jvm/*/lib/libjavajpeg.so", "no display"},
	{"/usr/lib/jvm/*/lib/libjsound.so", "no sound"},
	{"/usr/lib/jvm/*/lib/liblcms.so", "no display"},
	{"/usr/lib/jvm/*/lib/libmlib_image.so", "no display"},
	{"/usr/lib/jvm/*/lib/security/cacerts", "leads to a key store that nobody makes: see ca-certificates-java"},
	{"/usr/lib/jvm/*/lib/server/classes_nocoops.jsa", "the JVM's own classes, laid out for heaps of 32 GiB and more"},
	{"/usr/lib/kernel", "kernels are not installed on the machine"},
	{"/usr/lib/lsb", "systemd runs the services"},
	{"/usr/lib/modules/*/build", "no compiler"},
	{"/usr/lib/modules/*/source", "no compiler"},
	{"/usr/lib/pcrlock.d", "no TPM policy is made on the machine"},
	{"/usr/lib/ssl/misc", "scripts of a certificate authority, in Perl"},
	{"/usr/lib/systemd/boot", "the boot files are in the ESP"},
	{"/usr/lib/systemd/catalog", "a message catalogue only adds explanations to journalctl -x"},
	{"/usr/lib/systemd/journald.conf.d/syslog.conf", "no syslog daemon to forward to"},
	{"/usr/lib/systemd/network/*.example", "documentation"},
	{"/usr/lib/systemd/network/*.network", "every interface is configured by spore-agent, by MAC"},
	{"/usr/lib/systemd/network/*.netdev", "every interface is configured by spore-agent, by MAC"},
	{"/usr/lib/systemd/ntp-units.d", "only timedated reads it"},
	{"/usr/lib/systemd/profile.d", "terminal decoration"},
	{"/usr/lib/systemd/ssh_config.d", "no ssh through vsock"},
	{"/usr/lib/systemd/repart/definitions", "spore-agent writes the definitions"},
	{"/usr/lib/systemd/system-generators", "every unit is in the image; generators cost a fork each at each boot"},
	{"/usr/lib/systemd/system-preset/9*", "presets are ours and applied at build"},
	{"/usr/lib/systemd/user*", "no user managers"},
	{"/usr/lib/sysusers.d", "accounts are fixed at build"},
	{"/usr/lib/tmpfiles.d/20-systemd-shell-extra.conf", "terminal decoration"},
	{"/usr/lib/tmpfiles.d/20-systemd-ssh-generator.conf", "no ssh through vsock"},
	{"/usr/lib/tmpfiles.d/20-systemd-stub.conf", "stage1 hands over what the stub leaves"},
	{"/usr/lib/tmpfiles.d/credstore.conf", "the directories are in the image"},
	{"/usr/lib/tmpfiles.d/haproxy.conf", "only for a chroot with a socket of a syslog daemon"},
	{"/usr/lib/tmpfiles.d/home.conf", "the directories are in the image"},
	{"/usr/lib/tmpfiles.d/legacy.conf", "for programs from before /run; /run/lock is in our own file"},
	{"/usr/lib/tmpfiles.d/libselinux1.conf", "no SELinux policy"},
	{"/usr/lib/tmpfiles.d/debian.conf", "the links are in the image; /run/lock is in our own file"},
	{"/usr/lib/tmpfiles.d/passwd.conf", "accounts are fixed at build"},
	{"/usr/lib/tmpfiles.d/provision.conf", "root cannot be given keys or files by an unauthenticated credential"},
	{"/usr/lib/tmpfiles.d/static-nodes-permissions.conf", "udev's rules set the same"},
	{"/usr/lib/tmpfiles.d/systemd-nologin.conf", "nobody logs in while the system starts, and nothing would remove the file"},
	{"/usr/lib/tmpfiles.d/x11.conf", "no display"},
	{"/etc/udev/hwdb.d", "see /usr/lib/udev/hwdb.d"},
	{"/usr/lib/udev/hwdb.d", "names of vendors, keyboards and mice; no /dev/disk/by-* or interface name is made of it"},
	{"/usr/lib/x86_64-linux-gnu/security/pam_systemd*", "no logind"},
	{"/usr/share/apport", "no crash reporter"},
	{"/usr/share/base-files", "templates that the recipe has used"},
	{"/usr/share/base-passwd", "templates that the recipe has used"},
	{"/usr/share/binfmts", "no foreign binaries"},
	{"/usr/share/dbus-1", "no bus"},
	{"/usr/share/debconf", "no maintainer script runs"},
	{"/usr/share/debianutils", "templates that the recipe has used"},
	{"/usr/share/initramfs-tools", "the initramfs is ours"},
	{"/usr/share/libc-bin", "templates that the recipe has used"},
	{"/usr/share/pam", "templates that the recipe has used"},
	{"/usr/share/pam-configs", "templates that the recipe has used"},
	{"/usr/share/polkit-1", "no bus"},
	{"/var/lib/dpkg", "status is kept in /usr"},
	{"/var/lib/haproxy", "only for a chroot"},
	{"/var/lib/systemd/catalog", "a message catalogue only adds explanations to journalctl -x"},
	// Programs that ask a D-Bus service or serve what has no unit here.
	{"/usr/bin/busctl", "no bus"},
	{"/usr/bin/hostnamectl", "asks hostnamed over D-Bus"},
	{"/usr/bin/kernel-install", "kernels are not installed on the machine"},
	{"/usr/bin/localectl", "asks localed over D-Bus"},
	{"/usr/bin/loginctl", "asks logind over D-Bus"},
	{"/usr/bin/systemd-ac-power", "no battery"},
	{"/usr/bin/systemd-hwdb", "no hwdb"},
	{"/usr/bin/systemd-inhibit", "asks logind over D-Bus"},
	{"/usr/bin/systemd-sysusers", "accounts are fixed at build"},
	{"/usr/bin/systemd-firstboot", "nothing is asked at the first boot"},
	{"/usr/bin/timedatectl", "asks timedated over D-Bus"},
	{"/usr/sbin/halog", "reads logs that nobody writes"},
	{"/usr/sbin/ldconfig*", "no ld.so.cache"},
}, serviceDrops())

func serviceDrops() []drop {
	var out []drop
	for _, d := range debian() {
		for _, one := range d.Drop {
			out = append(out, drop{one.Path, one.Why})
		}
	}
	return out
}

// dropFiles removes unusedFiles. keepPaths of image.yaml, which may name none that decides how a machine starts, goes first.
func dropFiles(b *build) error {
	for _, d := range unusedFiles {
		if err := b.omit(d.pattern, d.why); err != nil {
			return err
		}
	}
	return nil
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
	if b.opts.Keep.Path(p) {
		return nil
	}
	if n, err := b.tree.Lstat(p); err != nil {
		return err
	} else if n.Type != tree.Dir || !b.opts.Keep.Below(p) {
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
		if n.Type != tree.Symlink {
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
