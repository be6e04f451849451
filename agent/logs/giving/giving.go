// Package giving gives entries to all receivers of the settings of a store: to each from a position of its own in the
// store's queue, at its own pace.
package giving

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"spore/agent/logs/give"
	"spore/agent/logs/give/elasticsearch"
	"spore/agent/logs/give/file"
	"spore/agent/logs/give/loki"
	"spore/agent/logs/give/parcel"
	"spore/agent/logs/give/post"
	receiver "spore/agent/logs/give/syslog"
	"spore/agent/logs/spool"
	"spore/agent/plant"
	"spore/agent/syslog"
	"spore/services/logs/store"
)

// Consumer is the name that a receiver has in the queue.
func Consumer(name string) string { return "give-" + name }

// Options are what is given, and to whom.
type Options struct {
	Receivers []store.Receiver
	// Dir is the folder of the program's data: files are in its folder store.GiveDir.
	Dir string
	// Floor is what files leave free of their disk, in bytes.
	Floor int64
	// Now is the time, and Say takes lines for people.
	Now func() time.Time
	Say func(string)
}

// Giving gives to all receivers.
type Giving struct {
	o Options

	mu   sync.Mutex
	each map[string]*give.Giver[spool.Batch]
}

// New makes ready to give.
func New(o Options) *Giving { return &Giving{o: o, each: map[string]*give.Giver[spool.Batch]{}} }

// Begin makes what gives to one receiver, from a queue, until its context ends, whose error it returns. A receiver
// whose settings are malformed gets nothing, which is said: the store and other receivers go on.
func (g *Giving) Begin(r store.Receiver, q give.Queue[spool.Batch]) func(context.Context) error {
	to, err := receiverOf(r, g.o)
	if err != nil {
		to = broken{err}
	}
	filter := give.Filter{Sources: r.Sources, Least: r.Least}
	clock := give.Clock{Now: g.o.Now, Sleep: sleep}
	one := give.New(r.Name, q, func(b spool.Batch) []byte { return b.Lines }, filter, to, clock, g.o.Say)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.each[r.Name] = one
	return one.Run
}

// Metrics are the counts of all receivers that began, in the text format of Prometheus.
func (g *Giving) Metrics() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	counts := map[string]give.Counts{}
	for name, one := range g.each {
		counts[name] = one.Counts()
	}
	return give.Metrics(counts)
}

// broken is a receiver with malformed settings.
type broken struct{ err error }

func (b broken) Give(_ context.Context, entries []parcel.Entry) (parcel.Outcome, error) {
	return parcel.Outcome{Left: entries}, b.err
}

func receiverOf(r store.Receiver, o Options) (give.Receiver, error) {
	switch {
	case r.Syslog != nil:
		config, err := plant.TLS(r.Syslog.CA)
		if err != nil {
			return nil, err
		}
		server := syslog.Server{Address: r.Syslog.Address, Transport: r.Syslog.Transport, TLS: config}
		return receiver.New(server, o.Now), nil
	case r.Loki != nil:
		l := r.Loki
		s := post.Server{URL: l.URL, CA: l.CA, User: l.User, PasswordFile: l.PasswordFile, TokenFile: l.TokenFile}
		return loki.New(s, l.Tenant)
	case r.Elasticsearch != nil:
		e := r.Elasticsearch
		s := post.Server{URL: e.URL, CA: e.CA, User: e.User, PasswordFile: e.PasswordFile, TokenFile: e.APIKeyFile}
		return elasticsearch.New(s, e.Index)
	case r.File != nil:
		if r.Name != filepath.Base(r.Name) {
			return nil, errors.New("the name is none of a file")
		}
		return file.New(filepath.Join(o.Dir, store.GiveDir), r.Name, int64(min(r.File.Size, 1<<62)), o.Floor), nil
	}
	return nil, errors.New("internal error: the receiver has neither syslog, loki, elasticsearch nor file")
}

// sleep waits, or ends with the context.
func sleep(ctx context.Context, long time.Duration) error {
	t := time.NewTimer(long)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
