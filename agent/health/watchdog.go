package health

import (
	"cmp"
	"fmt"

	"spore/wire/nodeapi"
)

// watchdog never fails a node: without one it works as well, until it hangs. Where no driver has found one there is
// nothing to mend, and no condition.
func watchdog(in Input) (nodeapi.State, string) {
	w := in.Line.Watchdog
	if w == nil {
		return "", ""
	}
	name := cmp.Or(w.Identity, "without a name")
	if !w.Held {
		return nodeapi.Warning, name + " is not in use: nothing restarts this machine when it hangs"
	}
	reason := fmt.Sprintf("%s restarts this machine when it hangs for %d s", name, w.Seconds)
	if w.HasReset {
		return nodeapi.Warning, reason + ", and did so before this start"
	}
	return nodeapi.OK, reason
}
