//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostile are credentials by which whoever writes the firmware's strings, or runs the hypervisor, would configure what
// reads them (systemd.system-credentials(7)), and what shows on the machine that one of them was read.
var hostile = []struct {
	name, value string
	// look is a command that succeeds when the credential did anything; empty where another row's looks for it as well.
	look string
}{
	// Larger than what goes into a string of SMBIOS: it comes by fw_cfg.
	{"tmpfiles.extra", "f /run/hostile-tmpfiles 0644 root root - x\n#" + strings.Repeat("x", 2<<10), "test -e /run/hostile-tmpfiles"},
	{"tmpfiles.hostile", "f /run/hostile-tmpfiles 0644 root root - x\n", ""},
	{"sysctl.extra", "kernel.domainname = hostile\n", "grep -q hostile /proc/sys/kernel/domainname"},
	{"systemd.extra-unit.hostile.service", "[Service]\nExecStart=/bin/touch /run/hostile-unit\n[Install]\nWantedBy=multi-user.target\n", "systemctl list-units --all --plain --no-legend 'hostile*' | grep -q ."},
	{"systemd.unit-dropin.multi-user.target", "[Unit]\nWants=hostile.service\n", "test -e /run/hostile-unit"},
	{"systemd.unit-dropin.mosquitto.service", "[Service]\nExecStartPre=+/bin/touch /run/hostile-dropin\n", "test -e /run/hostile-dropin"},
	{"fstab.extra", "tmpfs /run/hostile-mount tmpfs defaults,x-mount.mkdir 0 0\n", "grep -q hostile /proc/mounts"},
	{"passwd.hashed-password.root", "$6$hostile$hostile", "grep -q '^root:[$]' /etc/shadow"},
	{"passwd.plaintext-password.root", "hostile", ""},
	{"passwd.shell.root", "/bin/hostile", "grep -q hostile /etc/passwd"},
	{"ssh.authorized_keys.root", "ssh-ed25519 AAAA hostile\n", "grep -rqs hostile /root"},
	{"ssh.ephemeral-authorized_keys-all", "ssh-ed25519 AAAA hostile\n", ""},
	{"ssh.listen", "0.0.0.0:2222", "systemctl list-sockets --all --no-legend | grep -q ssh"},
	{"login.motd", "hostile\n", "grep -rqs hostile /etc/motd.d /run/motd.d"},
	{"login.issue", "hostile\n", "grep -rqs hostile /etc/issue.d /run/issue.d"},
	{"login.noauth", "yes", ""},
	{"agetty.autologin", "root", "systemctl list-units --plain --no-legend '*getty@*' | grep -q ."},
	{"tty.serial.ttyS0.agetty.autologin", "root", ""},
	{"getty.ttys.serial", "ttyS0", ""},
	{"getty.auto", "yes", ""},
	{"network.hosts", "192.0.2.1 hostile\n", "grep -q hostile /etc/hosts"},
	{"network.netdev.50-hostile", "[NetDev]\nName=hostile0\nKind=dummy\n", "test -e /sys/class/net/hostile0"},
	{"network.network.50-hostile", "[Match]\nName=*\n[Network]\nDHCP=yes\n", "ls /run/systemd/network /etc/systemd/network 2>/dev/null | grep -q hostile"},
	{"network.link.10-hostile", "[Match]\nOriginalName=*\n[Link]\nName=hostile1\n", "test -e /sys/class/net/hostile1"},
	{"network.conf.50-hostile", "[Network]\nManageForeignRoutes=yes\n", "ls -d /run/systemd/networkd.conf.d 2>/dev/null | grep -q ."},
	{"network.wireguard.private.50-hostile", "hostile", ""},
	{"network.dns", "192.0.2.1", "grep -q 192.0.2.1 /etc/resolv.conf"},
	{"journal.storage", "none", "! journalctl -b -n 1 -q --no-pager | grep -q ."},
	{"journal.forward_to_socket", "vsock:2:1234", ""},
	{"udev.rules.99-hostile", `KERNEL=="null", SYMLINK+="hostile"` + "\n", "test -e /dev/hostile || ls /run/udev/rules.d | grep -q hostile"},
	{"udev.conf.hostile", "udev_log=debug\n", "ls -d /run/udev/udev.conf.d 2>/dev/null | grep -q ."},
	{"sysusers.extra", "u hostile - \"hostile\" /run\n", ""}, // The row of the shell looks for it.
	{"userdb.user.hostile", `{"userName":"hostile","uid":60500}`, "test -e /run/userdb/hostile.user"},
	{"home.create.hostile", `{"userName":"hostile"}`, "test -e /home/hostile"},
	{"firstboot.timezone", "Europe/Berlin", "readlink /etc/localtime | grep -q Berlin"},
	{"firstboot.locale", "de_DE.UTF-8", "grep -qs de_DE /etc/locale.conf"},
	{"firstboot.hostname", "hostile", ""},
	{"system.hostname", "hostile", "grep -q hostile /proc/sys/kernel/hostname"},
	{"system.machine_id", "0123456789abcdef0123456789abcdef", "grep -q 0123456789abcdef /etc/machine-id"},
	{"vconsole.keymap", "de", "grep -qs '=de' /etc/vconsole.conf"},
	{"vmm.notify_socket", "vsock-stream:2:1234", ""},
	{"cryptsetup.passphrase", "hostile", ""},
	{"spore.hostile.service", "hostile", ""}, // By a name of Spore's, which no unit takes.
	{"spore.Hostile", "hostile", ""},
}

// hostileCredentials are those of a machine, beside its own.
func hostileCredentials(own map[string][]byte) map[string][]byte {
	out := map[string][]byte{}
	for _, h := range hostile {
		out[h.name] = []byte(h.value)
	}
	for name, data := range own {
		out[name] = data
	}
	return out
}

// requireHarmless holds that a machine with all of them is as one without.
func requireHarmless(t *testing.T, g *guest) {
	t.Helper()
	g.loggedIn()
	require.Equal(t, "spore.bundle, spore.hostile.service", strings.Join(g.shell("ls -m /run/credentials/@system"), ""), "nothing else was imported")
	require.Equal(t, "CREDENTIALS_DIRECTORY=/run/credentials/@system", strings.Join(g.shell("tr '\\0' '\\n' </proc/1/environ | grep CREDENTIALS"), ""))
	require.Empty(t, g.shell("for p in grep ls tr readlink test systemctl journalctl; do command -v $p >/dev/null || echo $p; done"), "a program that looks is missing")
	batch := ""
	for i, h := range hostile {
		if h.look != "" {
			batch += "{ " + h.look + "; } 2>/dev/null && echo " + h.name + "; "
		}
		if len(batch) > 1000 || i == len(hostile)-1 { // A terminal takes lines of 4 KiB.
			require.Empty(t, g.shell(batch+"true"), "these did something")
			batch = ""
		}
	}
	// What a service's user has no business with gets no other name in a folder of its own.
	require.Equal(t, []string{"1", "1"}, g.shell("cat /proc/sys/fs/protected_hardlinks /proc/sys/fs/protected_symlinks"))
	require.Empty(t, g.shell("cd /run/credentials && ls -d */* | grep -v '^@system/' | grep -vE '/(spore[.](bundle|node|install)|secret_.*)$'"), "a unit was given what it does not name")
}
