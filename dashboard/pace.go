package dashboard

import (
	"context"
	"sync"
	"time"

	"spore/wire/nodeapi"
)

const (
	// A question is asked again after share times what its answer took, and after soonest to latest: a node that is slow
	// is asked less, and so is one whose answer costs this machine much.
	share           = 60
	soonest, latest = 5 * time.Second, 20 * time.Second
	// An answer is late spare after it is due. Who took longer the last time has that time as well, up to slow, from which
	// on the page says how long it takes: what is old is shown as such within spare and slow, which are less than 10 s.
	spare, slow = stale - every, 5 * time.Second
)

// timing is when a question was sent and answered.
type timing struct {
	Asked, Answered time.Time
	// Pause is from this question to the next.
	Pause time.Duration
}

// timed is the timing of a question that is asked again after least or later.
func timed(asked, answered time.Time, least time.Duration) timing {
	took := max(answered.Sub(asked), 0)
	return timing{asked, answered, min(max(share*took, least), max(latest, least))}
}

func (t timing) took() time.Duration { return max(t.Answered.Sub(t.Asked), 0) }

// late is from when on the next answer is: what was said is old then.
func (t timing) late() time.Time { return t.Asked.Add(t.Pause + spare + min(t.took(), slow)) }

// gone are the nodes that an answer came from of which nothing was heard since, although they were asked.
func (v View) gone(t Told, now time.Time) []string {
	var out []string
	for _, n := range v.Nodes {
		if t.From[n.Name] && n.gone(t.Answered, now) {
			out = append(out, n.Name)
		}
	}
	return out
}

// gone tells whether the node says nothing any more since it was heard at a time.
func (n Node) gone(heard, now time.Time) bool {
	return n.Problem != nil && n.Failed.After(heard) || !n.Answered.IsZero() && now.Sub(n.last(heard)) > stale
}

func (n Node) last(heard time.Time) time.Time {
	if n.Answered.After(heard) {
		return n.Answered
	}
	return heard
}

// inquiry is a question for the page of a service. It notes which nodes have answered.
type inquiry struct {
	*Watcher
	mu   sync.Mutex
	from map[string]bool
}

func (q *inquiry) note(node string, err error) {
	if err != nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.from[node] = true
}

// verb has the first node with a role that answers carry out a verb that looks.
func (q *inquiry) verb(ctx context.Context, role, verb string, o nodeapi.Order) (Reply, error) {
	r, err := q.asker.Verb(ctx, role, verb, o)
	q.note(r.Node, err)
	return r, err
}

// on has one node carry out a verb that looks.
func (q *inquiry) on(ctx context.Context, node, verb string, o nodeapi.Order) (Reply, error) {
	r, err := q.asker.On(ctx, node, verb, o)
	q.note(node, err)
	return r, err
}

// metrics asks a node for what it measures.
func (q *inquiry) metrics(ctx context.Context, node string) ([]byte, error) {
	data, err := q.asker.Metrics(ctx, node)
	q.note(node, err)
	return data, err
}
