// Package serve is the collector of metrics: the program spore-metrics, which the node's API asks by a socket.
//
// It is a program and a unit of its own. In the agent, the libraries of Prometheus would add their start (the tables of
// protocol buffers) to each of the agent's processes, of which a boot has dozens. In the API's process they would
// not have the rights: the wear of disks takes CAP_SYS_RAWIO and CAP_SYS_ADMIN, and the certificates by which services
// are asked are root's. systemd starts the unit with the first question, and it ends two minutes after the last: a node
// that nobody scrapes has a socket and no process.
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"spore/agent/metrics/ask"
	"spore/agent/metrics/ceph"
	"spore/agent/metrics/family"
	"spore/agent/metrics/kafka"
	"spore/agent/metrics/machine"
	"spore/agent/metrics/mqtt"
	"spore/agent/metrics/own"
	"spore/agent/metrics/service"
	"spore/agent/metrics/smart"
	"spore/agent/metrics/source"
	"spore/agent/paths"
)

// idle is how long the collector waits for another question: longer than people have between two scrapes.
const idle = 2 * time.Minute

// endBound is how long those are waited for that are being answered when the collector ends: longer than an answer
// waits for its sources, on a slow machine.
const endBound = 10 * time.Second

// wearEvery is how often disks are asked of their wear, which changes over weeks.
const wearEvery = 10 * time.Minute

// Own is the table of what a node tells of itself.
func Own() []family.Family {
	return slices.Concat(machine.Families(), own.Families(), smart.Families(), source.Families(), kafka.Families(),
		mqtt.Families(), ceph.Families())
}

// Families is the table of all that a node tells.
func Families() []family.Family { return append(Own(), service.Families()...) }

// Collector answers questions.
type Collector struct {
	sources *source.Sources
	say     func(string)
}

// New is the collector of the node below root. Say is told what goes wrong.
func New(root paths.Root, now func() time.Time, say func(string)) *Collector {
	list := append(sources(root, now), service.Sources(root, service.Endpoints())...)
	return &Collector{sources: source.New(list, now, say), say: say}
}

// sources are those of the machine itself.
func sources(root paths.Root, now func() time.Time) []source.Source {
	m, n := machine.New(string(root)), own.New(root)
	measure := func(rows []family.Family, into func(context.Context, ask.Question, *family.Sink) error) func(
		context.Context, ask.Question) ([]*dto.MetricFamily, error) {
		return func(ctx context.Context, q ask.Question) ([]*dto.MetricFamily, error) {
			s := family.NewSink(rows)
			err := into(ctx, q, s)
			families, errs := s.Families()
			return families, errors.Join(append(errs, err)...)
		}
	}
	wear := func(_ context.Context, _ ask.Question, s *family.Sink) error { return smart.Measure(string(root), s) }
	brokers := func(ctx context.Context, q ask.Question, s *family.Sink) error { return kafka.Measure(ctx, root, q, s) }
	broker, monitors := mqtt.New(root), ceph.New(root)
	topics := func(ctx context.Context, _ ask.Question, s *family.Sink) error { return broker.Measure(ctx, s) }
	storage := func(ctx context.Context, _ ask.Question, s *family.Sink) error { return monitors.Measure(ctx, s) }
	return []source.Source{
		{Name: "machine", Ask: measure(machine.Families(), func(ctx context.Context, _ ask.Question, s *family.Sink) error {
			return m.Measure(ctx, s)
		})},
		{Name: "sensors", Ask: measure(machine.Families(), func(ctx context.Context, _ ask.Question, s *family.Sink) error {
			return m.Sensors(ctx, s)
		})},
		{Name: "node", Ask: measure(own.Families(), func(_ context.Context, q ask.Question, s *family.Sink) error {
			own.Health(s, q.Health)
			return errors.Join(n.Line(s, now()), n.Certificates(s))
		})},
		{Name: "units", Ask: measure(own.Families(), func(ctx context.Context, _ ask.Question, s *family.Sink) error {
			return n.UnitStates(ctx, s)
		})},
		{Name: "wear", Every: wearEvery, Ask: measure(smart.Families(), wear)},
		{Name: "kafka", On: kafka.On, Ask: measure(kafka.Families(), brokers)},
		{Name: "mosquitto", On: mqtt.On, Ask: measure(mqtt.Families(), topics)},
		{Name: "ceph", On: ceph.On, Every: ceph.Every, Ask: measure(ceph.Families(), storage)},
	}
}

// ServeHTTP answers a question in the format that the header Accept asks for (promhttp).
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q ask.Question
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, ask.MaxQuestion)).Decode(&q); err != nil {
		http.Error(w, "the question is malformed", http.StatusBadRequest)
		return
	}
	gather := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return c.sources.Gather(r.Context(), q) })
	promhttp.HandlerFor(gather, promhttp.HandlerOpts{
		EnableOpenMetrics: true, ErrorHandling: promhttp.ContinueOnError, ErrorLog: log(c.say),
	}).ServeHTTP(w, r)
}

// log is what promhttp writes to.
type log func(string)

func (l log) Println(v ...any) { l(fmt.Sprint(v...)) }

// Serve answers on a listener until the context ends, or until nobody has asked for as long as wait; 0 is the usual.
// Who asks while it ends is answered: by this process where it has the connection, else by the next one, since the
// queue of the socket is systemd's.
func (c *Collector) Serve(ctx context.Context, l net.Listener, wait time.Duration) error {
	if wait == 0 {
		wait = idle
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	timer := time.AfterFunc(wait, stop)
	var mu sync.Mutex
	asking := 0
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		if asking += n; asking > 0 {
			timer.Stop()
			return
		}
		timer.Reset(wait)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+ask.Path, func(w http.ResponseWriter, r *http.Request) {
		count(1)
		defer count(-1)
		c.ServeHTTP(w, r)
	})
	server := &http.Server{
		Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 10 * time.Second,
	}
	ended := make(chan struct{})
	end := context.AfterFunc(ctx, func() {
		defer close(ended)
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), endBound)
		defer cancel()
		_ = server.Shutdown(bound) // Who does not listen for so long is cut off.
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		end()
		return fmt.Errorf("answer the API: %w", err)
	}
	// Serve returns when Shutdown begins. The process must not end before those are answered who were let in.
	<-ended
	return nil
}
