// Package restart is the command `spore restart`: a unit of a node is restarted.
package restart

import (
	"github.com/spf13/cobra"

	"spore/builder/cmd/verb"
)

// Command returns the command.
func Command() *cobra.Command {
	return verb.One{
		Use: "restart [DIR] NODE UNIT", Verb: "restart", Words: []string{"unit"},
		Short: "Restart a unit of a node",
		Long: `Restart restarts a unit of the roles of a node of the cluster in DIR (configs when left out), or one of Spore's own
that every node runs, and waits until it is active again. In the place of a unit, the name of a role means all units
of it. Other units, such as mounts and those of systemd, are refused: spore reboot restarts the machine.

Where this takes a quorum below its majority the node refuses; --force QUORUM names the quorum that may lose it.`,
		Example: "  spore restart edge-01 mosquitto\n" +
			"  spore restart configs kafka-01 kafka-broker\n" +
			"  spore restart configs master-1 etcd --dry-run",
	}.Command()
}
