// Package reset is the command `spore reset`: the state of a node, or everything on one of its disks, is deleted.
package reset

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

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
	return verb.One{
		Use: "reset [DIR] NODE", Verb: "reset",
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
		Options: map[string]string{
			"disk": "serial number of the disk, wwn:WWN, or id:NAME of /dev/disk/by-id (default: the one with the state)",
		},
		Found: found,
	}.Command()
}

// found has a person confirm the disk that the node means, and not what they have just typed.
func found(_ string, results []json.RawMessage, _ *nodeapi.Order) (confirm, lost string, err error) {
	var l loss
	if len(results) != 1 || json.Unmarshal(results[0], &l) != nil || l.Name == "" {
		return "", "", errors.New("the node does not say which disk it is")
	}
	return l.Name, l.String(), nil
}
