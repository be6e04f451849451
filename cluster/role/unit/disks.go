package unit

import (
	"spore/cluster/role"
)

// disksUnit is the service that makes or finds the role's disks and mounts them: kafka-disks.service for a role of the
// configuration's own. A disk that comes later than its wait is taken by the next try.
func disksUnit(d *role.Definition) string {
	var b text
	b.line("# Role %s. Makes or finds the disks that the node's file gives to it. It fails when one is missing or refused.",
		d.Name)
	b.line("[Unit]")
	b.line("Description=Prepare the disks of the role %s", d.Name)
	b.line("PartOf=%s", d.Target())
	b.line("RequiresMountsFor=%s", d.Disks.At)
	b.line("After=systemd-udev-trigger.service")
	b.line("StartLimitIntervalSec=0")
	b.line("")
	b.line("[Service]")
	b.line("Type=oneshot")
	b.line("RemainAfterExit=yes")
	b.line("ExecStart=/usr/bin/spore-agent disks %s", d.Disks.Use)
	b.line("Restart=on-failure")
	b.line("RestartSec=30")
	b.line("# A disk may come late (45 s), and e2fsck may have to look at all of a large one.")
	b.line("TimeoutStartSec=infinity")
	b.line("")
	b.line("# It partitions and formats disks, and gives directories to the role: see kafka-disks.service.")
	for _, line := range []string{
		"CapabilityBoundingSet=CAP_SYS_ADMIN CAP_SYS_MODULE CAP_CHOWN CAP_DAC_OVERRIDE CAP_SYS_RESOURCE",
		"LockPersonality=yes", "MemoryDenyWriteExecute=yes", "NoNewPrivileges=yes", "PrivateIPC=yes", "ProtectClock=yes",
		"ProtectHome=tmpfs", "ProtectHostname=yes", "ProtectProc=invisible", "ProtectSystem=strict",
		"ReadWritePaths=/run/spore /var", "RestrictAddressFamilies=AF_UNIX AF_NETLINK", "RestrictNamespaces=yes",
		"RestrictRealtime=yes", "RestrictSUIDSGID=yes", "SystemCallArchitectures=native",
		"SystemCallFilter=@system-service @module", "SystemCallErrorNumber=EPERM", "UMask=0022",
	} {
		b.line("%s", line)
	}
	return b.String()
}
