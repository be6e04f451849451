package answers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"spore/agent/api"
	"spore/agent/health"
	"spore/agent/metrics/ask"
	"spore/agent/node"
	"spore/agent/rolehealth"
	"spore/cluster/facts"
	"spore/services"
	"spore/services/kafka"
	"spore/wire/nodeapi"
)

const (
	// maxScrapes are answered at once, and scrapeBound is how long one may take, on a slow machine.
	maxScrapes  = 4
	scrapeBound = 30 * time.Second
	// healthPatience is how long a scrape waits for the conditions of health, and healthKept how long those are told that
	// came later: a role of the configuration's own has five seconds to answer for itself.
	healthPatience = 60 * time.Millisecond
	healthKept     = time.Minute
)

// metricsRow answers what the collector has measured, in the format that the caller asks for (package serve). The
// caller's wishes of format are passed on; nothing else of the request is.
func metricsRow(m *node.Machine, c *facts.Cluster, n *facts.Node, lines *rolehealth.Lines) api.Row {
	conditions := &latest{find: func() []nodeapi.Condition {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeBound)
		defer cancel()
		return health.Of(healthInput(ctx, m, c, n, lines)).Conditions
	}}
	question := questionOf(m, c, n)
	return api.Row{
		Method: http.MethodGet, Path: nodeapi.MetricsPath, Who: nodeapi.Scrapers(), AtOnce: maxScrapes, Bound: scrapeBound,
		Handle: func(w http.ResponseWriter, r *http.Request, _ nodeapi.Caller) {
			q := question
			q.Health = conditions.within(r.Context(), healthPatience)
			scrape(w, r, m, q)
		},
	}
}

// questionOf is what the collector has to know of the configuration.
func questionOf(m *node.Machine, c *facts.Cluster, n *facts.Node) ask.Question {
	q := ask.Question{}
	for _, p := range services.NodePrograms(c, n) {
		q.Programs = append(q.Programs, p.Name)
	}
	if len(n.IPs) > 0 {
		q.Address = n.IPs[0]
	}
	if !slices.Contains(kafka.Brokers(c), n.Name) {
		return q
	}
	q.Broker, q.Brokers = kafka.ID(n.Name), map[int32]string{}
	for _, name := range kafka.Brokers(c) {
		if b, err := m.Part.Node(name); err == nil && len(b.IPs) > 0 {
			q.Brokers[kafka.ID(name)] = net.JoinHostPort(b.IPs[0], strconv.Itoa(kafka.BrokerPort))
		}
	}
	return q
}

// noCollector is what a caller is told whose question nobody takes.
const noCollector = "the collector does not answer; see the journal of spore-metrics.service"

// scrape asks the collector, and gives the caller what it answers.
func scrape(w http.ResponseWriter, r *http.Request, m *node.Machine, q ask.Question) {
	fail := func(err error) {
		m.Say("answer with metrics: " + err.Error())
		http.Error(w, noCollector, http.StatusServiceUnavailable)
	}
	body, err := json.Marshal(q)
	if err != nil {
		fail(err)
		return
	}
	answer, err := collected(r, m.Root.At(ask.Socket), body)
	if err != nil && r.Context().Err() == nil {
		// One that ends because nobody has asked for a while may have taken the connection and nothing of it.
		answer, err = collected(r, m.Root.At(ask.Socket), body)
	}
	if err != nil {
		fail(err)
		return
	}
	defer answer.Body.Close()
	for _, name := range []string{"Content-Type", "Content-Encoding", "Vary"} {
		w.Header()[name] = answer.Header[name]
	}
	w.WriteHeader(answer.StatusCode)
	n, err := io.Copy(w, io.LimitReader(answer.Body, ask.MaxAnswer+1))
	if err == nil && n > ask.MaxAnswer {
		err = fmt.Errorf("the answer has more than %d MiB", ask.MaxAnswer>>20)
	}
	// One that has gone, a collector that ends in the middle, or that does not end, leaves an answer without its end:
	// nobody is to take a part of the metrics for all of them.
	if err != nil && r.Context().Err() == nil {
		m.Say("answer with metrics: " + err.Error())
		panic(http.ErrAbortHandler)
	}
}

// collected asks the collector at a socket a question, which is JSON.
func collected(r *http.Request, socket string, question []byte) (*http.Response, error) {
	const at = "http://collector" + ask.Path
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, at, bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"Accept", "Accept-Encoding"} {
		request.Header[name] = r.Header[name]
	}
	transport := &http.Transport{
		DisableCompression: true, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}
	return transport.RoundTrip(request)
}

// latest finds something out in the background, and keeps it for a while.
type latest struct {
	find func() []nodeapi.Condition

	mu      sync.Mutex
	running chan struct{}
	found   []nodeapi.Condition
	at      time.Time
}

// within is what was found within a while, else what was found last; nil when that is too long ago.
func (l *latest) within(ctx context.Context, patience time.Duration) []nodeapi.Condition {
	done := l.begin()
	enough := time.NewTimer(patience)
	defer enough.Stop()
	select {
	case <-done:
	case <-enough.C:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) > healthKept {
		return nil
	}
	return l.found
}

// begin looks, unless that goes on already.
func (l *latest) begin() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running != nil {
		return l.running
	}
	done := make(chan struct{})
	l.running = done
	go func() {
		defer close(done)
		found := l.find()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running, l.found, l.at = nil, found, time.Now()
	}()
	return done
}
