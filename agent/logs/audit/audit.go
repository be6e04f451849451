// Package audit is the source of the records of Kubernetes' audit log, which kube-apiserver writes to a file, one JSON
// object in a line (audit.k8s.io/v1, Event), and rotates (gopkg.in/natefinch/lumberjack.v2). An entry says in a line
// who did what, and has the record without values that may be secret.
package audit

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"spore/agent/logs/rotated"
	"spore/agent/logs/send"
	"spore/wire/journalexport"
)

// Dir is where kube-apiserver writes.
const Dir = "/var/log/kubernetes"

// Times and bounds.
const (
	interval = time.Second
	// maxLine is in bytes. The objects of a record are as long as etcd takes them, 1.5 MiB; what is longer is cut,
	// and its objects are left out (Parse).
	maxLine = 1 << 20
	// maxBatch and maxEntries are about what Next returns.
	maxBatch, maxEntries = 512 << 10, 2000
	quantum              = 256 << 10
)

// Source reads the audit log.
type Source struct {
	// Dir is Dir but in tests; State is the folder of the positions.
	Dir, State string
	// Now is the clock.
	Now func() time.Time
	// Say is told what goes wrong.
	Say func(string)
	// Interval and Settle are the times of the packages but in tests.
	Interval, Settle time.Duration

	// counters are of all stores together.
	counters rotated.Counters
}

// Lost is what the source has counted (send.Counted).
func (s *Source) Lost() (files, bytes, lines int64) { return s.counters.Lost() }

// Name is that of the source.
func (s *Source) Name() string { return send.Audit }

// key is that of the one position.
const key = "audit"

// Open begins to read for a store.
func (s *Source) Open(store string) (send.Reader, error) {
	at := send.OpenPositions[rotated.Position](filepath.Join(s.State, "audit-"+store+".json"), s.Now, s.Say)
	r := &reader{s: s, at: at, every: s.Interval, settle: s.Settle}
	if r.every == 0 {
		r.every = interval
	}
	if r.settle == 0 {
		r.settle = rotated.Settle
	}
	return r, nil
}

type reader struct {
	s             *Source
	at            *send.Positions[rotated.Position]
	every, settle time.Duration

	// mu is held while files are read: Done comes from another goroutine.
	mu     sync.Mutex
	tree   *rotated.Tree
	f      *rotated.Follower
	buf    []byte
	lost   rotated.Lost
	looked time.Time
	full   bool
	// denied is true when it was said that the right to read is missing.
	denied bool
	// last is the time of the last record.
	last time.Time
}

// Next waits for records.
func (r *reader) Next(ctx context.Context) (send.Batch, error) {
	for {
		if !r.full {
			wait := min(r.every, r.every-r.s.Now().Sub(r.looked))
			select {
			case <-ctx.Done():
				return send.Batch{}, ctx.Err()
			case <-time.After(wait):
			}
			r.look()
		}
		if batch := r.read(); len(batch.Entries) > 0 {
			return batch, nil
		}
		if err := ctx.Err(); err != nil {
			return send.Batch{}, err
		}
	}
}

// look finds the files that there are.
func (r *reader) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked = r.s.Now()
	if r.tree == nil {
		tree, err := rotated.OpenTree(r.s.Dir)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				r.s.Say(err.Error())
			}
			return
		}
		r.tree = tree
		var begin *rotated.Position
		if at, some := r.at.Get(key); some {
			begin = &at
		}
		r.f = rotated.Follow(tree, begin)
		r.f.Now, r.f.Settle, r.f.MaxLine = r.s.Now, r.settle, maxLine
		r.buf = make([]byte, maxLine+quantum)
	}
	files, err := r.tree.Files(".", isLog)
	if err != nil {
		r.s.Say("look for the audit log: " + err.Error())
		return
	}
	slices.SortFunc(files, func(a, b rotated.File) int { return compare(a.Name, b.Name) })
	r.f.See(files)
	r.count()
	if r.f.Denied && !r.denied {
		r.denied = true
		r.s.Say(r.s.Dir + ": the audit log cannot be read; its group has to have it (spore-logs share)")
	}
}

// Live is the file that is written to.
const Live = "audit.log"

// isLog tells whether kube-apiserver gives a file such a name: audit.log, or audit-TIME.log where it was put aside.
func isLog(name string) bool {
	if name == Live {
		return true
	}
	stamp, ok := strings.CutPrefix(strings.TrimSuffix(name, ".gz"), "audit-")
	if !ok {
		return false
	}
	stamp, ok = strings.CutSuffix(stamp, ".log")
	_, err := time.Parse("2006-01-02T15-04-05.000", stamp)
	return ok && err == nil
}

// compare orders them from the oldest on.
func compare(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == Live:
		return 1
	case b == Live:
		return -1
	}
	return strings.Compare(a, b)
}

// read reads what is there.
func (r *reader) read() send.Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.full = false
	if r.f == nil {
		return send.Batch{}
	}
	var entries []journalexport.Entry
	var at rotated.Position
	size := 0
	for size < maxBatch && len(entries) < maxEntries {
		r.full = r.f.Read(r.buf, quantum, func(l rotated.Line) {
			at = l.After
			if r.last.IsZero() {
				r.last = r.s.Now()
			}
			cursor := "file=" + l.Start.Head + ";offset=" + strconv.FormatInt(l.Start.Offset, 10)
			e, ok := Parse(l.Data, l.Cut, cursor, r.last)
			if !ok {
				r.s.counters.Malformed()
				return
			}
			r.last = timeOf(e)
			for _, f := range e {
				size += len(f.Name) + len(f.Value) + 2
			}
			entries = append(entries, e)
		})
		if !r.full {
			break
		}
	}
	r.count()
	return send.Batch{Entries: entries, Position: at}
}

// timeOf is when the record of an entry was written.
func timeOf(e journalexport.Entry) time.Time {
	text, _ := e.Get(send.TimeField)
	n, _ := strconv.ParseInt(text, 10, 64) // Parse wrote it.
	return time.UnixMicro(n)
}

// count adds what was lost, and says it.
func (r *reader) count() {
	if lost, some := r.s.counters.Add(r.f, &r.lost); some {
		r.s.Say("the audit log of Kubernetes: " + lost.String())
	}
}

// Done keeps how far the store has what was read.
func (r *reader) Done(b send.Batch) error {
	at, ok := b.Position.(rotated.Position)
	if !ok {
		return errors.New("internal error: a batch is not one of the audit log")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at.Set(key, r.f.Place(at))
}

// Close ends the reading.
func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f != nil {
		if at, some := r.at.Get(key); some {
			_ = r.at.Set(key, r.f.Place(at))
		}
		r.f.Close()
		r.count()
		_ = r.tree.Close()
		r.tree, r.f = nil, nil
	}
	return r.at.Save()
}
