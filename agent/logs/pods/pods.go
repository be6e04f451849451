// Package pods is the source of the lines that containers of pods write: the files below /var/log/pods, which the
// container runtime writes and kubelet rotates (package cri). It looks once a second what is there, by the times of the
// folders, and reads the containers in turn, so that one that writes without end keeps no other from being read.
//
// A file that is being read stays open: kubelet may remove it meanwhile. What went before it was opened is counted.
package pods

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"spore/agent/logs/cri"
	"spore/agent/logs/rotated"
	"spore/agent/logs/send"
	"spore/wire/journalexport"
)

// Fields of an entry.
const (
	Namespace = "KUBERNETES_NAMESPACE"
	Pod       = "KUBERNETES_POD"
	Container = "KUBERNETES_CONTAINER"
	Stream    = "KUBERNETES_STREAM"
)

// Times and bounds.
const (
	// interval is how often it is looked for lines; who has more than a batch is read on at once.
	interval = time.Second
	// quantum is what one container is read at a turn, in bytes.
	quantum = 64 << 10
	// maxBatch and maxEntries are about what Next returns, in bytes and in entries.
	maxBatch, maxEntries = 768 << 10, 4000
	// maxContainers bounds those that are read; kubelet has 250 pods at most, and some containers in each.
	maxContainers = 2000
	// maxGone is how many containers that are removed already are kept for their last lines: each holds a file, which
	// takes room on the disk.
	maxGone = 128
	// maxUnfinished is the memory of messages in parts, in bytes.
	maxUnfinished = 8 << 20
	// patience is for how long the next part of a message is waited for.
	patience = time.Minute
)

// Source reads the files of pods.
type Source struct {
	// Dir is cri.Dir.
	Dir string
	// State is the folder of the positions.
	State string
	// Now is the clock.
	Now func() time.Time
	// Say is told what goes wrong.
	Say func(string)
	// Interval and Settle are the times of the packages but in tests.
	Interval, Settle time.Duration

	// counters are of all stores together, and containers are those that are read now.
	counters   rotated.Counters
	containers atomic.Int64
}

// Lost is what the source has counted (send.Counted).
func (s *Source) Lost() (files, bytes, lines int64) { return s.counters.Lost() }

// Name is that of the source.
func (s *Source) Name() string { return send.Pod }

// Open begins to read for a store.
func (s *Source) Open(store string) (send.Reader, error) {
	r := &reader{
		s: s, at: send.OpenPositions[rotated.Position](filepath.Join(s.State, "pods-"+store+".json"), s.Now, s.Say),
		pods: map[string]*pod{}, budget: cri.NewBudget(maxUnfinished), buf: make([]byte, 4*quantum),
		marks: map[string]rotated.Position{},
		ended: make(chan struct{}),
	}
	if r.every = s.Interval; r.every == 0 {
		r.every = interval
	}
	if r.settle = s.Settle; r.settle == 0 {
		r.settle = rotated.Settle
	}
	r.watching.Go(r.watch)
	return r, nil
}

// reader reads for one store.
type reader struct {
	s             *Source
	at            *send.Positions[rotated.Position]
	every, settle time.Duration

	mu   sync.Mutex
	tree *rotated.Tree
	root change
	pods map[string]*pod
	// containers are read in turn, from turn on.
	containers []*container
	turn       int
	budget     *cri.Budget
	buf        []byte
	// marks are the places behind what was read since the last batch.
	marks map[string]rotated.Position
	// looked and scanned are when it was last looked for files and for lines.
	looked, scanned time.Time
	begun, full     bool
	// unread says that some folder could not be read when it was last looked: what is there is not known.
	unread bool
	// tooMany says that it was said that there are too many containers.
	tooMany bool
	// denied is true when it was said that the right to read is missing.
	denied bool

	ended    chan struct{}
	watching sync.WaitGroup
}

type pod struct {
	cri.Pod
	containers map[string]*container
	change
}

type container struct {
	key, name string
	pod       cri.Pod
	f         *rotated.Follower
	join      *cri.Joiner[rotated.Position]
	change
	gone bool
	// group is the restart whose lines are read.
	group int
	// waits is since when the oldest part waits for the next; zero where none does.
	waits time.Time
	after rotated.Position
	// sent is the last place that a batch had.
	sent rotated.Position
	lost rotated.Lost
	// id names the file with the head.
	id, head string
	// names are the fields that all its entries have; nobody changes the values.
	names []journalexport.Field
}

// change tells whether a folder has changed.
type change struct{ at time.Time }

// shortly is for how long a folder may change again without another time: file systems have the time of the kernel's
// tick.
const shortly = 2 * time.Second

func (c *change) is(at, now time.Time) bool {
	changed := !at.Equal(c.at) || now.Sub(at) < shortly
	c.at = at
	return changed
}

// watch looks for files while nobody calls Next: what is known is counted when it is lost.
func (r *reader) watch() {
	for {
		select {
		case <-r.ended:
			return
		case <-time.After(10 * r.every):
		}
		r.mu.Lock()
		if r.s.Now().Sub(r.looked) >= 10*r.every {
			r.look()
		}
		r.mu.Unlock()
	}
}

// Next waits for lines.
func (r *reader) Next(ctx context.Context) (send.Batch, error) {
	for {
		batch, again := r.read()
		if len(batch.Entries) > 0 {
			return batch, nil
		}
		if again <= 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return send.Batch{}, ctx.Err()
		case <-time.After(again):
		}
	}
}

// read reads what is there, and tells when to look again.
func (r *reader) read() (send.Batch, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait := r.every - r.s.Now().Sub(r.scanned); !r.full && wait > 0 && wait <= r.every {
		return send.Batch{}, wait
	}
	if r.s.Now().Sub(r.looked) >= r.every || r.s.Now().Before(r.looked) {
		r.look()
	}
	var entries []journalexport.Entry
	entries, r.full = r.scan()
	r.scanned = r.s.Now()
	if len(entries) == 0 {
		return send.Batch{}, r.every
	}
	marks := r.marks
	r.marks = map[string]rotated.Position{}
	return send.Batch{Entries: entries, Position: marks}, 0
}

// scan reads the containers in turn, until all are read or a batch is full.
func (r *reader) scan() (entries []journalexport.Entry, full bool) {
	size := 0
	for more := true; more; {
		more = false
		for range len(r.containers) {
			r.turn = (r.turn + 1) % len(r.containers)
			c := r.containers[r.turn]
			add := func(e journalexport.Entry, bytes int) {
				entries = append(entries, e)
				size += bytes
			}
			if c.f.Read(r.buf, quantum, func(l rotated.Line) { r.line(c, l, add) }) {
				more = true
			}
			if !c.waits.IsZero() && r.s.Now().Sub(c.waits) > patience {
				r.flush(c, add)
			}
			if size >= maxBatch || len(entries) >= maxEntries {
				return entries, true
			}
		}
	}
	return entries, false
}

// overhead is about what the fields of an entry have besides its message, in bytes.
const overhead = 400

// line takes one line of a container.
func (r *reader) line(c *container, l rotated.Line, add func(journalexport.Entry, int)) {
	if l.Group != c.group {
		r.flush(c, add)
		c.group = l.Group
	}
	c.after = l.After
	line, err := cri.Parse(l.Data)
	if err != nil {
		r.s.counters.Malformed()
		r.mark(c)
		return
	}
	m, begin, whole := c.join.Add(line, l.Start)
	if whole {
		m.Cut += l.Cut
		add(c.entry(m, begin), len(m.Text)+overhead)
	}
	r.mark(c)
}

// mark notes how far a container was read: to the oldest message whose end was not read yet.
func (r *reader) mark(c *container) {
	start, some := c.join.Oldest()
	switch {
	case !some:
		start, c.waits = c.after, time.Time{}
	case c.waits.IsZero():
		c.waits = r.s.Now()
	}
	c.sent = start
	r.marks[c.key] = start
}

// flush gives messages whose end will not come.
func (r *reader) flush(c *container, add func(journalexport.Entry, int)) {
	some := false
	for {
		m, begin, ok := c.join.Flush()
		if !ok {
			break
		}
		some = true
		add(c.entry(m, begin), len(m.Text)+overhead)
	}
	if some {
		r.mark(c)
	}
}

// entry makes an entry of a message.
func (c *container) entry(m cri.Message, at rotated.Position) journalexport.Entry {
	if c.head != at.Head || c.id == "" {
		sum := sha256.Sum256([]byte(c.key + "\x00" + at.Head))
		c.id, c.head = hex.EncodeToString(sum[:12]), at.Head
	}
	e := make(journalexport.Entry, 0, 9)
	field := func(name string, value []byte) { e = append(e, journalexport.Field{Name: name, Value: value}) }
	field(send.CursorField, strconv.AppendInt([]byte("file="+c.id+";offset="), at.Offset, 10))
	field(send.TimeField, strconv.AppendInt(nil, m.Time.UnixMicro(), 10))
	field("MESSAGE", slices.Clone(cri.Trim(m.Text)))
	e = append(e, c.names...)
	field(Stream, []byte(m.Stream))
	if m.Cut > 0 {
		field(journalexport.Cut, strconv.AppendInt(nil, m.Cut, 10))
	}
	return e
}

// Done keeps how far the store has what was read.
func (r *reader) Done(b send.Batch) error {
	marks, ok := b.Position.(map[string]rotated.Position)
	if !ok {
		return errors.New("internal error: a batch is not one of the source of pods")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, c := range r.containers {
		p, some := marks[c.key]
		if !some {
			continue
		}
		errs = append(errs, r.at.Set(c.key, c.f.Place(p)))
		delete(marks, c.key)
	}
	for key := range marks { // It is gone, and this is the last of it.
		errs = append(errs, r.at.Delete(key))
	}
	return errors.Join(errs...)
}

// Close ends the reading.
func (r *reader) Close() error {
	close(r.ended)
	r.watching.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.containers {
		if p, some := r.at.Get(c.key); some {
			_ = r.at.Set(c.key, c.f.Place(p))
		}
		c.f.Close()
		r.count(c)
	}
	r.s.containers.Add(-int64(len(r.containers)))
	r.containers, r.pods = nil, map[string]*pod{}
	if r.tree != nil {
		_ = r.tree.Close()
		r.tree = nil
	}
	return r.at.Save()
}

// count adds what a container has lost, and says it.
func (r *reader) count(c *container) {
	if lost, some := r.s.counters.Add(c.f, &c.lost); some {
		r.s.Say(fmt.Sprintf("logs of %s/%s/%s: %s", c.pod.Namespace, c.pod.Name, c.name, lost))
	}
}

// sweep forgets containers that are gone and were read to their end, and those that are too many.
func (r *reader) sweep() {
	gone := 0
	for _, c := range r.containers {
		r.count(c)
		if c.f.Denied {
			r.sayDenied(c.key)
		}
		if c.gone {
			gone++
		}
	}
	if gone == 0 {
		return
	}
	r.containers = slices.DeleteFunc(r.containers, func(c *container) bool {
		done := c.gone && c.f.Done() && c.waits.IsZero()
		if !done && (!c.gone || gone <= maxGone) {
			return false
		}
		gone--
		c.f.Close()
		r.count(c)
		c.join.Drop()
		r.s.containers.Add(-1)
		// Where a batch with its last lines is on the way, Done forgets its place.
		p, some := r.at.Get(c.key)
		if some && (p.Head == c.sent.Head && p.Offset == c.sent.Offset || c.sent == rotated.Position{}) {
			_ = r.at.Delete(c.key)
		}
		return true
	})
	r.turn = 0
}

// look finds what is new, and what is gone.
func (r *reader) look() {
	now := r.s.Now()
	r.looked, r.unread = now, false
	if r.tree == nil {
		tree, err := rotated.OpenTree(r.s.Dir)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				r.s.Say(err.Error())
			}
			return
		}
		r.tree = tree
	}
	switch at, err := r.tree.Changed("."); {
	case errors.Is(err, fs.ErrPermission):
		r.sayDenied(r.s.Dir)
		return
	case err != nil: // It was made anew; what was in it is gone.
		for _, p := range r.pods {
			for _, c := range p.containers {
				r.leave(c)
			}
		}
		r.pods = map[string]*pod{}
		_ = r.tree.Close()
		r.tree, r.root = nil, change{}
		return
	case r.root.is(at, now):
		r.lookForPods()
	}
	for folder, p := range r.pods {
		if at, err := r.tree.Changed(folder); err == nil && p.is(at, now) {
			r.lookForContainers(folder, p)
		}
		for _, c := range p.containers {
			at, err := r.tree.Changed(c.key)
			if err == nil && c.is(at, now) {
				r.lookForFiles(c)
			}
		}
	}
	if !r.begun && !r.unread {
		r.begun = true
		r.forget()
	}
	r.sweep()
}

// sayDenied says once that this program has no right to read; spore-logs.service gives it.
func (r *reader) sayDenied(what string) {
	if !r.denied {
		r.denied = true
		r.s.Say(fmt.Sprintf("%s cannot be read; the group of this program has to have it (spore-logs share)", what))
	}
}

// again has a folder looked at again that could not be read; it may have gone meanwhile.
func (r *reader) again(c *change, what string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	*c, r.unread = change{}, true
	if errors.Is(err, fs.ErrPermission) {
		r.sayDenied(what)
	}
}

func (r *reader) lookForPods() {
	folders, err := r.tree.Folders(".")
	if err != nil {
		r.again(&r.root, r.s.Dir, err)
		return
	}
	there := map[string]bool{}
	for _, folder := range folders {
		if name, ok := cri.ParsePod(folder); ok {
			there[folder] = true
			if r.pods[folder] == nil {
				r.pods[folder] = &pod{Pod: name, containers: map[string]*container{}}
			}
		}
	}
	for folder, p := range r.pods {
		if !there[folder] {
			for _, c := range p.containers {
				r.leave(c)
			}
			delete(r.pods, folder)
		}
	}
}

func (r *reader) lookForContainers(folder string, p *pod) {
	names, err := r.tree.Folders(folder)
	if err != nil {
		r.again(&p.change, folder, err)
		return
	}
	slices.Sort(names)
	for name, c := range p.containers {
		if !slices.Contains(names, name) {
			r.leave(c)
			delete(p.containers, name)
		}
	}
	for _, name := range names {
		if p.containers[name] != nil || !cri.IsLabel(name) {
			continue
		}
		if len(r.containers) >= maxContainers {
			if !r.tooMany {
				r.tooMany = true
				r.s.Say(fmt.Sprintf("there are more than %d containers; %s/%s and further ones are not read",
					maxContainers, folder, name))
			}
			p.change = change{} // When others have gone, it is.
			return
		}
		c := &container{key: folder + "/" + name, name: name, pod: p.Pod, join: cri.NewJoiner[rotated.Position](r.budget)}
		c.names = []journalexport.Field{
			{Name: send.SourceField, Value: []byte(send.Pod)}, {Name: Namespace, Value: []byte(p.Namespace)},
			{Name: Pod, Value: []byte(p.Name)}, {Name: Container, Value: []byte(name)},
		}
		var begin *rotated.Position
		if at, some := r.at.Get(c.key); some {
			begin = &at
		}
		c.f = rotated.Follow(r.tree, begin)
		c.f.Now, c.f.Settle, c.f.MaxLine = r.s.Now, r.settle, cri.MaxMessage
		p.containers[name] = c
		r.containers = append(r.containers, c)
		r.s.containers.Add(1)
	}
}

func (r *reader) lookForFiles(c *container) {
	files, err := r.tree.Files(c.key, func(name string) bool { _, ok := cri.ParseFile(name); return ok })
	if err != nil {
		r.again(&c.change, c.key, err)
		return
	}
	order(files)
	c.f.See(files)
}

// order sorts files of a container from the oldest on.
func order(files []rotated.File) {
	parsed := map[string]cri.File{}
	for i, file := range files {
		f, _ := cri.ParseFile(file.Name)
		parsed[file.Name], files[i].Group = f, f.Restart
	}
	slices.SortFunc(files, func(a, b rotated.File) int { return cri.Compare(parsed[a.Name], parsed[b.Name]) })
}

// leave has a container whose folder is gone read to the end of the file that is open.
func (r *reader) leave(c *container) {
	c.gone = true
	c.f.See(nil)
}

// forget drops the places of containers that went while nobody read.
func (r *reader) forget() {
	known := map[string]bool{}
	for _, c := range r.containers {
		known[c.key] = true
	}
	for key, at := range r.at.All() {
		if known[key] {
			continue
		}
		if !at.End {
			r.s.counters.Gone()
		}
		_ = r.at.Delete(key)
	}
}
