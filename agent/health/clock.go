package health

import "spore/wire/nodeapi"

// clock fails where certificates do: a clock that could not be right at the start may lie years back.
func clock(in Input) (nodeapi.State, string) {
	c := in.Line.Clock
	switch {
	case c == nil:
		return nodeapi.Warning, "the agent has not said yet who keeps the clock"
	case c.Synchronized && c.From != "":
		return nodeapi.OK, "kept by the time server " + c.From
	case c.Synchronized && c.By != "":
		return nodeapi.OK, "kept by " + c.By
	case c.Synchronized:
		return nodeapi.OK, "set by a time server, which does not answer now"
	case c.Wrong:
		return nodeapi.Failing, c.Problem
	case c.Problem != "":
		return nodeapi.Warning, c.Problem
	}
	return nodeapi.Warning, "no time server has answered since the node was started"
}
