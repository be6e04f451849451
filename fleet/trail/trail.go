// Package trail asks the nodes who had them change something, and what came of it.
package trail

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"spore/cluster/facts"
	"spore/fleet"
	"spore/fleet/duration"
	"spore/wire/nodeapi"
)

// maxRecords bounds what is read of one node's answer: its own two files and those of others, in records.
const maxRecords = 200_000

// Question says which calls are asked for. What is empty leaves nothing out.
type Question struct {
	Nodes []string
	User  string
	// Since is how far to look back, such as 12h or 30d.
	Since string
}

// Answer is what came of a question.
type Answer struct {
	// Calls are in the order of time.
	Calls []Call
	// Failed says by node why it does not answer; what it alone has is missing. Asked is how many were asked.
	Failed map[string]error
	Asked  int
}

// Ask asks all nodes, for each keeps records of others. An error is one of the question.
func Ask(ctx context.Context, c *fleet.Cluster, show Question, now time.Time) (Answer, error) {
	back, err := duration.Parse(show.Since)
	if err != nil {
		return Answer{}, err
	}
	q := nodeapi.Request{Path: nodeapi.TrailPath, Query: url.Values{
		nodeapi.TrailSince: {now.Add(-back).UTC().Format(time.RFC3339)},
	}}
	answers := fleet.Each(ctx, c, func(ctx context.Context, n facts.Node) ([]nodeapi.TrailRecord, error) {
		return ask(ctx, &c.Client, n.Name, q, show)
	})
	kept, failed := map[string][]nodeapi.TrailRecord{}, map[string]error{}
	for _, a := range answers {
		if a.Err != nil {
			failed[a.Node.Name] = a.Err
			continue
		}
		kept[a.Node.Name] = a.Value
	}
	return Answer{Calls: Merge(kept), Failed: failed, Asked: len(answers)}, nil
}

// ask reads what one node has of the calls that are to be shown.
func ask(
	ctx context.Context, c *nodeapi.Client, node string, q nodeapi.Request, show Question,
) (out []nodeapi.TrailRecord, err error) {
	body, err := c.Ask(ctx, node, q)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	seen := 0
	_, err = nodeapi.ReadTrail(body, func(r nodeapi.TrailRecord) error {
		if seen++; seen > maxRecords {
			return fmt.Errorf("it has more than %d records; look back for a shorter time (--since)", maxRecords)
		}
		if (len(show.Nodes) == 0 || slices.Contains(show.Nodes, r.Node)) && (show.User == "" || show.User == r.User) {
			out = append(out, r)
		}
		return nil
	})
	return out, err
}

// What is the call in words: its name, and what it was given.
func (c Call) What() string {
	words := []string{c.Call}
	for _, name := range slices.Sorted(maps.Keys(c.Arguments)) {
		words = append(words, name+"="+c.Arguments[name])
	}
	if c.Force != "" {
		words = append(words, "force="+c.Force)
	}
	if c.Confirm != "" {
		words = append(words, "confirm="+c.Confirm)
	}
	if c.DryRun {
		words = append(words, "(dry run)")
	}
	return strings.Join(words, " ")
}

// Outcome says what came of a call. A node that restarts for it cannot say so any more.
func (c Call) Outcome() string {
	switch {
	case c.Ended.IsZero():
		return "not known: it goes on, or the node stopped meanwhile"
	case c.Stage == nodeapi.Erred:
		return "failed: " + c.Result
	}
	return c.Result
}

// Remarks says where a record is, if it is not on the node.
func (c Call) Remarks() string {
	if slices.Contains(c.Kept, c.Node) {
		return ""
	}
	kept := "only " + strings.Join(c.Kept, " and ") + " has it"
	if len(c.Kept) > 1 {
		kept = "only " + strings.Join(c.Kept, " and ") + " have it"
	}
	if c.Lost {
		return kept + "; " + c.Node + " answers, and has lost it"
	}
	return kept + "; " + c.Node + " does not answer"
}
