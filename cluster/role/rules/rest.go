package rules

import (
	"maps"
	"slices"
	"strings"

	"spore/cluster/role"
	"spore/cluster/units"
)

// Rest is what the rest of a configuration has, which a role must not take. Each map says who has it, such as "the
// service kafka".
type Rest struct {
	// Names are those of services, roles and programs.
	Names map[string]string
	// Units are systemd units.
	Units map[string]string
	// Off are units of services of ours that the configuration does not list: a role may have them.
	Off map[string]bool
	// Users are accounts that services run as.
	Users map[string]string
	// Paths are directories and files of services.
	Paths map[string]string
	// Secrets are entries of bundles.
	Secrets map[string]string
	// Authorities are what signs.
	Authorities map[string]string
	// Ports are what services listen at.
	Ports []Listener
	// Programs are the names of programs/, sorted.
	Programs []string
	// Starts lists what a timer, socket or path starts besides the service of its own name. May be nil.
	Starts func(unit string) []units.Start
	// Architecture is that of the image, in Debian's words; empty where nobody knows.
	Architecture string
}

// Listener is a port of somebody.
type Listener struct {
	// Protocol is tcp or udp; First and Last are the same for one port.
	Protocol    string
	First, Last int
	// At is everywhere, node or loopback.
	At string
	// Whose says who has it, such as "mosquitto of the service mqtt".
	Whose string
	// Roles are those on whose nodes it is; every node when empty.
	Roles []string
}

// meets tells whether two listeners can be in each other's way. Two ranges never are.
func (l Listener) meets(o Listener) bool {
	if l.Protocol != o.Protocol || l.At != o.At && l.At != role.Everywhere && o.At != role.Everywhere {
		return false
	}
	if l.First != l.Last && o.First != o.Last {
		return false
	}
	return l.First <= o.Last && o.First <= l.Last
}

// clone is a copy to which roles are added.
func (r Rest) clone() *Rest {
	of := func(m map[string]string) map[string]string {
		out := map[string]string{}
		maps.Copy(out, m)
		return out
	}
	return &Rest{
		Names: of(r.Names), Units: of(r.Units), Off: r.Off, Users: of(r.Users), Paths: of(r.Paths), Secrets: of(r.Secrets),
		Authorities: of(r.Authorities), Ports: slices.Clone(r.Ports), Programs: r.Programs, Starts: r.Starts,
		Architecture: r.Architecture,
	}
}

// inside tells whether a path is another one or below it.
func inside(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// whosePath finds who has a path, a path above it or one below it.
func (r *Rest) whosePath(p string) (theirs, whose string) {
	for _, other := range slices.Sorted(maps.Keys(r.Paths)) {
		if inside(p, other) || inside(other, p) {
			return other, r.Paths[other]
		}
	}
	return "", ""
}

const becomeRoot = "can become root"

// Names that no role can have.
var (
	// systemTargets are names of targets that systemd has (systemd.special(7)).
	systemTargets = []string{
		"basic", "bluetooth", "cryptsetup", "cryptsetup-pre", "ctrl-alt-del", "default", "emergency", "exit",
		"factory-reset", "final", "first-boot-complete", "getty", "getty-pre", "graphical", "halt", "hibernate",
		"hybrid-sleep", "initrd", "initrd-fs", "initrd-root-device", "initrd-root-fs", "initrd-switch-root",
		"initrd-usr-fs", "integritysetup", "integritysetup-pre", "kbrequest", "kexec", "local-fs", "local-fs-pre",
		"machines", "multi-user", "network", "network-online", "network-pre", "nss-lookup", "nss-user-lookup",
		"paths", "poweroff", "printer", "reboot", "remote-cryptsetup", "remote-fs", "remote-fs-pre",
		"remote-veritysetup", "rescue", "rpcbind", "shutdown", "sigpwr", "sleep", "slices", "smartcard", "sockets",
		"soft-reboot", "sound", "storage-target-mode", "suspend", "suspend-then-hibernate", "swap", "sysinit",
		"system-update", "system-update-pre", "time-set", "time-sync", "timers", "tpm2", "umount", "usb-gadget",
		"user", "veritysetup", "veritysetup-pre",
	}
	// systemUsers are accounts of Debian and systemd that are no service's. A user has the group of its name, so that
	// those of systemGroups are none of a role's either.
	systemUsers = []string{
		"root", "daemon", "bin", "sys", "sync", "nobody", "nogroup", "_apt", "messagebus", "polkitd", "sshd",
	}
	// systemGroups are groups that give more than devices, and what their members do.
	systemGroups = map[string]string{
		"adm":        "read the logs of every program",
		"bin":        "have files of the system",
		"crontab":    "start programs as others",
		"daemon":     "have files of the system",
		"disk":       "read and write every disk of the node",
		"docker":     becomeRoot,
		"incus":      becomeRoot,
		"kmem":       "read the memory of the kernel",
		"libvirt":    becomeRoot,
		"lxd":        becomeRoot,
		"messagebus": "have what is of the message bus",
		"netdev":     "change the network of the node",
		"nogroup":    "have what is of nobody",
		"polkitd":    "change who may do what",
		"shadow":     "read the hashes of passwords",
		"ssl-cert":   "read the keys of other programs",
		"staff":      "write below /usr/local",
		"sudo":       becomeRoot,
		"sys":        "have files of the system",
		"tss":        "use the TPM, which has the keys of the node",
		"tty":        "write to every terminal",
		"utmp":       "write who is logged in",
		"wheel":      becomeRoot,
	}
	// nodePaths are what the node itself has (docs/how-it-works.md).
	nodePaths = map[string]string{
		"/etc/cluster-config": "the node",
		"/etc/fstab":          "the node",
		"/etc/group":          "the node",
		"/etc/gshadow":        "the node",
		"/etc/hostname":       "the node",
		"/etc/hosts":          "the node",
		"/etc/machine-id":     "the node",
		"/etc/passwd":         "the node",
		"/etc/resolv.conf":    "the node",
		"/etc/shadow":         "the node",
		"/etc/systemd":        "systemd",
		"/run/credentials":    "systemd",
		"/run/spore":          "the node",
		"/run/systemd":        "systemd",
		"/run/udev":           "systemd",
		"/var/lib/spore":      "the node",
		"/var/lib/systemd":    "systemd",
		"/var/log/journal":    "the journal",
	}
	// own are beginnings of names that are the node's.
	own = []string{"spore-", "cluster-", "systemd-"}
)

func reserved(name string) bool {
	return name == "spore" || slices.ContainsFunc(own, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}
