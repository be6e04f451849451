package answers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"spore/agent/api"
	"spore/agent/node"
	"spore/cluster/facts"
	"spore/services/logs"
	"spore/wire/nodeapi"
)

const (
	// maxBatches are handed over at once, and entriesBound is how long one may take, and entriesStall how long nothing of
	// it may come.
	maxBatches   = 64
	entriesBound = 2 * time.Minute
	entriesStall = 20 * time.Second
	// entriesSaid is how often it is said that nobody takes what nodes log.
	entriesSaid = time.Minute
	// maxToldBytes bounds what is passed on of an answer.
	maxToldBytes = 4 << 10
)

// noTaker is what a node is told whose batch nobody takes. It keeps it, and asks again.
const noTaker = "the store of logs does not answer; see the journal of spore-logs-store.service"

// entriesRow hands what nodes log over to the store's program, with the name of the node whose certificate it came
// with.
func entriesRow(m *node.Machine, c *facts.Cluster, n *facts.Node) api.Row {
	here := logs.Stores(c, n.Name)
	say := atMost(entriesSaid, m.Say)
	transport := &http.Transport{
		DisableCompression: true, MaxIdleConns: maxBatches, MaxIdleConnsPerHost: maxBatches,
		IdleConnTimeout: 10 * time.Second, MaxResponseHeaderBytes: 16 << 10, ResponseHeaderTimeout: entriesBound,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", m.Root.At(logs.TakerSocket))
		},
	}
	return api.Row{
		Method: http.MethodPost, Path: nodeapi.EntriesPath, Who: nodeapi.Senders(),
		Body: nodeapi.MaxPackedEntries, AtOnce: maxBatches, Bound: entriesBound, Stall: entriesStall,
		Handle: func(w http.ResponseWriter, r *http.Request, from nodeapi.Caller) {
			switch {
			case !here:
				http.Error(w, n.Name+" has no store of logs; give all nodes the same configuration", http.StatusNotFound)
			case from.Name == "" || from.Ended || !m.Part.HasNode(from.Name):
				http.Error(w, "the configuration of "+n.Name+" has no node with the name of this certificate", http.StatusForbidden)
			default:
				handOver(w, r, say, transport, from.Name)
			}
		},
	}
}

// atMost says something at most once in a while: all nodes ask again every few seconds, and each line is one that they
// bring.
func atMost(every time.Duration, say func(string)) func(string) {
	var mu sync.Mutex
	var last time.Time
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); last.IsZero() || now.Sub(last) >= every {
			last = now
			say(text)
		}
	}
}

// handOver has the store's program answer.
func handOver(w http.ResponseWriter, r *http.Request, say func(string), store http.RoundTripper, from string) {
	answer, err := batchTo(r, store, from)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		http.Error(w, fmt.Sprintf("a batch has at most %d bytes", large.Limit), http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		if r.Context().Err() == nil {
			say("hand over what " + from + " logs: " + err.Error())
		}
		w.Header().Set("Retry-After", "5")
		http.Error(w, noTaker, http.StatusServiceUnavailable)
		return
	}
	defer answer.Body.Close()
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if of := answer.Header[name]; len(of) > 0 {
			w.Header()[name] = of
		}
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(answer.Body, maxToldBytes))
}

// batchTo sends a batch to the store's program. Of the request nothing but the batch and its form is passed on.
func batchTo(r *http.Request, store http.RoundTripper, from string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "http://store"+nodeapi.EntriesPath, r.Body)
	if err != nil {
		return nil, err
	}
	q.ContentLength = r.ContentLength
	for _, name := range []string{"Content-Type", "Content-Encoding", "Date"} {
		q.Header[name] = r.Header[name]
	}
	q.Header.Set(nodeapi.EntriesOf, from)
	return store.RoundTrip(q)
}
