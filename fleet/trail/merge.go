package trail

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"spore/wire/nodeapi"
)

// Call is what all nodes know of one call, as --json prints it.
type Call struct {
	nodeapi.TrailRecord
	// Ended is when the result was known; zero when no node knows one.
	Ended time.Time `json:"ended,omitzero"`
	// Kept are the nodes that have a record of it, sorted.
	Kept []string `json:"kept"`
	// Lost is true where the node itself has answered, and has no record of it any more.
	Lost bool `json:"lost,omitempty"`
}

// Merge puts together what nodes have answered. Each call is there once, in the order of time. A record that came
// twice, or from two nodes, is one; where two nodes differ, the one that was asked to do it is believed.
func Merge(answers map[string][]nodeapi.TrailRecord) []Call {
	type key struct{ node, id string }
	type halves struct {
		begun, ended *nodeapi.TrailRecord
		kept         []string
	}
	calls := map[key]*halves{}
	for _, keeper := range slices.Sorted(maps.Keys(answers)) {
		for _, r := range answers[keeper] {
			h := calls[key{r.Node, r.ID}]
			if h == nil {
				h = &halves{}
				calls[key{r.Node, r.ID}] = h
			}
			if !slices.Contains(h.kept, keeper) {
				h.kept = append(h.kept, keeper)
			}
			half := &h.ended
			if r.Stage == nodeapi.Begun {
				half = &h.begun
			}
			if *half == nil || keeper == r.Node {
				*half = &r
			}
		}
	}
	out := make([]Call, 0, len(calls))
	for k, h := range calls {
		c := Call{Kept: h.kept}
		if h.ended != nil {
			c.TrailRecord, c.Ended = *h.ended, h.ended.Time
		}
		if h.begun != nil {
			stage, result := c.Stage, c.Result
			c.TrailRecord = *h.begun
			if h.ended != nil {
				c.Stage, c.Result = stage, result
			}
		}
		_, answered := answers[k.node]
		c.Lost = answered && !slices.Contains(h.kept, k.node)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Call) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID))
	})
	return out
}
