package push

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"spore/wire/nodeapi"
	"spore/wire/update"
)

// sayEvery is after how many sent bytes a person is told.
const sayEvery = 64 << 20

// Sender brings an update to nodes, in as many messages as each of them needs.
type Sender struct {
	Update *Update
	// Post brings a message to a node and returns its answer.
	Post func(ctx context.Context, node string, message io.Reader) (update.Answer, error)
	// Waits are how long it waits before it tries again where a connection breaks, and how often: it begins anew with
	// what the node has taken in the meantime.
	Waits []time.Duration
	// Say is told what goes on.
	Say func(node, text string)
}

// Waits are those for networks of all kinds.
func Waits() []time.Duration {
	return []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second}
}

// lost is an error of the way to a node.
type lost struct{ err error }

func (l lost) Error() string { return l.err.Error() }
func (l lost) Unwrap() error { return l.err }

// journey is an update on its way to one node.
type journey struct {
	Sender
	node string
	// answered says that the node has answered once, least is the least that it lacked of pieces, -1 before it knew;
	// broken counts what went wrong since, and said is of how many sent bytes a person was told.
	answered bool
	least    int64
	broken   int
	said     int64
}

// Send sends the update to a node until it lacks nothing, and goes on after a connection that broke. An answer with an
// error of the node is no error.
func (s Sender) Send(ctx context.Context, node string) (update.Answer, error) {
	j := journey{Sender: s, node: node, least: -1}
	for {
		j.said = 0
		a, err := update.Transfer{Head: s.Update.Signed, Object: s.Update.Object, Send: j.post, Progress: j.progress}.Run(ctx)
		var l lost
		if !errors.As(err, &l) || ctx.Err() != nil || !j.worthAnother(l.err) {
			return a, err
		}
		if j.broken == len(s.Waits) {
			return a, fmt.Errorf("%w; the node keeps what it has: run the command again to go on", err)
		}
		wait := s.Waits[j.broken]
		j.broken++
		s.Say(node, fmt.Sprintf("is tried again in %s: %v", wait, err))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return a, ctx.Err()
		}
	}
}

func (j *journey) post(ctx context.Context, message io.Reader) (update.Answer, error) {
	a, err := j.Post(ctx, j.node, message)
	if err != nil {
		return a, lost{err}
	}
	j.answered = true
	return a, nil
}

// worthAnother tells whether a node may take it the next time: it is busy, or the connection broke. One that never
// answered is likely to be off.
func (j *journey) worthAnother(err error) bool {
	var r nodeapi.Refusal
	if errors.As(err, &r) {
		return r.Status == http.StatusServiceUnavailable
	}
	return j.answered
}

// progress tells a person how far it is. A node that lacks an index does not know yet what else it lacks.
func (j *journey) progress(l update.Lack, sent int64) {
	if slices.ContainsFunc(l.Objects, j.Update.isIndex) {
		return
	}
	if j.least < 0 {
		j.Say(j.node, fmt.Sprintf("lacks %s pieces, %s", grouped(l.Count), mebibytes(l.Bytes)))
	}
	if j.least < 0 || l.Bytes < j.least {
		j.least, j.broken = l.Bytes, 0
	}
	if sent-j.said >= sayEvery {
		j.said = sent
		j.Say(j.node, fmt.Sprintf("was sent %s, and lacks %s", mebibytes(sent), mebibytes(l.Bytes)))
	}
}

// mebibytes is a number of bytes for people.
func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// grouped is a number with a comma after each three digits from its end.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
