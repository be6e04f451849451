package recipe

import (
	"path"
	"strings"

	"spore/builder/tree"
)

// unusedUnits are units of systemd and of the base packages that would do nothing on these machines, or something that
// is done at build or by spore-agent. Each costs time at each boot even when its conditions fail.
var unusedUnits = []drop{
	{"autovt@.service", "no virtual terminals are opened"},
	{"bluetooth.target", "no such hardware is managed"},
	{"capsule*", "no user managers"},
	{"ceph*", "ours run the programs, and spore-agent makes their data"},
	{"console-getty.service", "no login on a container's console"},
	{"container-getty@.service", "no login on a container's console"},
	{"cryptdisks*", "masked by Debian"},
	{"cryptsetup*", "spore-agent opens what is encrypted"},
	{"dbus-org.freedesktop.*", "no bus"},
	{"debug-shell.service", "a root shell without a password"},
	{"dev-hugepages.mount", "whoever needs huge pages mounts them"},
	{"dev-mqueue.mount", "container runtimes mount their own"},
	{"dpkg-db-backup.*", "packages are not changed on a read-only root"},
	{"e2scrub*", "only for ext4 on LVM"},
	{"factory-reset.target", "state is reset by spore-agent"},
	{"first-boot-complete.target", "nothing is done at the first boot alone"},
	{"getty-static.service", "no login unless the kernel command line asks"},
	{"getty.target.wants", "no login unless the kernel command line asks"},
	{"graphical.target", "no display"},
	{"haproxy.service", "kube-balancer.service runs it"},
	{"hibernate.target", "servers do not sleep"},
	{"hwclock.service", "masked by Debian"},
	{"hybrid-sleep.target", "servers do not sleep"},
	{"initrd*", "the initramfs is ours and has no systemd"},
	{"integritysetup*", "no volume has integrity tags"},
	{"kmod-static-nodes.service", "udev and devtmpfs make the nodes that are used"},
	{"kmod.service", "another name"},
	{"ldconfig.service", "no ld.so.cache"},
	{"machine.slice", "no machined"},
	{"modprobe@.service", "modules are loaded by udev, stage1 and the services that need them"},
	{"pam_namespace.service", "no polyinstantiation"},
	{"printer.target", "no such hardware is managed"},
	{"proc-sys-fs-binfmt_misc.*", "no foreign binaries"},
	{"procps.service", "another name"},
	{"quotaon*", "no quotas"},
	{"rbdmap.service", "images are mapped by whoever uses them"},
	{"rc-local.service*", "no rc.local on a read-only root"},
	{"remote-cryptsetup.target", "no encrypted volume is on the network"},
	{"remote-veritysetup.target", "the root is mapped by stage1"},
	{"rescue.*", "a root shell; stage1 and the status line say what is wrong"},
	{"rpcbind.target", "no NFS"},
	{"run-lock.mount", "/run is enough"},
	{"runlevel?.target", "for SysV init"},
	{"sleep.target", "servers do not sleep"},
	{"smartcard.target", "no such hardware is managed"},
	{"soft-reboot.target", "would skip stage1, which verifies the root"},
	{"sound.target", "no such hardware is managed"},
	{"ssh-access.target", "no ssh through vsock"},
	{"storage-target-mode.target", "exports every disk over the network"},
	{"swap.target", "no node swaps; a restart waited for its stop job for good, which systemd had forgotten to run"},
	{"suspend*", "servers do not sleep"},
	{"sys-fs-fuse-connections.mount", "nothing reads it"},
	{"sys-kernel-config.mount", "nothing reads it"},
	{"sys-kernel-debug.mount", "nothing reads it"},
	{"sys-kernel-tracing.mount", "nothing reads it"},
	{"syslog.socket", "no syslog daemon"},
	{"system-update*", "updates are whole images"},
	{"systemd-ask-password-wall.*", "nobody is logged in"},
	{"systemd-backlight@.service", "no such hardware is managed"},
	{"systemd-battery-check.service", "no such hardware is managed"},
	{"systemd-binfmt.service", "no foreign binaries"},
	{"systemd-bsod.service", "no screen"},
	{"systemd-confext.service", "/etc is verified and made by spore-agent"},
	{"systemd-creds*", "only root decrypts credentials"},
	{"systemd-firstboot.service", "nothing is asked at the first boot"},
	{"systemd-fsck*", "spore-agent checks the state partition before it is mounted; the root is verified"},
	{"systemd-growfs*", "mount.spore grows the state file system"},
	{"systemd-hibernate*", "servers do not sleep"},
	{"systemd-hostnamed.*", "no bus; spore-agent writes the host name"},
	{"systemd-hwdb-update.service", "no hwdb"},
	{"systemd-hybrid-sleep.service", "servers do not sleep"},
	{"systemd-initctl.*", "for SysV init"},
	{"systemd-journal-catalog-update.service", "no catalogue"},
	{"systemd-journald-audit.socket", "no audit"},
	{"systemd-localed.service*", "no bus; the locale is fixed"},
	{"systemd-logind.service*", "no seats and no sessions"},
	{"systemd-machine-id-commit.service", "stage1 writes the same machine-id at each boot"},
	{"systemd-network-generator.service", "spore-agent writes the network files"},
	{"systemd-networkd-persistent-storage.service", "networkd serves no DHCP leases"},
	{"systemd-pcr*", "nothing is sealed to what they measure"},
	{"system-systemd?x2d*setup.slice", "no unit opens volumes"},
	{"systemd-quotacheck*", "no quotas"},
	{"systemd-random-seed.service", "the kernel is seeded by the CPU, the EFI and its own jitter before /var is there"},
	{"systemd-remount-fs.service", "no fstab"},
	{"systemd-repart.service", "spore-agent runs systemd-repart with the definitions of this node"},
	{"systemd-rfkill.*", "no such hardware is managed"},
	{"systemd-soft-reboot.service", "would skip stage1, which verifies the root"},
	{"systemd-storagetm.service", "exports every disk over the network"},
	{"systemd-suspend*", "servers do not sleep"},
	{"systemd-sysext*", "extensions would bypass verity"},
	{"systemd-sysusers.service", "accounts are fixed at build"},
	{"systemd-timedated.service", "no bus; the time zone is UTC"},
	{"systemd-tmpfiles-setup-dev*", "udev and devtmpfs make the nodes that are used"},
	{"systemd-tpm2-setup*", "systemd-creds makes the storage root key when it first seals"},
	{"systemd-udev-load-credentials.service", "udev rules do not come from outside the image"},
	{"systemd-udev-settle.service", "whoever waits for a device waits for that one"},
	{"systemd-update-done.service", "/etc and /var are not brought up to date by systemd"},
	{"systemd-user-sessions.service", "no nologin file to remove"},
	{"systemd-volatile-root.service", "stage1 lays the overlay"},
	{"tpm2.target", "spore-agent waits for the TPM itself"},
	{"udev.service", "another name"},
	{"usb-gadget.target", "no such hardware is managed"},
	{"user*", "no user managers"},
	{"veritysetup*", "the root is mapped by stage1"},
	{"x11-common.service", "masked by Debian"},
}

// unusedHelpers are programs in /usr/lib/systemd that only units of unusedUnits run.
var unusedHelpers = []string{
	"backlight", "battery-check", "binfmt", "bsod", "growfs", "hibernate-resume", "hostnamed", "initctl", "integritysetup", "keyutil",
	"localed", "logind", "measure", "network-generator", "pcrextend", "pcrlock", "quotacheck", "random-seed", "remount-fs",
	"rfkill", "sbsign", "sleep", "ssh-proxy", "storagetm", "sysroot-fstab-check", "sysv-install", "timedated",
	"tpm2-setup", "update-done", "user-runtime-dir", "user-sessions", "veritysetup", "volatile-root", "xdg-autostart-condition",
}

// unwantedLinks start units of systemd that the image starts by another unit.
var unwantedLinks = []drop{
	{packageUnits + "/sysinit.target.wants/systemd-journal-flush.service", "spore-late.target starts it, after the roles"},
}

const (
	packageUnits = "/usr/lib/systemd/system"
	localUnits   = "/etc/systemd/system"
)

// dropUnits removes unusedUnits, what only they run, and the links to them.
func dropUnits(b *build) error {
	for _, name := range b.tree.Children(packageUnits) {
		for _, d := range unusedUnits {
			if ok, err := path.Match(d.pattern, name); err != nil {
				return err
			} else if !ok {
				continue
			}
			if err := b.remove(path.Join(packageUnits, name), d.why); err != nil {
				return err
			}
			break
		}
	}
	for _, name := range unusedHelpers {
		p := "/usr/lib/systemd/systemd-" + name
		if b.tree.Exists(p) {
			if err := b.remove(p, "no unit runs it"); err != nil {
				return err
			}
		}
	}
	for _, d := range unwantedLinks {
		if b.tree.Exists(d.pattern) {
			if err := b.remove(d.pattern, d.why); err != nil {
				return err
			}
		}
	}
	return b.dropUnitLinks()
}

// dropUnitLinks removes links to units that are gone, in the directory itself and in *.wants and *.requires.
func (b *build) dropUnitLinks() error {
	dirs := []string{packageUnits}
	for _, name := range b.tree.Children(packageUnits) {
		if strings.HasSuffix(name, ".wants") || strings.HasSuffix(name, ".requires") {
			dirs = append(dirs, path.Join(packageUnits, name))
		}
	}
	for _, dir := range dirs {
		for _, name := range b.tree.Children(dir) {
			p := path.Join(dir, name)
			n, err := b.tree.Lstat(p)
			if err != nil {
				return err
			}
			if n.Type != tree.Symlink || n.Target == "/dev/null" {
				continue
			}
			if _, err := b.tree.Stat(p); err == nil {
				continue
			}
			if err := b.remove(p, "the unit that it leads to was dropped"); err != nil {
				return err
			}
		}
		if dir != packageUnits {
			if err := b.removeIfEmpty(dir); err != nil {
				return err
			}
		}
	}
	return nil
}
