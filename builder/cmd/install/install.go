// Package install is the command `spore install`: a machine that was started from a medium puts its system on a disk.
package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/wire/nodeapi"
)

// offer is what would be written to, as a node answers (agent/install).
type offer struct {
	Disk  string   `json:"disk"`
	Name  string   `json:"name"`
	Size  int64    `json:"size"`
	Holds string   `json:"holds"`
	Kept  []string `json:"kept"`
}

// String says it for people.
func (o offer) String() string {
	text := fmt.Sprintf("This installs the running system on %s (serial %s, %d MiB), which holds: %s",
		o.Disk, o.Name, o.Size>>20, o.Holds)
	if len(o.Kept) > 0 {
		text += "; its state is kept (" + strings.Join(o.Kept, ", ") + ")"
	}
	return nodeapi.Harmless(text)
}

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	var asJSON, erase, without bool
	var confirm string
	var order nodeapi.Order
	cmd := &cobra.Command{
		Use:   "install [DIR] NODE DISK",
		Short: "Put the running system of a node on one of its disks",
		Long: `Install has a node of the cluster in DIR (configs when left out) put the system that it was started with, from a stick,
a disc or the network, on DISK: a serial number, wwn:WWN, or id:NAME of /dev/disk/by-id. spore disks shows them. The
node goes on meanwhile; spore reboot then starts it from the disk.

State partitions on the disk are kept; --erase-state gives them up. Anything else on it is lost: confirm with its serial
number. The disk that the machine was started from, one that is in use, and one that the node's file gives to a service
are refused.

The disk gets the bundle of the medium. Where the node has taken that from the medium into its state, or has a newer one
there, the disk gets that, readable until the first start; --without-bundle leaves it out. What else the node keeps
stays where it is.

The node has to have its bundle already: without one it answers nobody. Such a machine is installed by
spore serve --install, or by the credential spore.install.`,
		Example: "  spore disks --node edge-01\n" +
			"  spore install edge-01 S5H9NX0R --dry-run\n" +
			"  spore install configs edge-01 wwn:0x5000c500a1b2c3d4 --confirm S5H9NX0R",
		Args: exit.Args(cobra.RangeArgs(2, 3)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "configs"
			if len(args) == 3 {
				dir, args = args[0], args[1:]
			}
			f.Nodes = args[:1]
			v := verb.Row("install")
			order.Arguments = map[string]string{"disk": args[1]}
			for name, on := range map[string]bool{"erase-state": erase, "without-bundle": without} {
				if on {
					order.Arguments[name] = "yes"
				}
			}
			look := order
			look.DryRun = true
			if err := v.Check(look); err != nil {
				return exit.Usage(err)
			}
			c, err := verb.Open(cmd, f, dir, v)
			if err != nil {
				return err
			}
			found := verb.Ask(cmd, c, v, verb.Same(look), nil)
			if order.DryRun || found[0].Err != nil {
				return verb.Tell(cmd, found, asJSON, nil)
			}
			var o offer
			results := found[0].Value.Results
			if len(results) != 1 || json.Unmarshal(results[0], &o) != nil || o.Name == "" {
				return errors.New("the node does not say which disk it is")
			}
			lost := o.String()
			if erase {
				lost += "; state on it is given up"
			}
			if order.Confirm, err = verb.Confirm(cmd, confirm, o.Name, lost); err != nil {
				return err
			}
			return verb.Tell(cmd, verb.Ask(cmd, c, v, verb.Same(order), nil), asJSON, nil)
		},
	}
	f.Register(cmd, false)
	cmd.Flags().StringVar(&confirm, "confirm", "", "serial number of the disk, instead of typing it")
	cmd.Flags().BoolVar(&order.DryRun, "dry-run", false, "write nothing, and say what is on the disk")
	cmd.Flags().BoolVar(&erase, "erase-state", false, "give up state partitions on the disk")
	cmd.Flags().BoolVar(&without, "without-bundle", false, "leave the bundle out that the node keeps in its state")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
