package answers

import (
	"net/http"
	"time"

	"spore/agent/api"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/slot"
	"spore/wire/nodeapi"
	"spore/wire/update"
)

// configRow takes a new configuration from the operator.
func configRow(m *node.Machine) api.Row {
	return api.Row{
		Method: http.MethodPost, Path: nodeapi.ConfigPath, Who: []nodeapi.Role{nodeapi.Admin}, Body: update.MaxSize, AtOnce: 1,
		// Virtual media and radio links are slow; what comes is written to the disk, too.
		Bound:  time.Hour,
		Traced: true,
		Handle: slot.Handler(slot.Spool(m.Root.At(paths.Push))),
	}
}
