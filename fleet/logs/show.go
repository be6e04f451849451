package logs

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"spore/fleet"
	"spore/wire/nodeapi"
)

const (
	// atOnce is how many nodes are asked at a time for what they have; all are followed at the same time.
	atOnce = 16
	// settle is how long a followed line waits for an earlier one of another node.
	settle = time.Second
	// apart is how far two clocks may be from each other.
	apart = 2 * time.Second
	// slow is when a node that has not answered to its end lets the next one be asked: most such nodes are off.
	slow = time.Second
	// longest is how long a node that does not follow may answer.
	longest = 15 * time.Minute
	// again is how long a follower waits before it asks a node again that has gone.
	again = 5 * time.Second
)

// line is an entry of the journal of a node.
type line struct {
	node  string
	entry nodeapi.Entry
	// raw is the entry as the node sent it.
	raw []byte
}

// Output is where lines go, and what a person is to know of the answer.
type Output struct {
	Lines *bufio.Writer
	Said  io.Writer
	// JSON has a line be the entry as an object.
	JSON bool
}

// Show asks the stores, or the nodes, and writes what they answer.
func Show(ctx context.Context, c *fleet.Cluster, out Output, asks []Ask, stores []string, o *Options) error {
	p := &printer{out: out.Lines, said: out.Said, cluster: c.Facts.Name, asJSON: out.JSON}
	if o.Several {
		for _, a := range asks {
			p.width = max(p.width, len(a.node))
		}
	}
	s := session{Cluster: c, printer: p, asks: asks}
	return s.search(ctx, stores, o)
}

// search asks the stores, or the nodes, and gives their lines to the printer.
func (s *session) search(ctx context.Context, stores []string, o *Options) error {
	if len(stores) > 0 {
		answered, err := s.store(ctx, stores, o.Sources, o.Since != "" || o.Around != "")
		if answered || ctx.Err() != nil {
			return err
		}
		if o.OnlyStore() {
			return fmt.Errorf("%w; the nodes themselves do not have that", err)
		}
		s.say("%v; the nodes are asked themselves", err)
	}
	for i := range s.asks {
		s.asks[i].Logs = direct(s.asks[i].Logs)
		if s.share > 0 {
			s.asks[i].Lines = min(s.asks[i].Lines, s.share)
		}
	}
	if o.Follow {
		return s.follow(ctx)
	}
	return s.all(ctx)
}

// session is one call of the command.
type session struct {
	*fleet.Cluster
	*printer
	asks []Ask
	// share is how many lines each node is asked for at most where the nodes are asked themselves; 0 is no bound.
	share int
	// from is the node whose store has answered.
	from string
}

// room is how much of each of so many answers is kept, in bytes.
func (s *session) room(answers int) int64 {
	if s.share == 0 {
		return maxKept
	}
	return max(1<<20, min(maxKept, maxPage/int64(max(1, answers))))
}

// stream reads the journal of one node as it comes. begun is called when the answer begins.
func (s *session) stream(ctx context.Context, a Ask, begun func(), each func(line) error) error {
	r := nodeapi.Request{Path: nodeapi.LogsPath, Query: a.Values(), Begun: func(h http.Header) {
		s.compareClocks(a.node, h, time.Now())
		begun()
	}}
	return s.Stream(ctx, a.node, r, max(s.Timeout, silence), func(r io.Reader) error {
		return nodeapi.ReadEntries(r, func(raw []byte, e nodeapi.Entry) error { return each(line{a.node, e, raw}) })
	})
}

// all prints what the nodes have, in the order of time, and says which did not answer.
func (s *session) all(ctx context.Context) error {
	kept, err := newSpool(s.asks, s.room(len(s.asks)))
	if err != nil {
		return err
	}
	defer kept.close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	failed := make([]error, len(s.asks))
	room := make(chan struct{}, atOnce)
	var readers sync.WaitGroup
	for i, a := range s.asks {
		readers.Go(func() {
			room <- struct{}{}
			leave := sync.OnceFunc(func() { <-room })
			defer leave()
			defer time.AfterFunc(slow, leave).Stop()
			ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("its answer has no end after %s", longest))
			defer cancel()
			failed[i] = s.stream(ctx, a, func() {}, func(l line) error {
				err := kept.files[i].add(l)
				if errors.Is(err, errSpool) {
					stop(err) // That is not the node's fault, and the others' lines have no room either.
				}
				return err
			})
		})
	}
	readers.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := kept.merge(s.until(ctx)); err != nil {
		return err
	}
	silent := 0
	for i, a := range s.asks {
		switch n := kept.files[i].lines; {
		case failed[i] != nil:
			silent++
			if len(s.asks) > 1 {
				s.say("%s: %v", a.node, failed[i])
			}
		case n == 0 && a.Lines > 0 && len(s.asks) == 1:
			s.say("the journal of %s has no %s", a.node, what(a.Units()))
		case n >= nodeapi.MaxLines:
			s.say("%s: these are its last %d lines; choose a later --since or an earlier --until to see others", a.node, n)
		}
	}
	switch {
	case silent == 0:
		return nil
	case len(s.asks) == 1:
		return fmt.Errorf("%s: %w", s.asks[0].node, failed[0])
	}
	return fmt.Errorf("%d of %d nodes did not answer, or not to the end", silent, len(s.asks))
}

func what(units []string) string {
	if len(units) == 0 {
		return "such entry"
	}
	return "such entry of " + strings.Join(units, ", ")
}

// follow prints what the nodes write, in the order of time as far as they say it within a second, until it is
// interrupted. One node alone that ends its answer ends the command; of several, each is asked again.
func (s *session) follow(ctx context.Context) error {
	end, err := s.certificateEnds()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadlineCause(ctx, end, errEnded)
	defer cancel()
	lines := make(chan line, 64)
	ended := make(chan error, len(s.asks))
	var readers sync.WaitGroup
	for _, a := range s.asks {
		readers.Go(func() { ended <- s.pursue(ctx, a, lines) })
	}
	defer readers.Wait()
	defer cancel()
	order := sorter{settle: settle}
	if len(s.asks) == 1 {
		order.settle = 0
	}
	tick := time.NewTicker(settle / 10)
	defer tick.Stop()
	left := len(s.asks)
	for {
		select {
		case l := <-lines:
			order.add(l, time.Now())
			if !order.full() {
				continue
			}
			if err := s.flush(order.due(time.Now())); err != nil {
				return err
			}
		case err := <-ended:
			if left--; left == 0 {
				for len(lines) > 0 {
					order.add(<-lines, time.Now())
				}
				if cause := context.Cause(ctx); errors.Is(cause, errEnded) {
					err = fmt.Errorf("%w at %s; call the command again", errEnded, end.UTC().Format(time.RFC3339))
				}
				return errors.Join(s.flush(order.rest()), err)
			}
		case <-tick.C:
			if err := s.flush(order.due(time.Now())); err != nil {
				return err
			}
		}
	}
}

func (s *session) flush(lines []line) error {
	for _, l := range lines {
		if err := s.print(l); err != nil {
			return err
		}
	}
	return s.out.Flush()
}

// errEnded is the cause of the end of a command that follows for longer than its certificate holds.
var errEnded = errors.New("the certificate that the nodes are asked with has ended")

// certificateEnds is when the certificate does that the nodes are asked with.
func (s *session) certificateEnds() (time.Time, error) {
	id, err := s.Client.Identity()
	if err != nil {
		return time.Time{}, err
	}
	pair, err := tls.X509KeyPair(id.Certificate, id.Key)
	if err != nil {
		return time.Time{}, fmt.Errorf("the certificate that the nodes are asked with: %w", err)
	}
	return pair.Leaf.NotAfter, nil
}

// pursue follows one node, and asks it again when it goes: from behind the last line that it has sent. Why it does not
// answer is said once.
func (s *session) pursue(ctx context.Context, a Ask, to chan<- line) error {
	var read place
	told := ""
	for {
		err := s.stream(ctx, a, func() { told = "" }, func(l line) error {
			l.raw = bytes.Clone(l.raw)
			if !read.pass(l, time.Now()) {
				return nil
			}
			if !read.at.IsZero() {
				a.Since, a.Lines = read.at, nodeapi.MaxLines
			}
			select {
			case to <- l:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if ctx.Err() != nil {
			return nil // That is how it ends.
		}
		if err == nil {
			err = errors.New("it has ended the answer; is it stopping, or has the certificate ended?")
		}
		if len(s.asks) == 1 {
			return fmt.Errorf("%s: %w", a.node, err)
		}
		if text := err.Error(); text != told {
			s.say("%s: %s; it is asked again", a.node, text)
			told = text
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(again):
		}
	}
}

// compareClocks says when the clock of a node is not that of this machine, by the time in the header of its answer
// (RFC 9110, section 6.6.1), which has whole seconds.
func (s *session) compareClocks(node string, h http.Header, now time.Time) {
	at, err := http.ParseTime(h.Get("Date"))
	if err != nil || len(s.asks) == 1 {
		return
	}
	switch ahead := at.Sub(now).Round(time.Second); {
	case ahead > apart:
		s.say("%s: its clock is %s ahead of this machine's", node, ahead)
	case ahead < -apart:
		s.say("%s: its clock is %s behind this machine's", node, -ahead)
	}
}

// printer writes lines.
type printer struct {
	out     *bufio.Writer
	cluster string
	asJSON  bool
	// width is that of the column of nodes; 0 is none.
	width int
	// take is given the lines where they are not written.
	take func(line) error

	mu   sync.Mutex
	said io.Writer
}

// say tells the person something that is no line of a journal.
func (p *printer) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.said, nodeapi.Harmless(fmt.Sprintf(format, args...)))
}

// until prints lines until somebody has seen enough.
func (p *printer) until(ctx context.Context) func(line) error {
	return func(l line) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return p.print(l)
	}
}

func (p *printer) print(l line) error {
	var err error
	switch {
	case p.take != nil:
		err = p.take(l)
	case p.asJSON && p.width > 0:
		err = p.object(l)
	case p.asJSON:
		_, err = fmt.Fprintf(p.out, "%s\n", nodeapi.HarmlessJSON(l.raw))
	case p.width > 0:
		_, err = fmt.Fprintf(p.out, "%-*s  %s\n", p.width, l.node, l.entry)
	default:
		_, err = fmt.Fprintln(p.out, l.entry)
	}
	return err
}

// object is an entry with where it comes from. A node that says itself that it is another one is not believed:
// of two fields of a name, readers of JSON take the last, so that its own is left out.
func (p *printer) object(l line) error {
	data, err := labelled(l.raw, p.cluster, l.node)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "%s\n", nodeapi.HarmlessJSON(data))
	return err
}
