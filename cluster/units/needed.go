package units

import "slices"

// needed are units of systemd and D-Bus without which no machine comes up or stops as it should (bootup(7),
// systemd.special(7)). Drop-ins may add to them; nothing takes their place.
var needed = []string{
	"basic.target", "ctrl-alt-del.target", "dbus-broker.service", "dbus.service", "dbus.socket", "default.target",
	"emergency.service", "emergency.target", "exit.target", "final.target", "getty.target", "halt.target",
	"local-fs-pre.target", "local-fs.target", "multi-user.target", "network-online.target", "network-pre.target",
	"network.target", "nss-lookup.target", "paths.target", "poweroff.target", "reboot.target", "remote-fs-pre.target",
	"remote-fs.target", "rescue.service", "rescue.target", "shutdown.target", "slices.target", "sockets.target",
	"sysinit.target", "system.slice", "systemd-journald-dev-log.socket", "systemd-journald.service",
	"systemd-journald.socket", "systemd-modules-load.service", "systemd-networkd.service", "systemd-networkd.socket",
	"systemd-poweroff.service", "systemd-reboot.service", "systemd-sysctl.service",
	"systemd-tmpfiles-setup-dev-early.service", "systemd-tmpfiles-setup-dev.service", "systemd-tmpfiles-setup.service",
	"systemd-udev-trigger.service", "systemd-udevd-control.socket", "systemd-udevd-kernel.socket",
	"systemd-udevd.service", "time-set.target", "time-sync.target", "timers.target", "umount.target",
}

// goals are those of them that a machine reaches when it stops or does not come up: units conflict with these to be
// stopped then.
var goals = []string{
	"emergency.service", "emergency.target", "exit.target", "final.target", "halt.target", "poweroff.target",
	"reboot.target", "rescue.service", "rescue.target", "shutdown.target", "umount.target",
}

// isNeeded says that a unit is one that each machine needs.
func isNeeded(unit string) bool { return slices.Contains(needed, unit) }

// mustRun says that a unit must not be stopped by one of the user's own.
func mustRun(unit string) bool { return Ours(unit) || isNeeded(unit) && !slices.Contains(goals, unit) }
