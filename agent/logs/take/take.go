// Package take takes the batches of entries that nodes bring to a store of logs (POST /v1/logs/entries, package
// nodeapi), and answers when they are on the store's disk. It makes of each entry what VictoriaLogs keeps, adds whose
// it is, and leaves out what it has already. One node, whatever it sends, takes neither the memory nor the time of the
// others.
//
// Who brings a batch is told by the node's API, which has seen the certificate, in a header.
package take

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"spore/agent/logs/spool"
	"spore/wire/journalexport"
	"spore/wire/nodeapi"
)

const (
	// maxPart is how many bytes of lines go to the disk at once.
	maxPart = 4 << 20
	// atOnce is how many batches are unpacked at the same time, and maxHeld what all that are here have in memory, in
	// bytes, as they came and as lines.
	atOnce  = 2
	maxHeld = 40 << 20
	// readBound is how long a batch may take to come.
	readBound = 30 * time.Second
	// takeBound is how long it may take to be on disk.
	takeBound = 2 * time.Minute
	// maxQueue is how many batches of one node wait for the one before; waitBound is for how long.
	maxQueue  = 4
	waitBound = 10 * time.Second
	// rate is how many bytes a second one node may bring, before they are packed, and burst how many at once: a node that
	// has waited for a day brings what it has within minutes.
	rate, burst = 4 << 20, 32 << 20
	// maxNodes bounds how many nodes are counted.
	maxNodes = 1024
	// maxNode bounds the name of a node in bytes.
	maxNode = 128
)

// How long a node is told to wait.
const (
	soon  = 1
	later = 5
)

// Queue is where lines are kept (package spool).
type Queue interface {
	AppendMarked(ctx context.Context, lines []byte, marks []spool.Mark) error
	Mark(group, id string) uint64
}

// Options are what a taker is given.
type Options struct {
	Queue Queue
	// Cluster is the cluster's name. Roles are those of its nodes, separated by commas.
	Cluster string
	Roles   map[string]string
	// Days is for how many days the store keeps entries.
	Days int
	// Say is told what goes wrong.
	Say func(string)
	// Now is time.Now but in tests.
	Now func() time.Time
}

// Taker answers nodes. It is an http.Handler.
type Taker struct {
	o        Options
	decoders chan *zstd.Decoder

	mu    sync.Mutex
	held  int
	nodes map[string]*node
	said  map[string]time.Time
}

// node is what is known of one that brings batches.
type node struct {
	// turn is held by the batch that is taken; queue are those that are here.
	turn  chan struct{}
	queue int
	// left is what it may bring at once as of at.
	left float64
	at   time.Time
	// ahead is by how much its clock is before that of the store, as of heard; heard is zero where it has not said.
	ahead time.Duration
	heard time.Time
	counts
}

// counts are what became of a node's entries.
type counts struct{ lines, bytes, twice, malformed, clamped, cut, refused int64 }

// New makes a taker.
func New(o Options) (*Taker, error) {
	t := &Taker{o: o, decoders: make(chan *zstd.Decoder, atOnce), nodes: map[string]*node{}, said: map[string]time.Time{}}
	for range atOnce {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(nodeapi.MaxEntries),
			zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, fmt.Errorf("internal error: %w", err)
		}
		t.decoders <- d
	}
	return t, nil
}

// refusal is an answer other than 204.
type refusal struct {
	status int
	// after is for how many seconds the node is to wait; 0 where it is not to ask again.
	after int
	why   string
}

func (r *refusal) Error() string { return r.why }

// ServeHTTP takes a batch.
func (t *Taker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.Header.Get(nodeapi.EntriesOf)
	if r.Method != http.MethodPost || r.URL.Path != nodeapi.EntriesPath || name == "" || len(name) > maxNode {
		http.Error(w, "there is nothing here", http.StatusNotFound)
		return
	}
	t.compareClock(name, r.Header.Get("Date"))
	err := t.serve(w, r, name)
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	no := &refusal{http.StatusServiceUnavailable, later, err.Error()}
	errors.As(err, &no)
	if no.after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(no.after))
	}
	t.count(name, func(c *counts) { c.refused++ })
	http.Error(w, no.why, no.status)
}

// serve takes a batch of a node, one after the other.
func (t *Taker) serve(w http.ResponseWriter, r *http.Request, name string) error {
	if err := checkForm(r); err != nil {
		return err
	}
	n, err := t.enter(name)
	if err != nil {
		return err
	}
	defer t.leave(n)
	wait := time.NewTimer(waitBound)
	defer wait.Stop()
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-wait.C:
		return &refusal{http.StatusServiceUnavailable, soon, "the batch before is not taken yet"}
	case <-r.Context().Done():
		return r.Context().Err()
	}
	if after := t.pause(n); after > 0 {
		return &refusal{http.StatusServiceUnavailable, after, "that is more than one node may bring; wait"}
	}
	var held int
	defer func() { t.release(held) }()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readBound)) // A recorder of a test has none.
	packed, err := t.read(r.Body, &held)
	if err != nil {
		return err
	}
	// The server takes a deadline behind the body for the end of who asks.
	_ = control.SetReadDeadline(time.Now().Add(takeBound))
	data, err := t.unpack(r.Context(), packed, &held)
	var no *refusal
	if errors.As(err, &no) && no.after == 0 {
		t.count(name, func(c *counts) { c.malformed++ })
		t.spend(n, nodeapi.MaxEntries) // What it takes to find that out.
	}
	if err != nil {
		return err
	}
	t.spend(n, len(data))
	return t.take(r.Context(), name, data, &held)
}

// compareClock keeps what a node says its time is (RFC 9110, section 6.6.1), in whole seconds.
func (t *Taker) compareClock(name, date string) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	now := t.o.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.node(name); n != nil {
		n.ahead, n.heard = at.Sub(now.Truncate(time.Second)), now
	}
}

// checkForm refuses what has another form than a batch.
func checkForm(r *http.Request) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != journalexport.ContentType {
		return &refusal{status: http.StatusBadRequest, why: "a batch has the Content-Type " + journalexport.ContentType}
	}
	if r.Header.Get("Content-Encoding") != "zstd" {
		return &refusal{status: http.StatusBadRequest, why: "a batch has the Content-Encoding zstd"}
	}
	if r.ContentLength > nodeapi.MaxPackedEntries {
		return errLarge()
	}
	return nil
}

func errLarge() error {
	return &refusal{
		status: http.StatusRequestEntityTooLarge,
		why:    fmt.Sprintf("a batch has at most %d bytes before it is packed; send less at once", nodeapi.MaxEntries),
	}
}

// enter begins with a batch of a node.
func (t *Taker) enter(name string) (*node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.node(name)
	if n == nil || n.queue >= maxQueue {
		return nil, &refusal{http.StatusServiceUnavailable, soon, "too many batches of this node at once"}
	}
	n.queue++
	return n, nil
}

// node is what is known of a node; nil where there are too many. It is called with the lock.
func (t *Taker) node(name string) *node {
	n := t.nodes[name]
	if n == nil && len(t.nodes) < maxNodes {
		n = &node{turn: make(chan struct{}, 1), left: burst, at: t.o.Now()}
		t.nodes[name] = n
	}
	return n
}

func (t *Taker) leave(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n.queue--
}

// pause is how many seconds a node has to wait; 0 when it may bring something now.
func (t *Taker) pause(n *node) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.o.Now()
	// A clock that is set back gives nothing, and takes nothing.
	n.left = min(burst, n.left+rate*max(0, now.Sub(n.at).Seconds()))
	n.at = now
	if n.left >= 0 {
		return 0
	}
	return int(-n.left/rate) + 1
}

func (t *Taker) spend(n *node, size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n.left -= float64(size)
}

// hold tells whether there is room in memory for so many bytes more.
func (t *Taker) hold(size int, held *int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held+size > maxHeld {
		return &refusal{http.StatusServiceUnavailable, soon, "too many batches at once"}
	}
	t.held += size
	*held += size
	return nil
}

func (t *Taker) release(held int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held -= held
}

// read reads a batch as it comes. It takes as much memory as has come.
func (t *Taker) read(body io.Reader, held *int) ([]byte, error) {
	var out []byte
	part := make([]byte, 32<<10)
	for {
		n, err := body.Read(part)
		if n > 0 {
			if len(out)+n > nodeapi.MaxPackedEntries {
				return nil, errLarge()
			}
			if err := t.hold(n, held); err != nil {
				return nil, err
			}
			out = append(out, part[:n]...)
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the batch: %w", err)
		}
	}
}

// unpack unpacks a batch. What it would become, beyond the bound, is not made.
func (t *Taker) unpack(ctx context.Context, packed []byte, held *int) ([]byte, error) {
	var d *zstd.Decoder
	select {
	case d = <-t.decoders:
		defer func() { t.decoders <- d }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	data, err := d.DecodeAll(packed, nil)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, errLarge()
	case err != nil:
		return nil, &refusal{status: http.StatusBadRequest, why: "the batch cannot be unpacked: " + err.Error()}
	case len(data) > nodeapi.MaxEntries:
		return nil, errLarge()
	}
	return data, t.hold(len(data), held)
}

// take makes lines of the entries of a batch, and keeps them. What is before a place that is malformed is kept.
func (t *Taker) take(ctx context.Context, name string, data []byte, held *int) error {
	b := &batch{t: t, ctx: ctx, node: name, highest: map[string]uint64{}, origin: origin{
		cluster: t.o.Cluster, node: name, roles: t.o.Roles[name], now: t.o.Now(),
		kept: time.Duration(t.o.Days) * 24 * time.Hour,
	}}
	entries := journalexport.NewReader(bytes.NewReader(data))
	for {
		e, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return b.keep()
		}
		if err != nil {
			if err := b.keep(); err != nil {
				return err
			}
			t.count(name, func(c *counts) { c.malformed++ })
			return &refusal{status: http.StatusBadRequest, why: "the batch is malformed: " + err.Error()}
		}
		if err := b.add(e, held); err != nil {
			return err
		}
	}
}

// batch is one that is being taken.
type batch struct {
	t    *Taker
	ctx  context.Context
	node string
	origin
	lines []byte
	// highest are the numbers of the series that the lines have.
	highest map[string]uint64
	order   []string
	counts
}

// add adds an entry to the lines, unless the store has it.
func (b *batch) add(e journalexport.Entry, held *int) error {
	series, number := placeOf(e)
	if series != "" {
		before, known := b.highest[series]
		if !known {
			before = b.t.o.Queue.Mark(b.node, series)
		}
		if number <= before {
			b.twice++
			return nil
		}
	}
	begin := len(b.lines)
	var clamped bool
	b.lines, clamped = b.appendLine(b.lines, e)
	size := len(b.lines) - begin
	if size > spool.MaxLines { // An entry is bounded before, so that it does not come to that.
		b.lines, b.malformed = b.lines[:begin], b.malformed+1
		return nil
	}
	if err := b.t.hold(size, held); err != nil {
		return err
	}
	b.counts.lines++
	b.bytes += int64(size)
	if clamped {
		b.clamped++
	}
	if has(e, journalexport.Cut) {
		b.cut++
	}
	if series != "" {
		if _, known := b.highest[series]; !known {
			b.order = append(b.order, series)
		}
		b.highest[series] = number
	}
	if len(b.lines) < maxPart {
		return nil
	}
	size = len(b.lines)
	if err := b.keep(); err != nil {
		return err
	}
	b.t.release(size)
	*held -= size
	return nil
}

// keep has the lines be on disk, and counts them.
func (b *batch) keep() error {
	// The queue remembers no more of a node; a node that makes up series fills no disk with them.
	order := b.order[max(0, len(b.order)-spool.MaxSources):]
	marks := make([]spool.Mark, 0, len(order))
	for _, series := range order {
		marks = append(marks, spool.Mark{Group: b.node, ID: series, Value: b.highest[series]})
	}
	if err := b.t.o.Queue.AppendMarked(b.ctx, b.lines, marks); err != nil {
		b.t.complain(err)
		return &refusal{http.StatusServiceUnavailable, later, err.Error()}
	}
	now := b.counts
	b.t.count(b.node, func(c *counts) {
		c.lines, c.bytes, c.twice = c.lines+now.lines, c.bytes+now.bytes, c.twice+now.twice
		c.malformed, c.clamped, c.cut = c.malformed+now.malformed, c.clamped+now.clamped, c.cut+now.cut
	})
	b.lines, b.counts, b.order = b.lines[:0], counts{}, nil
	clear(b.highest) // The queue has the numbers by now.
	return nil
}

func (t *Taker) count(name string, change func(*counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.node(name); n != nil {
		change(&n.counts)
	}
}

// sayEvery is how often the same is said.
const sayEvery = time.Minute

// complain says what is wrong with the queue, now and then.
func (t *Taker) complain(err error) {
	text := err.Error()
	for _, known := range []error{spool.ErrFull, spool.ErrNoSpace} {
		if errors.Is(err, known) {
			text = known.Error()
		}
	}
	now := t.o.Now()
	t.mu.Lock()
	quiet := now.Sub(t.said[text]).Abs() < sayEvery
	if !quiet {
		if len(t.said) > 64 {
			clear(t.said)
		}
		t.said[text] = now
	}
	t.mu.Unlock()
	if !quiet {
		t.o.Say("take entries: " + err.Error() + "; the nodes keep them")
	}
}
