// Package reset is the command `spore reset`: the state of a node, or everything on one of its disks, is deleted.
package reset

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/wire/nodeapi"
)

// loss is what would be deleted, as a node answers (agent/disks).
type loss struct {
	Disk  string `json:"disk"`
	Name  string `json:"name"`
	Size  int64  `json:"size"`
	State bool   `json:"state"`
	Whole bool   `json:"whole"`
}

// String says it for people.
func (l loss) String() string {
	text := fmt.Sprintf("%s (serial %s, %d MiB)", nodeapi.Harmless(l.Disk), nodeapi.Harmless(l.Name), l.Size>>20)
	switch {
	case l.State && l.Whole:
		return "This deletes everything on " + text + ", which is the node's state, and restarts the machine at once"
	case l.State:
		return "This deletes all state on the boot disk " + text + ", and restarts the machine at once"
	}
	return "This deletes everything on " + text
}

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	var asJSON bool
	var disk, confirm string
	var order nodeapi.Order
	cmd := &cobra.Command{
		Use:   "reset [DIR] NODE",
		Short: "Delete the state of a node, or everything on one of its disks",
		Long: `Reset deletes what is on a disk of a node of the cluster in DIR (configs when left out): without --disk the disk with
the node's state. Of the disk that the machine was booted from, all state partitions go, whosever they are, and the
system stays; of a disk that the node's file names, everything goes; any other disk is refused. Key slots go first.
State is in use, so that the machine restarts at once, without a shutdown, and makes new state.

The node's bundle goes with its state: the node needs it again where it does not have it from its medium or its
firmware. Confirm with the serial number of the disk. A node without which a quorum is below its majority refuses;
--force QUORUM names the quorum that may lose it.`,
		Example: "  spore reset edge-01\n" +
			"  spore reset configs storage-03 --disk Z1D5 --confirm Z1D5\n" +
			"  spore reset configs edge-01 --dry-run",
		Args: exit.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "configs"
			if len(args) == 2 {
				dir, args = args[0], args[1:]
			}
			f.Nodes = args[:1]
			v := verb.Row("reset")
			order.Arguments = map[string]string{"disk": disk}
			look := order
			look.DryRun = true
			if err := v.Check(look); err != nil {
				return exit.Usage(err)
			}
			c, err := verb.Open(cmd, f, dir, v)
			if err != nil {
				return err
			}
			// The node says which disk it is, so that a person is not asked to confirm what they have just typed.
			found := verb.Ask(cmd, c, v, verb.Same(look), nil)
			if order.DryRun || found[0].Err != nil {
				return verb.Tell(cmd, found, asJSON, nil)
			}
			var l loss
			if len(found[0].Value.Results) != 1 || json.Unmarshal(found[0].Value.Results[0], &l) != nil || l.Name == "" {
				return errors.New("the node does not say which disk it is")
			}
			if order.Confirm, err = verb.Confirm(cmd, confirm, l.Name, l.String()); err != nil {
				return err
			}
			return verb.Tell(cmd, verb.Ask(cmd, c, v, verb.Same(order), nil), asJSON, nil)
		},
	}
	f.Register(cmd, false)
	cmd.Flags().StringVar(&disk, "disk", "", "serial number of the disk, wwn:WWN, or id:NAME of /dev/disk/by-id (default: the one with the state)")
	cmd.Flags().StringVar(&confirm, "confirm", "", "serial number of the disk, instead of typing it")
	cmd.Flags().BoolVar(&order.DryRun, "dry-run", false, "delete nothing, and say what would be deleted")
	cmd.Flags().StringVar(&order.Force, "force", "", "name of a quorum that may lose its majority")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
