// Package feed writes the lines of the store's queue into VictoriaLogs, and is past them only when VictoriaLogs has
// them on its disk: it acknowledges what it has in memory, and writes that down some seconds later. A process of it
// that has taken something and is still there half a minute after has written it; where another one is there,
// everything that is not certain is sent again.
//
// What is sent twice is there twice; whoever asks leaves out entries of one node with the same cursor.
package feed

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"spore/agent/logs/spool"
	"spore/storage/atomicfile"
)

const (
	// settled is how long after VictoriaLogs has taken lines they are on its disk: it gathers them for up to 1 s, keeps
	// them in memory for 5 s (-inmemoryDataFlushInterval), looks for those each 5 s, and writes.
	settled = 30 * time.Second
	// lookEvery is how often it is asked how it is, and linger how long small batches are put together.
	lookEvery, linger = 5 * time.Second, 250 * time.Millisecond
	// small is a batch that is worth waiting for more, in bytes.
	small = 256 << 10
	// firstWait and mostWait are how long it waits before it tries again.
	firstWait, mostWait = time.Second, 15 * time.Second
	// sendBound is for one request.
	sendBound = time.Minute
	// maxAnswer bounds what is read of an answer, in bytes, and maxPassword the file of the password.
	maxAnswer, maxPassword = 4 << 20, 4 << 10
	// sayEvery is how often it is said that nothing can be written.
	sayEvery = time.Minute
	// maxPending bounds the batches that are not certain yet.
	maxPending = 1 << 14
)

// path is where lines are written, with the fields by which VictoriaLogs sorts them into streams.
const path = "/insert/jsonline?_stream_fields=" +
	"node,_SPORE_SOURCE,_SYSTEMD_UNIT,KUBERNETES_NAMESPACE,KUBERNETES_POD,KUBERNETES_CONTAINER"

// Queue is the queue as this consumer has it (spool.Reader).
type Queue interface {
	Next(ctx context.Context) (spool.Batch, error)
	Done(spool.Batch) error
	Rewind()
}

// Options are what a feeder is given.
type Options struct {
	Queue Queue
	// URL is VictoriaLogs, without a slash at the end; User and PasswordFile are how it knows who asks.
	URL, User, PasswordFile string
	// Say is told what goes wrong.
	Say func(string)
	// Settled, Look, Linger and Wait are other times than the usual, for tests; 0 are the usual.
	Settled, Look, Linger, Wait time.Duration
}

// Feeder writes into one VictoriaLogs.
type Feeder struct {
	o      Options
	client *http.Client
	// process is which process of VictoriaLogs has taken what is pending; looked is when it was there last.
	process state
	looked  time.Time
	// full is when its disk was full last.
	full    time.Time
	pending []sent
	// next is what it has not taken yet.
	next *spool.Batch

	mu     sync.Mutex
	counts Counts
	said   time.Time
}

// sent is a batch that VictoriaLogs has taken.
type sent struct {
	batch spool.Batch // without the lines
	at    time.Time
}

// Counts are what became of lines since the start.
type Counts struct {
	// Sent were taken, Certain are on the disk of VictoriaLogs, Again were sent once more, and Refused were never taken.
	Sent, Certain, Again, Refused int64
	// Failures are how often VictoriaLogs was away or took nothing.
	Failures int64
	// ReadOnly tells that its disk is full.
	ReadOnly bool
}

// New makes a feeder.
func New(o Options) *Feeder {
	for _, d := range []struct {
		of    *time.Duration
		usual time.Duration
	}{{&o.Settled, settled}, {&o.Look, lookEvery}, {&o.Linger, linger}, {&o.Wait, firstWait}} {
		if *d.of == 0 {
			*d.of = d.usual
		}
	}
	transport := &http.Transport{MaxIdleConns: 2, IdleConnTimeout: time.Minute, DisableCompression: true, Proxy: nil}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Feeder{o: o, client: &http.Client{Transport: transport, CheckRedirect: stay}}
}

// Counts tells what became of lines.
func (f *Feeder) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

func (f *Feeder) count(change func(*Counts)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.counts)
}

// Run writes until the context ends, whose error it returns.
func (f *Feeder) Run(ctx context.Context) error {
	wait := f.o.Wait
	for {
		err := f.step(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, spool.ErrClosed) {
			return err
		}
		if err == nil {
			wait = f.o.Wait
			continue
		}
		f.complain(err)
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, max(mostWait, f.o.Wait))
	}
}

// step writes a batch, or looks how VictoriaLogs is.
func (f *Feeder) step(ctx context.Context) error {
	if f.looked.IsZero() || time.Since(f.looked) >= f.o.Look || len(f.pending) >= maxPending {
		if err := f.look(ctx); err != nil {
			return err
		}
		if len(f.pending) >= maxPending {
			return sleep(ctx, f.o.Look)
		}
	}
	if f.next == nil {
		soon, stop := context.WithTimeout(ctx, f.o.Look)
		defer stop()
		b, err := f.o.Queue.Next(soon)
		if errors.Is(err, context.DeadlineExceeded) {
			return nil // Nothing has come; it is time to look.
		}
		if err != nil {
			return fmt.Errorf("read the queue: %w", err)
		}
		f.next = &b
	}
	b := *f.next
	if err := f.deliver(ctx, b.Lines); err != nil {
		return err
	}
	f.next = nil
	size := len(b.Lines)
	b.Lines = nil
	f.pending = append(f.pending, sent{b, time.Now()})
	if size < small {
		return sleep(ctx, f.o.Linger)
	}
	return nil
}

// uncertain is how many lines are pending.
func (f *Feeder) uncertain() int64 {
	var n int64
	for _, s := range f.pending {
		n += int64(s.batch.Count)
	}
	return n
}

// deliver has VictoriaLogs take lines. Of those that it does not understand the others are found, half by half.
func (f *Feeder) deliver(ctx context.Context, lines []byte) error {
	short, stop := context.WithTimeout(ctx, sendBound)
	defer stop()
	count := int64(bytes.Count(lines, []byte("\n")))
	status, answer, err := f.ask(short, http.MethodPost, path, lines, func(body io.Reader) (string, error) {
		text, err := io.ReadAll(io.LimitReader(body, 300))
		return string(text), err
	})
	switch {
	case err != nil:
		return fmt.Errorf("write into VictoriaLogs: %w", err)
	case status/100 == 2:
		f.count(func(c *Counts) { c.Sent += count })
		return nil
	case status == http.StatusBadRequest && count > 1:
		half := middle(lines)
		if err := f.deliver(ctx, lines[:half]); err != nil {
			return err
		}
		return f.deliver(ctx, lines[half:])
	case status == http.StatusBadRequest: // It has not understood the line, and never will.
		f.say(fmt.Sprintf("VictoriaLogs refuses a line for ever: %q", answer))
		f.count(func(c *Counts) { c.Refused++ })
		return nil
	case status == http.StatusTooManyRequests:
		f.isFull()
		return errFull
	}
	return fmt.Errorf("write into VictoriaLogs: it answers %d: %q", status, answer)
}

// middle is where the line ends that has the middle of some lines; one line at least is behind it.
func middle(lines []byte) int {
	half := len(lines) / 2
	if i := bytes.IndexByte(lines[half:], '\n'); half+i+1 < len(lines) {
		return half + i + 1
	}
	return bytes.LastIndexByte(lines[:half], '\n') + 1
}

// errFull is what VictoriaLogs says by 429, and by a metric.
var errFull = errors.New("VictoriaLogs takes nothing: its disk is full; " +
	"what comes waits in the queue, and then on the nodes")

func (f *Feeder) isFull() {
	f.full = time.Now()
	f.count(func(c *Counts) { c.ReadOnly = true })
}

// state is what VictoriaLogs says of itself.
type state struct {
	// start is when the process started; taken are the lines that it has taken since.
	start, taken float64
	readOnly     bool
}

// sameAs tells whether it is still the process that it was.
func (s state) sameAs(before state) bool { return s.start == before.start && s.taken >= before.taken }

// look asks VictoriaLogs how it is: what it took long enough ago is certain when it is still the same process.
func (f *Feeder) look(ctx context.Context) error {
	begin := time.Now()
	now, err := f.state(ctx)
	if err != nil {
		return err
	}
	if !f.looked.IsZero() && !now.sameAs(f.process) {
		f.again()
	}
	f.process, f.looked = now, begin
	if now.readOnly {
		f.isFull()
		return errFull
	}
	f.count(func(c *Counts) { c.ReadOnly = false })
	if !f.full.IsZero() && begin.Sub(f.full) < f.o.Settled {
		return nil // Who knows what it could write meanwhile.
	}
	for len(f.pending) > 0 && begin.Sub(f.pending[0].at) >= f.o.Settled {
		b := f.pending[0].batch
		if err := f.o.Queue.Done(b); err != nil {
			return fmt.Errorf("keep the position in the queue: %w", err)
		}
		f.pending = f.pending[1:]
		f.count(func(c *Counts) { c.Certain += int64(b.Count) })
	}
	return nil
}

// again has everything that is not certain read from the queue once more.
func (f *Feeder) again() {
	n := f.uncertain()
	if n > 0 {
		f.o.Say(fmt.Sprintf("VictoriaLogs was started again: %d lines that it may not have written are sent again", n))
	}
	f.count(func(c *Counts) { c.Again += n })
	f.pending, f.next = nil, nil
	f.o.Queue.Rewind()
}

// state reads the metrics of VictoriaLogs.
func (f *Feeder) state(ctx context.Context) (state, error) {
	ctx, stop := context.WithTimeout(ctx, sendBound)
	defer stop()
	var s state
	status, _, err := f.ask(ctx, http.MethodGet, "/metrics", nil, func(body io.Reader) (_ string, err error) {
		s, err = parseState(io.LimitReader(body, maxAnswer))
		return "", err
	})
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("it answers %d", status)
	}
	if err == nil && s.start == 0 {
		err = errors.New("it does not say when it was started")
	}
	if err != nil {
		return s, fmt.Errorf("ask VictoriaLogs how it is: %w", err)
	}
	return s, nil
}

// parseState finds what it needs in the text format of Prometheus.
func parseState(r io.Reader) (state, error) {
	var s state
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		name, text, found := cutLast(lines.Text())
		value, err := strconv.ParseFloat(text, 64)
		switch {
		case !found || err != nil:
		case name == "process_start_time_seconds":
			s.start = value
		case name == `vl_rows_ingested_total{type="jsonline"}`:
			s.taken = value
		case strings.HasPrefix(name, "vl_storage_is_read_only"):
			s.readOnly = s.readOnly || value != 0
		}
	}
	return s, lines.Err()
}

func cutLast(line string) (name, value string, found bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 {
		return "", "", false
	}
	return line[:i], line[i+1:], true
}

// ask sends a request, and has the answer read.
func (f *Feeder) ask(
	ctx context.Context, method, path string, body []byte, read func(io.Reader) (string, error),
) (status int, text string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, f.o.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	// It is read each time: the node may have been given another one.
	password, err := atomicfile.ReadLimited(f.o.PasswordFile, maxPassword)
	if err != nil {
		return 0, "", fmt.Errorf("read the password: %w", err)
	}
	r.SetBasicAuth(f.o.User, strings.TrimSpace(string(password)))
	answer, err := f.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err = read(answer.Body)
	return answer.StatusCode, text, err
}

// complain says what is wrong, now and then.
func (f *Feeder) complain(err error) {
	f.count(func(c *Counts) { c.Failures++ })
	f.say(err.Error())
}

// say says something, unless something was said just now.
func (f *Feeder) say(text string) {
	f.mu.Lock()
	quiet := !f.said.IsZero() && time.Since(f.said) < sayEvery
	if !quiet {
		f.said = time.Now()
	}
	f.mu.Unlock()
	if !quiet {
		f.o.Say(text)
	}
}

// sleep waits, or returns the error of a context that ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
