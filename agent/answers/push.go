package answers

import (
	"net/http"
	"time"

	"github.com/coreos/go-systemd/v22/activation"

	"spore/agent/api"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/share"
	"spore/agent/slot"
	"spore/wire/nodeapi"
	"spore/wire/update"
)

// updateRow takes an update from the operator, message by message.
func updateRow(m *node.Machine) api.Row {
	return api.Row{
		Method: http.MethodPost, Path: nodeapi.UpdatePath, Who: []nodeapi.Role{nodeapi.Admin},
		Body: update.MaxMessage, AtOnce: 1,
		// Virtual media and radio links are slow; what comes is written to the disk, too.
		Bound:  time.Hour,
		Traced: true,
		Handle: slot.Handler(slot.Spool(m.Root.At(paths.Push))),
	}
}

// piecesRow gives pieces of updates to other nodes.
func piecesRow(m *node.Machine) api.Row {
	shelf := &share.Shelf{Dir: m.Root.At(paths.FetchedPieces)}
	if root := openRoot(); root != nil {
		return share.Row(shelf, root)
	}
	return share.Row(shelf)
}

// openRoot is the root that runs, of which the unit is given the partitions open (OpenFile= of systemd.service(5)); nil
// where there are none.
func openRoot() *share.Root {
	root := &share.Root{}
	for _, f := range activation.Files(true) {
		switch f.Name() {
		case "root-data":
			root.Data = f
		case "root-tree":
			root.Tree = f
		}
	}
	if root.Data == nil || root.Tree == nil {
		return nil
	}
	return root
}

// backRow has the node go back to the system before.
func backRow(m *node.Machine) api.Row {
	return api.Row{
		Method: http.MethodPost, Path: nodeapi.BackPath, Who: []nodeapi.Role{nodeapi.Admin},
		AtOnce: 1, Bound: time.Hour, Traced: true,
		Handle: slot.BackHandler(slot.Spool(m.Root.At(paths.Push))),
	}
}
