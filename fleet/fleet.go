// Package fleet asks the nodes of a running cluster, many at once: for the commands of operators, and for what shows a
// cluster to people. The packages below it each ask for one thing.
package fleet

import (
	"context"
	"strings"
	"sync"
	"time"

	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

// atOnce is how many nodes are asked at once, and slow after how long one that has not answered gives up its place: it
// costs nothing more, and nobody else has to wait for it.
const (
	atOnce = 32
	slow   = 500 * time.Millisecond
)

// Cluster is a cluster whose nodes can be asked.
type Cluster struct {
	Facts facts.Cluster
	// Nodes are those that are to be asked, in the order of cluster.yaml.
	Nodes []facts.Node
	// Client asks them, and Timeout bounds what is asked of one.
	Client  nodeapi.Client
	Timeout time.Duration
}

// RoleName is how people call a role: admin.
func RoleName(r nodeapi.Role) string { return strings.TrimPrefix(string(r), "spore:") }

// Answer is what came of asking one node.
type Answer[T any] struct {
	Node facts.Node
	// Value is the answer, where Err is nil.
	Value T
	Err   error
	// Asked and Answered are this machine's times of the question.
	Asked, Answered time.Time
}

// Each asks every node, many at once and each within the time limit, and returns when all have answered or failed to:
// about a time limit later at the latest, however many are down. The answers are in the order of the nodes.
func Each[T any](ctx context.Context, c *Cluster, ask func(context.Context, facts.Node) (T, error)) []Answer[T] {
	out := make([]Answer[T], len(c.Nodes))
	room := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, n := range c.Nodes {
		all.Go(func() {
			room <- struct{}{}
			leave := sync.OnceFunc(func() { <-room })
			defer leave()
			defer time.AfterFunc(slow, leave).Stop()
			ctx, cancel := context.WithTimeout(ctx, c.Timeout)
			defer cancel()
			a := Answer[T]{Node: n, Asked: time.Now()}
			a.Value, a.Err = ask(ctx, n)
			a.Answered = time.Now()
			out[i] = a
		})
	}
	all.Wait()
	return out
}
