// Package restart is the command `spore restart`: a unit of a node is restarted.
package restart

import (
	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/wire/nodeapi"
)

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	var asJSON bool
	var order nodeapi.Order
	cmd := &cobra.Command{
		Use:   "restart [DIR] NODE UNIT",
		Short: "Restart a unit of a node",
		Long: `Restart restarts a unit of the roles of a node of the cluster in DIR (configs when left out), or one of Spore's own
that every node runs, and waits until it is active again. In the place of a unit, the name of a role means all units
of it. Other units, such as mounts and those of systemd, are refused: spore reboot restarts the machine.

Where this takes a quorum below its majority the node refuses; --force QUORUM names the quorum that may lose it.`,
		Example: "  spore restart edge-01 mosquitto\n" +
			"  spore restart configs kafka-01 kafka-broker\n" +
			"  spore restart configs master-1 etcd --dry-run",
		Args: exit.Args(cobra.RangeArgs(2, 3)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "configs"
			if len(args) == 3 {
				dir, args = args[0], args[1:]
			}
			f.Nodes = args[:1]
			v := verb.Row("restart")
			order.Arguments = map[string]string{"unit": args[1]}
			if err := v.Check(order); err != nil {
				return exit.Usage(err)
			}
			c, err := verb.Open(cmd, f, dir, v)
			if err != nil {
				return err
			}
			return verb.Tell(cmd, verb.Ask(cmd, c, v, verb.Same(order), nil), asJSON, nil)
		},
	}
	f.Register(cmd, false)
	cmd.Flags().BoolVar(&order.DryRun, "dry-run", false, "do nothing, and say whether the node would")
	cmd.Flags().StringVar(&order.Force, "force", "", "name of a quorum that may lose its majority")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
