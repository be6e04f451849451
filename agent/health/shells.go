package health

import (
	"strings"

	"spore/wire/nodeapi"
)

// shells warns while nobody has acknowledged that an emergency shell was open.
func shells(in Input) (nodeapi.State, string) {
	var open []string
	for _, s := range in.Line.Shells {
		open = append(open, s.Text())
	}
	if len(open) == 0 {
		return "", ""
	}
	return nodeapi.Warning, strings.Join(open, "; ")
}
