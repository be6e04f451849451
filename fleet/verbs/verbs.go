// Package verbs has nodes carry out verbs of their API (nodeapi.Verbs), and takes what they answer within bounds.
package verbs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"spore/cluster/facts"
	"spore/fleet"
	"spore/wire/nodeapi"
)

// silence is after how long without a sign of a node nobody waits for it any more. It gives one every 15 seconds.
const silence = time.Minute

// MaxResults bounds what is kept of one node's results, in bytes, for a command that asks once.
const MaxResults = 64 << 20

// maxSaid bounds the lines that a node says.
const maxSaid = 100_000

// partCost is what keeping a part costs besides its text, in bytes.
const partCost = 64

// Reply is what came of one order.
type Reply struct {
	// Results are the parts of the result, in the form of the verb.
	Results []json.RawMessage
	// Done is what was done, in words.
	Done string
}

// Row is a row of the table, which is known to be there.
func Row(name string) nodeapi.Verb {
	v, found := nodeapi.FindVerb(name)
	if !found {
		panic("internal error: there is no verb " + name)
	}
	return v
}

// Send sends each node its order, all at once, and returns when all have ended. What they say meanwhile goes to out; the
// results of one have at most so many bytes. see, where it is not nil, is called with each part of a result as it comes,
// for one node at a time.
func Send(ctx context.Context, out io.Writer, c *fleet.Cluster, v nodeapi.Verb, most int, order func(facts.Node) nodeapi.Order, see func(node string, part json.RawMessage) error) []fleet.Answer[Reply] {
	var mu sync.Mutex
	shared := *c
	shared.Timeout = max(v.Bound, time.Minute) + silence // That of the connection is held below.
	return fleet.Each(ctx, &shared, func(ctx context.Context, n facts.Node) (Reply, error) {
		t := taking{node: n.Name, mu: &mu, out: out, most: most, see: see}
		body, err := json.Marshal(order(n))
		if err != nil {
			return t.reply, fmt.Errorf("internal error: %w", err)
		}
		q := nodeapi.Request{Method: http.MethodPost, Path: nodeapi.VerbsPath + v.Name, Body: bytes.NewReader(body)}
		err = c.Stream(ctx, n.Name, q, max(c.Timeout, silence), func(r io.Reader) (err error) {
			t.reply.Done, err = nodeapi.ReadEvents(r, t.take)
			return err
		})
		return t.reply, err
	})
}

// maxPage bounds what First keeps of one node, in bytes: it is asked again and again.
const maxPage = 8 << 20

// First has the first node with a role that answers look, and where it fails the next one, of the nodes of c in their
// order. What the nodes say meanwhile goes to out. It is an error with the reason of each node where none has done it.
func First(ctx context.Context, c *fleet.Cluster, role string, v nodeapi.Verb, o nodeapi.Order, out io.Writer) (fleet.Answer[Reply], error) {
	left := *c
	if err := Having(&left, role); err != nil {
		return fleet.Answer[Reply]{}, err
	}
	var problems []error
	for _, n := range left.Nodes {
		one := left
		one.Nodes = []facts.Node{n}
		short, cancel := context.WithTimeout(ctx, c.Timeout)
		err := Answers(short, c, n) // One that is down costs no more than the timeout.
		cancel()
		if err == nil {
			a := Send(ctx, out, &one, v, maxPage, Same(o), nil)[0]
			if a.Err == nil {
				return a, nil
			}
			err = a.Err
		}
		problems = append(problems, fmt.Errorf("%s: %w", n.Name, err))
		if ctx.Err() != nil {
			break
		}
	}
	return fleet.Answer[Reply]{}, errors.Join(problems...)
}

// At has one node look. What it says meanwhile goes to out.
func At(ctx context.Context, c *fleet.Cluster, node string, v nodeapi.Verb, o nodeapi.Order, out io.Writer) (fleet.Answer[Reply], error) {
	one := *c
	one.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n facts.Node) bool { return n.Name != node })
	if len(one.Nodes) != 1 {
		return fleet.Answer[Reply]{}, fmt.Errorf("%s is not asked", node)
	}
	a := Send(ctx, out, &one, v, maxPage, Same(o), nil)[0]
	return a, a.Err
}

// taking takes what one node gives, which is data from outside.
type taking struct {
	node string
	mu   *sync.Mutex
	out  io.Writer
	// most bounds the results in bytes; 0 is MaxResults.
	most  int
	see   func(node string, part json.RawMessage) error
	reply Reply
	// bytes is what the results have, and said counts lines.
	bytes, said int
}

func (t *taking) take(e nodeapi.Event) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case e.Say != "":
		if t.said++; t.said > maxSaid {
			return fmt.Errorf("it says more than %d lines", maxSaid)
		}
		_, err := fmt.Fprintf(t.out, "%s: %s\n", t.node, nodeapi.Harmless(e.Say))
		return err
	case t.see != nil:
		return t.see(t.node, e.Result)
	}
	most := cmp.Or(t.most, MaxResults)
	if t.bytes += len(e.Result) + partCost; t.bytes > most {
		return fmt.Errorf("its results have more than %d MiB", most>>20)
	}
	t.reply.Results = append(t.reply.Results, e.Result)
	return nil
}

// Having reduces the cluster to the nodes with a role. It is an error when there is none.
func Having(c *fleet.Cluster, role string) error {
	c.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n facts.Node) bool { return !slices.Contains(n.Roles, role) })
	if len(c.Nodes) == 0 && len(c.Facts.Members[role]) == 0 {
		return fmt.Errorf("no node that is asked has the role %s, and no other has it; give it to one in cluster.yaml (roles)", role)
	}
	if len(c.Nodes) == 0 {
		return fmt.Errorf("no node that is asked has the role %s", role)
	}
	return nil
}

// Answers asks a node for its status: an error is why it does not answer.
func Answers(ctx context.Context, c *fleet.Cluster, n facts.Node) error {
	_, err := c.Client.Read(ctx, n.Name, nodeapi.Request{Path: nodeapi.StatusPath}, nodeapi.MaxStatus)
	return err
}

// Same is an order for every node.
func Same(o nodeapi.Order) func(facts.Node) nodeapi.Order {
	return func(facts.Node) nodeapi.Order { return o }
}
