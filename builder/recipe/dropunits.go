package recipe

import (
	"path"
	"strings"

	"spore/builder/tree"
)

// unusedUnits are units of systemd and of the base packages that would do nothing on these machines, or something that
// is done at build or by spore-agent. Each costs time at each boot even when its conditions fail.
var unusedUnits = []drop{
	{"autovt@.service", "no virtual terminals are opened", nil},
	{"bluetooth.target", "no such hardware is managed", nil},
	{"capsule*", "no user managers", nil},
	{"ceph*", "ours run the programs, and spore-agent makes their data", nil},
	{"console-getty.service", "no login on a container's console", nil},
	{"container-getty@.service", "no login on a container's console", nil},
	{"cryptdisks*", "masked by Debian", nil},
	{"cryptsetup*", "spore-agent opens what is encrypted", nil},
	{"dbus-org.freedesktop.*", "no bus", nil},
	{"debug-shell.service", "a root shell without a password", nil},
	{"dev-hugepages.mount", "whoever needs huge pages mounts them", nil},
	{"dev-mqueue.mount", "container runtimes mount their own", nil},
	{"dpkg-db-backup.*", "packages are not changed on a read-only root", nil},
	{"e2scrub*", "only for ext4 on LVM", nil},
	{"factory-reset.target", "state is reset by spore-agent", nil},
	{"first-boot-complete.target", "nothing is done at the first boot alone", nil},
	{"getty-static.service", "no login unless the kernel command line asks", nil},
	{"getty.target.wants", "no login unless the kernel command line asks", nil},
	{"graphical.target", "no display", nil},
	{"haproxy.service", "kube-balancer.service runs it", nil},
	{"hibernate.target", "servers do not sleep", nil},
	{"hwclock.service", "masked by Debian", nil},
	{"hybrid-sleep.target", "servers do not sleep", nil},
	{"initrd*", "the initramfs is ours and has no systemd", nil},
	{"integritysetup*", "no volume has integrity tags", nil},
	{"kmod-static-nodes.service", "udev and devtmpfs make the nodes that are used", nil},
	{"kmod.service", "another name", nil},
	{"ldconfig.service", "no ld.so.cache", nil},
	{"machine.slice", "no machined", nil},
	{"modprobe@.service", "modules are loaded by udev, stage1 and the services that need them", nil},
	{"pam_namespace.service", "no polyinstantiation", nil},
	{"printer.target", "no such hardware is managed", nil},
	{"proc-sys-fs-binfmt_misc.*", "no foreign binaries", nil},
	{"procps.service", "another name", nil},
	{"quotaon*", "no quotas", nil},
	{"rbdmap.service", "images are mapped by whoever uses them", nil},
	{"rc-local.service*", "no rc.local on a read-only root", nil},
	{"remote-cryptsetup.target", "no encrypted volume is on the network", nil},
	{"remote-veritysetup.target", "the root is mapped by stage1", nil},
	{"rescue.*", "a root shell; stage1 and the status line say what is wrong", nil},
	{"rpcbind.target", "no NFS", nil},
	{"run-lock.mount", "/run is enough", nil},
	{"runlevel?.target", "for SysV init", nil},
	{"sleep.target", "servers do not sleep", nil},
	{"smartcard.target", "no such hardware is managed", nil},
	{"soft-reboot.target", "would skip stage1, which verifies the root", nil},
	{"sound.target", "no such hardware is managed", nil},
	{"ssh-access.target", "no ssh through vsock", nil},
	{"storage-target-mode.target", "exports every disk over the network", nil},
	{"swap.target", "no node swaps; a restart waited for its stop job for good, which systemd had forgotten to run", nil},
	{"suspend*", "servers do not sleep", nil},
	{"sys-fs-fuse-connections.mount", "nothing reads it", nil},
	{"sys-kernel-config.mount", "nothing reads it", nil},
	{"sys-kernel-debug.mount", "nothing reads it", nil},
	{"sys-kernel-tracing.mount", "nothing reads it", nil},
	{"syslog.socket", "no syslog daemon", nil},
	{"system-update*", "updates are whole images", nil},
	{"systemd-ask-password-wall.*", "nobody is logged in", nil},
	{"systemd-backlight@.service", "no such hardware is managed", nil},
	{"systemd-battery-check.service", "no such hardware is managed", nil},
	{"systemd-binfmt.service", "no foreign binaries", nil},
	{"systemd-bsod.service", "no screen", nil},
	{"systemd-confext.service", "/etc is verified and made by spore-agent", nil},
	{"systemd-creds*", "only root decrypts credentials", nil},
	{"systemd-firstboot.service", "nothing is asked at the first boot", nil},
	{"systemd-fsck*", "spore-agent checks the state partition before it is mounted; the root is verified", nil},
	{"systemd-growfs*", "mount.spore grows the state file system", nil},
	{"systemd-hibernate*", "servers do not sleep", nil},
	{"systemd-hostnamed.*", "no bus; spore-agent writes the host name", nil},
	{"systemd-hwdb-update.service", "no hwdb", nil},
	{"systemd-hybrid-sleep.service", "servers do not sleep", nil},
	{"systemd-initctl.*", "for SysV init", nil},
	{"systemd-journal-catalog-update.service", "no catalogue", nil},
	{"systemd-journald-audit.socket", "no audit", nil},
	{"systemd-localed.service*", "no bus; the locale is fixed", nil},
	{"systemd-logind.service*", "no seats and no sessions", nil},
	{"systemd-machine-id-commit.service", "stage1 writes the same machine-id at each boot", nil},
	{"systemd-network-generator.service", "spore-agent writes the network files", nil},
	{"systemd-networkd-persistent-storage.service", "networkd serves no DHCP leases", nil},
	{"systemd-pcr*", "nothing is sealed to what they measure", nil},
	{"system-systemd?x2d*setup.slice", "no unit opens volumes", nil},
	{"systemd-quotacheck*", "no quotas", nil},
	{"systemd-random-seed.service", "the kernel is seeded by the CPU, the EFI and its own jitter before /var is there", nil},
	{"systemd-remount-fs.service", "no fstab", nil},
	{"systemd-repart.service", "spore-agent runs systemd-repart with the definitions of this node", nil},
	{"systemd-rfkill.*", "no such hardware is managed", nil},
	{"systemd-soft-reboot.service", "would skip stage1, which verifies the root", nil},
	{"systemd-storagetm.service", "exports every disk over the network", nil},
	{"systemd-suspend*", "servers do not sleep", nil},
	{"systemd-sysext*", "extensions would bypass verity", nil},
	{"systemd-sysusers.service", "accounts are fixed at build", nil},
	{"systemd-timedated.service", "no bus; the time zone is UTC", nil},
	{"systemd-tmpfiles-setup-dev*", "udev and devtmpfs make the nodes that are used", nil},
	{"systemd-tpm2-setup*", "systemd-creds makes the storage root key when it first seals", nil},
	{"systemd-udev-load-credentials.service", "udev rules do not come from outside the image", nil},
	{"systemd-udev-settle.service", "whoever waits for a device waits for that one", nil},
	{"systemd-update-done.service", "/etc and /var are not brought up to date by systemd", nil},
	{"systemd-user-sessions.service", "no nologin file to remove", nil},
	{"systemd-volatile-root.service", "stage1 lays the overlay", nil},
	{"tpm2.target", "spore-agent waits for the TPM itself", nil},
	{"udev.service", "another name", nil},
	{"usb-gadget.target", "no such hardware is managed", nil},
	{"user*", "no user managers", nil},
	{"veritysetup*", "the root is mapped by stage1", nil},
	{"x11-common.service", "masked by Debian", nil},
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
	{packageUnits + "/sysinit.target.wants/systemd-journal-flush.service", "spore-late.target starts it, after the roles", nil},
}

// UnitDir is where an image has units that are of no package: ours, and those of the configuration.
const UnitDir = "/etc/systemd/system"

const (
	packageUnits = "/usr/lib/systemd/system"
	localUnits   = UnitDir
)

// dropUnits removes unusedUnits, what only they run, and the links to them.
func dropUnits(b *build) error {
	for _, name := range b.tree.Children(packageUnits) {
		for _, d := range unusedUnits {
			if ok, err := path.Match(d.pattern, name); err != nil {
				return err
			} else if !ok || b.uses(d) {
				continue
			}
			p := path.Join(packageUnits, name)
			if n, err := b.tree.Lstat(p); err == nil && b.namedOrigin(n) {
				continue
			}
			if err := b.remove(p, d.why); err != nil {
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
