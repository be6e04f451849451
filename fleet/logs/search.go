package logs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"spore/cluster/facts"
	"spore/fleet"
	"spore/services/logs"
	"spore/wire/nodeapi"
)

// maxMessage is how much of a message a search keeps, in bytes. fewest is how many lines each node is asked for at
// least where the nodes are asked themselves.
const (
	maxMessage = 4096
	fewest     = 100
)

// Question is what a search looks for, in the forms that the flags of `spore logs` have. What is empty leaves nothing
// out.
type Question struct {
	Nodes, Roles, Units                  []string
	Pod, Since, Until, Priority, Pattern string
	// Lines is how many of the last lines are looked for, of all nodes together.
	Lines int
}

// Line is a line that was found or followed.
type Line struct {
	Time time.Time
	Node string
	// Unit is that of systemd, empty for the kernel; of a pod it is empty, and Pod is NAMESPACE/POD/CONTAINER.
	Unit, Pod string
	// Identifier is the program as it calls itself.
	Identifier string
	// Priority is 0 (emergency) to 7 (debug).
	Priority int
	// Message is as the node has it, up to 4 KiB: text from outside.
	Message string
}

// Found is what a search has found.
type Found struct {
	// Lines are in the order of time; they are the last where there were more.
	Lines []Line
	// Since and Until are the bounds that were asked for; Since is zero without one.
	Since, Until time.Time
	// Store is the node whose store has answered; empty where the nodes did themselves. HasStore tells whether the
	// cluster has a store.
	Store    string
	HasStore bool
	// Said is what a person is to know of the answer, such as which node gave none.
	Said []string
	// Problem says that the answer is not whole; nil when it is.
	Problem error
}

// Search looks for lines as `spore logs` does: in the store where the cluster has one, and else at the nodes. An error
// is one of the question.
func Search(ctx context.Context, c *fleet.Cluster, q Question, now time.Time) (Found, error) {
	o := Options{
		Several: true, Roles: q.Roles, Units: q.Units, Pod: q.Pod, Since: q.Since, Until: q.Until, Priority: q.Priority,
		Grep: q.Pattern, Lines: q.Lines, LinesGiven: true,
	}
	if q.Pod != "" && len(q.Units) > 0 {
		return Found{}, fmt.Errorf("a pod is no unit; give one of them")
	}
	asked, err := o.Question(now)
	if err != nil {
		return Found{}, err
	}
	these := *c
	if len(q.Nodes) > 0 {
		for _, name := range q.Nodes {
			if _, err := facts.Find(c.Nodes, name, "cluster.yaml"); err != nil {
				return Found{}, err
			}
		}
		these.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n facts.Node) bool { return !slices.Contains(q.Nodes, n.Name) })
	}
	asks, err := o.Asks(&these, asked, nil)
	if err != nil {
		return Found{}, err
	}
	found := Found{Since: asked.Since, Until: asked.Until, HasStore: logs.Of(c.Facts.Services) != nil && len(c.Facts.Members[logs.Role]) > 0}
	if found.Until.IsZero() {
		found.Until = now
	}
	var said bytes.Buffer
	of := map[string]int{}
	s := session{Cluster: &these, asks: asks, share: max(fewest, q.Lines/len(asks)), printer: &printer{
		out: bufio.NewWriter(io.Discard), said: &said, cluster: c.Facts.Name, take: func(l line) error {
			of[l.node]++
			if found.Lines = append(found.Lines, lineOf(l)); len(found.Lines) >= 2*q.Lines {
				found.Lines = slices.Delete(found.Lines, 0, len(found.Lines)-q.Lines)
			}
			return nil
		},
	}}
	found.Problem = s.search(ctx, o.Stores(&these), &o)
	found.Store = s.from
	if more := len(found.Lines) - q.Lines; more > 0 {
		found.Lines = slices.Delete(found.Lines, 0, more)
	}
	if found.Store == "" {
		for _, a := range s.asks {
			if n := of[a.node]; n >= a.Lines && n > 0 {
				s.say("%s: it has more lines; these are its last %d", a.node, n)
			}
		}
	}
	found.Said = strings.Split(strings.TrimSpace(said.String()), "\n")
	found.Said = slices.DeleteFunc(found.Said, func(text string) bool { return text == "" })
	return found, nil
}

// Follow gives the last lines of a node, and then each line as it is written, until ctx is over, each fails, or the node
// ends its answer.
func Follow(ctx context.Context, c *fleet.Cluster, node string, lines int, each func(Line) error) error {
	s := session{Cluster: c, printer: &printer{out: bufio.NewWriter(io.Discard), said: io.Discard}}
	a := Ask{node: node, Logs: nodeapi.Logs{Lines: lines, Follow: true}}
	return s.stream(ctx, a, func() {}, func(l line) error { return each(lineOf(l)) })
}

// lineOf is a line as others are given it.
func lineOf(l line) Line {
	var of struct {
		Unit      string `json:"_SYSTEMD_UNIT"`
		About     string `json:"UNIT"`
		Namespace string `json:"KUBERNETES_NAMESPACE"`
		Pod       string `json:"KUBERNETES_POD"`
		Container string `json:"KUBERNETES_CONTAINER"`
	}
	_ = json.Unmarshal(l.raw, &of) // A field that is no text stays empty.
	out := Line{Time: l.entry.Time, Node: l.node, Identifier: l.entry.Identifier, Priority: l.entry.Priority, Message: l.entry.Message, Unit: of.Unit}
	if of.Unit == "init.scope" { // Process 1 says something of a unit.
		out.Unit = cmp.Or(of.About, of.Unit)
	}
	if of.Pod != "" {
		out.Pod = of.Namespace + "/" + of.Pod + "/" + of.Container
	}
	if len(out.Message) > maxMessage {
		out.Message = strings.Clone(out.Message[:maxMessage]) + " …"
	}
	return out
}
