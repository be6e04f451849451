package ledger

import (
	"fmt"
	"slices"
	"strings"

	"spore/test/events"
)

// elsewhere begins the reason of a test that is right to be skipped on every machine, since something else runs it:
// `make soak`, or another test as a process of its own. The rest of the reason names that.
const elsewhere = "elsewhere: "

// Skipped says which tests were skipped: why, those that something else runs, and for the last line how many. Stages
// that run the same count once.
func Skipped(skips []events.Skip, uid int) (details, end string) {
	var b strings.Builder
	var away, names []string
	for i, s := range skips {
		name := last(s.Package) + "." + s.Test
		if slices.Contains(skips[:i], s) {
			continue
		}
		if where, ok := strings.CutPrefix(s.Reason, elsewhere); ok {
			away = append(away, name+" ("+where+")")
			continue
		}
		names = append(names, name)
		fmt.Fprintf(&b, "skipped %s: %s\n", name, s.Reason)
	}
	if len(away) > 0 {
		fmt.Fprintf(&b, "%d run elsewhere: %s\n", len(away), strings.Join(away, ", "))
	}
	if len(names) == 0 {
		return b.String(), "0 skipped\n"
	}
	if uid != 0 {
		b.WriteString("Those that take root run with: sudo env \"PATH=$PATH\" make test\n")
	}
	return b.String(), fmt.Sprintf("%d skipped: %s\n", len(names), strings.Join(names, ", "))
}
