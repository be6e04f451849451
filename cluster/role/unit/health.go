package unit

import (
	"spore/cluster/role"
)

// healthUnits are the service that runs the command of health, and its timer. What comes out lies in a directory of the
// service's name in /run. The service has the user of the role and none of its secrets, needs or directories.
func healthUnits(d *role.Definition) map[string]string {
	if !d.AsksByCommand() {
		return nil
	}
	var timer, ask text
	timer.line("# Role %s. It is asked for its health as long as it is on.", d.Name)
	timer.line("[Unit]")
	timer.line("Description=Health of the role %s", d.Name)
	timer.line("PartOf=%s", d.Target())
	timer.line("")
	timer.line("[Timer]")
	timer.line("OnActiveSec=5s")
	timer.line("OnUnitInactiveSec=30s")
	timer.line("AccuracySec=1s")

	ask.line("# Role %s. It is asked for its health.", d.Name)
	ask.line("[Unit]")
	ask.line("Description=Ask the role %s for its health", d.Name)
	ask.line("PartOf=%s", d.Target())
	ask.line("")
	ask.line("[Service]")
	ask.line("Type=oneshot")
	ask.line("ExecStart=/usr/bin/spore-role health %s", d.Name)
	// The program bounds the command; this bounds the program.
	ask.line("TimeoutStartSec=30")
	ask.line("RuntimeDirectory=%s", d.HealthName())
	ask.line("RuntimeDirectoryPreserve=yes")
	asker(&ask, d)
	return map[string]string{d.HealthName() + ".service": ask.String(), d.HealthName() + ".timer": timer.String()}
}

// asker writes the rest of a service that runs a command of the role's file as the role's user: it talks to others
// where the role does, and writes nothing.
func asker(b *text, d *role.Definition) {
	if d.User != nil {
		b.line("User=%s", d.User.Name)
		b.line("Group=%s", d.User.Name)
	}
	b.line("")
	harden(b, &role.Definition{
		User: d.User, Needs: &role.Needs{Network: network(d), Compiles: d.NeedsOf().Compiles},
	})
}
