package serve

import (
	"context"

	"spore/agent/logs/feed"
	"spore/agent/logs/giving"
	"spore/agent/logs/spool"
	"spore/services/logs"
)

// consumer is who takes lines from the queue.
type consumer struct {
	spool.Consumer
	// begin makes what runs until the context ends, whose error it returns, and what tells its counts in the text format
	// of Prometheus.
	begin func(*spool.Reader) (run func(context.Context) error, metrics func() []byte, err error)
}

// consumers are all that the settings have: VictoriaLogs, which loses nothing, and the receivers of `give:`, whose
// oldest lines go where the queue is full.
func consumers(o Options) []consumer {
	out := []consumer{{
		Consumer: spool.Consumer{Name: logs.Program, Keeps: true},
		begin: func(r *spool.Reader) (func(context.Context) error, func() []byte, error) {
			f := feed.New(feed.Options{Queue: r, URL: o.URL, User: o.User, PasswordFile: o.PasswordFile, Say: o.Say})
			return f.Run, f.Metrics, nil
		},
	}}
	giver := giving.New(giving.Options{
		Receivers: o.Give, Dir: o.Data, Floor: fileFloors * o.Floor, Now: o.Now, Say: o.Say,
	})
	metrics := giver.Metrics
	for _, r := range o.Give {
		tell := metrics
		metrics = func() []byte { return nil } // The first one tells the counts of all: a metric is named once.
		out = append(out, consumer{
			Consumer: spool.Consumer{Name: giving.Consumer(r.Name)},
			begin: func(q *spool.Reader) (func(context.Context) error, func() []byte, error) {
				return giver.Begin(r, q), tell, nil
			},
		})
	}
	return out
}
