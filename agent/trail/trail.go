// Package trail keeps a record of each call that has a node change something: who asked for what, with which
// certificate, and what came of it. A record is on the node's disk before the call is carried out, and on the disk of
// one other node, which gets it over the nodes' API: whoever breaks into a node, or has it delete its state, leaves the
// record of that behind.
//
// Records are lines of JSON (nodeapi.TrailRecord). Each directory has at most two files of 4 MiB. What the package does
// not do: it does not sign records, so root on both nodes can change them.
package trail

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// Bounds.
const (
	// MaxPost is how many bytes of records are sent at once.
	MaxPost = nodeapi.MaxTrailPost
	// maxPending is how many records wait for another node; the oldest are given up then. They stay on this node.
	maxPending = 4096
	// deliverBound is how long a call waits until another node has its record, while others answer at all.
	deliverBound = 3 * time.Second
	// sendBound is how long one node may take to keep records.
	sendBound = time.Second
	// retryEvery is when it is tried again after no node answered, and maxTried how many nodes are tried each time.
	retryEvery = 30 * time.Second
	maxTried   = 8
)

// Directories and files below Keeper.Dir. Those of othersDir have the names of nodes.
const (
	ownDir    = "own"
	othersDir = "others"
	sentFile  = "sent"
)

// Keeper keeps the records of this node, and of others that send theirs.
type Keeper struct {
	// Dir is where, and Node whose.
	Dir, Node string
	// Others are the nodes that may be asked to keep records, in the order in which they are tried.
	Others []string
	// Send has a node keep lines.
	Send func(ctx context.Context, node string, lines []byte) error
	// Say is told what goes wrong.
	Say func(string)
	// Now is the time, and Random gives ids.
	Now    func() time.Time
	Random io.Reader

	own *log

	mu sync.Mutex
	// pending are the records that no other node has yet; with healthy, the last attempt to send succeeded.
	pending []entry
	healthy bool
	wake    chan struct{}
	others  map[string]*log
}

// entry is a record that waits; done is closed when another node has it.
type entry struct {
	key  string
	line []byte
	done chan struct{}
}

// Open looks at what was kept before, and finds what has to be sent yet.
func (k *Keeper) Open() error {
	k.own, k.others = newLog(filepath.Join(k.Dir, ownDir)), map[string]*log{}
	k.wake, k.healthy = make(chan struct{}, 1), true
	all, err := k.own.read()
	if err != nil {
		return err
	}
	sent, err := atomicfile.ReadLimited(filepath.Join(k.Dir, sentFile), 256)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read which records another node has: %w", err)
	}
	_, err = nodeapi.ReadTrail(bytes.NewReader(all), func(r nodeapi.TrailRecord) error {
		e, err := entryOf(r)
		if err != nil {
			return err
		}
		if e.key == string(sent) { // Another node has this and all before.
			k.pending = nil
			return nil
		}
		k.queue(e)
		return nil
	})
	return err
}

func entryOf(r nodeapi.TrailRecord) (entry, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return entry{}, fmt.Errorf("internal error: encode a record: %w", err)
	}
	return entry{r.ID + " " + string(r.Stage), append(line, '\n'), make(chan struct{})}, nil
}

// queue adds an entry that is to be sent.
func (k *Keeper) queue(e entry) {
	k.pending = append(k.pending, e)
	if len(k.pending) > maxPending {
		k.pending = slices.Clone(k.pending[len(k.pending)-maxPending:])
	}
}

// Begin keeps the record of a call that is to be carried out now, and returns what keeps how it ended. The record is on
// this node's disk then, and on another node where one answers within moments. A full disk stops nobody from repairing
// the node: that the record could not be kept is said, and it is sent all the same.
func (k *Keeper) Begin(ctx context.Context, r nodeapi.TrailRecord) (end func(stage nodeapi.Stage, result string)) {
	id := make([]byte, 16)
	if _, err := io.ReadFull(k.Random, id); err != nil {
		k.Say(fmt.Sprintf("make the id of a record: %v", err))
	}
	r.ID, r.Stage, r.Node, r.Time = hex.EncodeToString(id), nodeapi.Begun, k.Node, k.Now().UTC()
	r = r.Clipped()
	done, wait := k.keep(r)
	if wait {
		bound := time.NewTimer(deliverBound)
		defer bound.Stop()
		select {
		case <-done:
		case <-bound.C:
		case <-ctx.Done():
		}
	}
	return func(stage nodeapi.Stage, result string) {
		r.Stage, r.Result, r.Time = stage, result, k.Now().UTC()
		k.keep(r.Clipped())
	}
}

// keep writes a record and queues it. wait tells whether it is worth to wait until it is sent.
func (k *Keeper) keep(r nodeapi.TrailRecord) (done <-chan struct{}, wait bool) {
	e, err := entryOf(r)
	if err == nil {
		err = k.own.add(e.line)
	}
	if err != nil {
		k.Say(err.Error())
	}
	if e.line == nil || len(k.Others) == 0 {
		return nil, false
	}
	k.mu.Lock()
	k.queue(e)
	wait = k.healthy
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
	return e.done, wait
}

// Run sends records to another node until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-retry.C:
		}
		for k.deliver(ctx) {
		}
		retry.Reset(retryEvery)
	}
}

// deliver sends the oldest of what is pending; false when there is nothing left to send or nobody to send it to.
func (k *Keeper) deliver(ctx context.Context) bool {
	k.mu.Lock()
	var batch []entry
	var lines []byte
	for _, e := range k.pending {
		if len(lines)+len(e.line) > MaxPost {
			break
		}
		batch, lines = append(batch, e), append(lines, e.line...)
	}
	k.mu.Unlock()
	if len(batch) == 0 {
		return false
	}
	if err := k.send(ctx, lines); err != nil {
		k.mu.Lock()
		said := !k.healthy
		k.healthy = false
		k.mu.Unlock()
		if !said && ctx.Err() == nil {
			k.Say("no other node keeps the records of calls yet: " + err.Error())
		}
		return false
	}
	last := batch[len(batch)-1].key
	if err := atomicfile.Replace(filepath.Join(k.Dir, sentFile), []byte(last), 0o600, atomicfile.Durable); err != nil {
		k.Say(fmt.Sprintf("remember which records another node has: %v", err)) // They are sent twice, and shown once.
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.healthy = true
	// Some may have been given up meanwhile.
	at := slices.IndexFunc(k.pending, func(e entry) bool { return e.key == last })
	k.pending = slices.Clone(k.pending[at+1:])
	for _, e := range batch {
		close(e.done)
	}
	return len(k.pending) > 0
}

// send has the first node keep lines that answers.
func (k *Keeper) send(ctx context.Context, lines []byte) error {
	failed := errors.New("there is no other node")
	for _, node := range k.Others[:min(len(k.Others), maxTried)] {
		bounded, cancel := context.WithTimeout(ctx, sendBound)
		err := k.Send(bounded, node, lines)
		cancel()
		if err == nil {
			return nil
		}
		failed = fmt.Errorf("%s: %w", node, err)
	}
	return failed
}

// Take keeps records that another node sends. Whose they are is said by its certificate, and not by them.
func (k *Keeper) Take(sender string, body io.Reader) error {
	var lines []byte
	malformed, err := nodeapi.ReadTrail(body, func(r nodeapi.TrailRecord) error {
		r.Node = sender
		e, err := entryOf(r)
		lines = append(lines, e.line...)
		return err
	})
	switch {
	case err != nil:
		return err
	case malformed > 0:
		return fmt.Errorf("%d records are malformed", malformed)
	case len(lines) == 0:
		return errors.New("there is no record")
	}
	k.mu.Lock()
	to := k.others[sender]
	if to == nil {
		to = newLog(filepath.Join(k.Dir, othersDir, filepath.Base(sender)))
		k.others[sender] = to
	}
	k.mu.Unlock()
	return to.add(lines)
}

// Records calls see with each record that is kept here, from a time on: those of this node first, then those of others
// by name. A record may come twice.
func (k *Keeper) Records(since time.Time, see func(nodeapi.TrailRecord) error) error {
	if err := records(k.own, k.Node, since, see); err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(k.Dir, othersDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the records of other nodes: %w", err)
	}
	for _, e := range entries {
		if err := records(newLog(filepath.Join(k.Dir, othersDir, e.Name())), e.Name(), since, see); err != nil {
			return err
		}
	}
	return nil
}

func records(l *log, node string, since time.Time, see func(nodeapi.TrailRecord) error) error {
	all, err := l.read()
	if err != nil {
		return err
	}
	_, err = nodeapi.ReadTrail(bytes.NewReader(all), func(r nodeapi.TrailRecord) error {
		if r.Time.Before(since) {
			return nil
		}
		r.Node = node
		return see(r)
	})
	return err
}
