package send

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"spore/services/logs/sending"
	"spore/storage/atomicfile"
)

// CountersFile is the name of the file with the counters, in the text format of Prometheus.
const CountersFile = "metrics.prom"

// countersAge is how old the file of counters gets.
const countersAge = 15 * time.Second

// maxAuthority bounds the file of the authority, in bytes.
const maxAuthority = 1 << 20

// Options are what a sender works with.
type Options struct {
	Config sending.Config
	// Dir keeps how far each store is, in a folder of its name, and RunDir has CountersFile.
	Dir, RunDir string
	// Journals are the files that journald writes; they need not be there.
	Journals []string
	// Sources are what is sent besides the journal.
	Sources []Source
	// May tells whether a program that connects may bring the journal.
	May func(net.Conn) error
	// Say is told what goes wrong, and Status what a person may want to see.
	Say, Status func(string)
	Now         func() time.Time

	// linger and pause are shorter in tests.
	linger, pause time.Duration
}

// Sender sends what a node logs.
type Sender struct {
	o        Options
	counters *counters
	stores   []*store
}

// New makes a sender. The stores need not be there.
func New(o Options) (*Sender, error) {
	if o.linger == 0 {
		o.linger, o.pause = linger, firstPause
	}
	authority, err := atomicfile.ReadLimited(o.Config.CA, maxAuthority)
	if err != nil {
		return nil, fmt.Errorf("read the authority of the nodes: %w", err)
	}
	s := &Sender{o: o, counters: newCounters()}
	for i, c := range o.Config.Stores {
		up, err := newUpstream(c, o.Config, authority, o.Now)
		if err != nil {
			return nil, err
		}
		s.stores = append(s.stores, &store{
			Store: c, number: i + 1, queue: newQueue(o.linger, o.Now), upstream: up, counters: s.counters,
			say: o.Say, now: o.Now, pause: o.pause, journal: openJournal(filepath.Join(o.Dir, c.Name), o),
		})
		// Who looks at what changed has to see it before the first loss, too.
		for _, why := range []string{lostGap, lostRate, lostKernel} {
			s.counters.add("spore_logs_dropped_by_journal_total", label("store", c.Name, "why", why), 0)
		}
		s.counters.add("spore_logs_malformed_total", label("store", c.Name), 0)
	}
	return s, nil
}

// Run takes uploads from l, and reads the other sources, until ctx is over.
func (s *Sender) Run(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	for _, to := range s.stores {
		ended := make(chan struct{})
		work.Go(func() {
			defer close(ended)
			to.run(ctx)
		})
		for _, source := range s.o.Sources {
			work.Go(func() { to.pump(ctx, source, ended) })
		}
	}
	work.Go(func() { s.report(ctx) })
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerTime, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := context.AfterFunc(ctx, func() { server.Close() })
	defer stopped()
	err := server.Serve(&guarded{Listener: l, may: s.o.May, refuse: s.refuse})
	over := ctx.Err() != nil
	cancel()
	work.Wait()
	for _, to := range s.stores {
		if err := to.journal.positions.Save(); err != nil {
			s.o.Say(err.Error())
		}
	}
	if over && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("take the journal: %w", err)
}

// Bounds of a request of journal-upload. maxHeader is in bytes. Its body has no end of time: it waits for the store.
const (
	headerTime = 10 * time.Second
	maxHeader  = 4 << 10
)

func (s *Sender) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /stores/{number}/upload", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.PathValue("number"))
		if err != nil || n < 1 || n > len(s.stores) {
			http.Error(w, "there is no such store", http.StatusNotFound)
			return
		}
		s.stores[n-1].take(w, r)
	})
	return mux
}

// refuse counts a program that may not bring the journal.
func (s *Sender) refuse(err error) {
	s.counters.add("spore_logs_refused_peers_total", "", 1)
	s.stores[0].tell("a program was refused that is not journal-upload: " + err.Error())
}

// report writes the counters and the status now and then.
func (s *Sender) report(ctx context.Context) {
	for {
		if err := s.write(); err != nil {
			s.o.Say(err.Error())
		}
		if err := sleep(ctx, countersAge); err != nil {
			return
		}
	}
}

func (s *Sender) write() error {
	last := s.lastEntries()
	status := make([]string, len(s.stores))
	for i, to := range s.stores {
		behind := 0.0
		if at := to.queue.waiting(); at > 0 {
			behind = max(0, s.o.Now().Sub(time.UnixMicro(at)).Seconds())
		}
		behind = max(behind, to.unread.look(last, to.journal.known(), s.o.Now()).Seconds())
		s.counters.set("spore_logs_behind_seconds", to.label(), behind)
		status[i] = to.status()
	}
	for _, source := range s.o.Sources {
		if c, ok := source.(Counted); ok {
			files, bytes, lines := c.Lost()
			of := label("source", source.Name())
			s.counters.set("spore_logs_lost_files_total", of, float64(files))
			s.counters.set("spore_logs_lost_bytes_total", of, float64(bytes))
			s.counters.set("spore_logs_malformed_lines_total", of, float64(lines))
		}
	}
	s.o.Status(strings.Join(status, "; "))
	path := filepath.Join(s.o.RunDir, CountersFile)
	if err := atomicfile.Replace(path, s.counters.text(), 0o644, atomicfile.Unsynced); err != nil {
		return fmt.Errorf("write the counters: %w", err)
	}
	return nil
}
