// Package giving gives entries to all receivers of the settings of a store: to each from a position of its own in the
// store's queue, at its own pace.
package giving

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"spore/agent/logs/give"
	"spore/agent/logs/give/elasticsearch"
	"spore/agent/logs/give/file"
	"spore/agent/logs/give/loki"
	"spore/agent/logs/give/post"
	receiver "spore/agent/logs/give/syslog"
	"spore/agent/logs/spool"
	"spore/agent/plant"
	"spore/agent/syslog"
	"spore/services/logs/store"
)

// Consumer is the name that a receiver has in the queue.
func Consumer(name string) string { return "give-" + name }

// Consumers are what the queue keeps entries for, one of each receiver. The oldest of one that is away for long go.
func Consumers(receivers []store.Receiver) []spool.Consumer {
	out := make([]spool.Consumer, 0, len(receivers))
	for _, r := range receivers {
		out = append(out, spool.Consumer{Name: Consumer(r.Name)})
	}
	return out
}

// Options are what is given, and from where.
type Options struct {
	Receivers []store.Receiver
	// Spool is the store's queue, which has Consumers.
	Spool *spool.Spool
	// Dir is the folder of the program's data: files are in its folder store.GiveDir.
	Dir string
	// Now is the time, and Say takes lines for people.
	Now func() time.Time
	Say func(string)
}

// Giving gives to all receivers.
type Giving struct {
	spool *spool.Spool
	names []string
	each  []*give.Giver[spool.Batch]
	close []func() error
}

// New makes ready to give. Settings that are malformed, such as certificates, are errors; servers that are away are not.
func New(o Options) (*Giving, error) {
	g := &Giving{spool: o.Spool}
	clock := give.Clock{Now: o.Now, Sleep: sleep}
	for _, r := range o.Receivers {
		to, err := receiverOf(r, o)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("give to %s: %w", r.Name, err), g.end())
		}
		q, err := o.Spool.Reader(Consumer(r.Name))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("give to %s: %w", r.Name, err), g.end())
		}
		filter := give.Filter{Sources: r.Sources, Least: r.Least}
		lines := func(b spool.Batch) []byte { return b.Lines }
		g.names, g.close = append(g.names, r.Name), append(g.close, q.Close)
		g.each = append(g.each, give.New[spool.Batch](r.Name, q, lines, filter, to, clock, o.Say))
	}
	return g, nil
}

// Run gives until the context ends. It is called once.
func (g *Giving) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, one := range g.each {
		all.Go(func() { _ = one.Run(ctx) }) // It ends with the context alone.
	}
	all.Wait()
	return g.end()
}

// Metrics are the counts of all receivers, in the text format of Prometheus.
func (g *Giving) Metrics() []byte {
	counts := map[string]give.Counts{}
	for i, name := range g.names {
		c := g.each[i].Counts()
		lag := g.spool.Lag(Consumer(name))
		c.Behind = max(c.Behind, lag.Behind)
		c.Dropped = uint64(max(lag.Dropped, 0))
		counts[name] = c
	}
	return give.Metrics(counts)
}

func (g *Giving) end() error {
	var problems []error
	for _, c := range g.close {
		problems = append(problems, c())
	}
	return errors.Join(problems...)
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
			return nil, fmt.Errorf("the name is none of a file")
		}
		return file.New(filepath.Join(o.Dir, store.GiveDir), r.Name, int64(min(r.File.Size, 1<<62))), nil
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
