package logs

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"spore/agent/verbs"
	"spore/services/logs"
	"spore/storage/atomicfile"
)

const (
	// maxMetrics bounds what the program that takes logs tells, in bytes.
	maxMetrics = 4 << 20
	// apart is by how many seconds two clocks differ of which a person is told.
	apart = 2
)

// clocks are those of nodes that differ from the clock of this one, in seconds; lines are in the order of their own
// clocks. Where the program that takes logs tells nothing, nothing is known.
func clocks(r *verbs.Run, q asked) map[string]float64 {
	data, err := atomicfile.ReadLimited(r.Machine.Root.At(logs.TakerMetrics), maxMetrics)
	if err != nil {
		return nil
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(data)) {
		rest, is := strings.CutPrefix(line, logs.ClockAhead+"{node=")
		if !is {
			continue
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			continue
		}
		node, _ := strconv.Unquote(quoted)
		text, is := strings.CutPrefix(rest[len(quoted):], "} ")
		ahead, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if !is || err != nil || !(math.Abs(ahead) > apart) || math.IsInf(ahead, 0) {
			continue
		}
		if len(q.Nodes) == 0 || slices.Contains(q.Nodes, node) {
			out[node] = ahead
		}
	}
	return out
}
