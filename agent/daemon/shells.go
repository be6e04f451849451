package daemon

import (
	"os"

	"spore/agent/paths"
	"spore/agent/shell"
	"spore/agent/shell/kept"
)

// maxShells is how many emergency shells that nobody has acknowledged the status line names.
const maxShells = 20

// shells looks which emergency shells nobody has acknowledged.
func (a *agent) shells() {
	var err error
	if a.line.Shells, err = kept.In(a.m.Root).Unacknowledged(maxShells); err != nil {
		a.m.Say(err.Error())
	}
}

// makeShells makes the directory of what is kept of shells, so that it can be watched: where the image has a shell.
func (a *agent) makeShells() {
	if !shell.Built(a.m.Root) {
		return
	}
	if err := os.MkdirAll(a.m.Root.At(paths.Shells), 0o700); err != nil {
		a.m.Say(err.Error())
	}
}
