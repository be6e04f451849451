// Package disks is the command `spore disks`: the disks of nodes, whose they are, and what a node's file names them by.
package disks

import (
	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/fleet/devices"
	"spore/wire/nodeapi"
)

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "disks [DIR]",
		Short: "Show the disks of nodes, and what selects them",
		Long: `Disks shows each disk of the nodes of the cluster in DIR (configs when left out): its size, how it is attached, whose it
is, and what is on it. The line of selectors has what can be written in nodes/NAME.yaml for it:

  disks:
    - {use: kafka, selector: {serial: "S5Y1NG0R"}}

A selector that would match a second disk of the machine is left out.`,
		Example: "  spore disks\n  spore disks configs --node kafka-01\n  spore disks --node storage-01 --json",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := verb.Row("disks")
			c, err := verb.Open(cmd, f, inputs.Dir(args), v)
			if err != nil {
				return err
			}
			return verb.Tell(cmd, verb.Ask(cmd, c, v, verb.Same(nodeapi.Order{}), nil), asJSON, devices.ShowDisks)
		},
	}
	f.Register(cmd, true)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
