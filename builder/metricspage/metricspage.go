// Package metricspage serves the page of the cluster's store of metrics on the operator's own machine, to the browser
// of whoever was told its address. It asks a node for what the page wants. It leaves out what the page could change.
package metricspage

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"spore/builder/entrance"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// atOnce is how many requests wait for the node; a node answers as many of one caller (verb metrics-page).
const atOnce = 8

// maxBody bounds an answer, in bytes.
const maxBody = 33 << 20

// Options are what the page needs.
type Options struct {
	// Host is the address with the port at which the browser asks.
	Host string
	// Random gives what nobody guesses.
	Random io.Reader
	// Check tells whether the nodes take an order, and Ask asks one and gives each part of its answer to take.
	Check func(nodeapi.Order) error
	Ask   func(ctx context.Context, o nodeapi.Order, take func(machine.Page) error) error
}

type server struct {
	Options
	turns chan struct{}
}

// New returns the handler and the path at which a browser is let in (package entrance).
func New(o Options) (h http.Handler, path string, err error) {
	s := &server{o, make(chan struct{}, atOnce)}
	return entrance.New(entrance.Options{
		Host: o.Host, Name: "spore-metrics", Command: "spore metrics --page", First: "/vmui/", Random: o.Random, Methods: []string{http.MethodGet},
	}, s)
}

// policy keeps what the page's programs, which come from a node, do to the page itself.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"font-src 'self' data:; connect-src 'self'; manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// ServeHTTP answers a browser that was let in.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", policy)
	if r.URL.Path == "/" {
		http.Redirect(w, r, "/vmui/", http.StatusSeeOther)
		return
	}
	order := nodeapi.Order{Arguments: map[string]string{"path": r.URL.Path}}
	if r.URL.RawQuery != "" {
		order.Arguments["query"] = r.URL.RawQuery
	}
	if err := s.Check(order); err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	s.forward(w, r, order)
}

// forward asks the node, and answers with what it says.
func (s *server) forward(w http.ResponseWriter, r *http.Request, order nodeapi.Order) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-r.Context().Done():
		return
	}
	begun, size := false, 0
	err := s.Ask(r.Context(), order, func(p machine.Page) error {
		if size += len(p.Body); size > maxBody {
			return fmt.Errorf("the answer has more than %d MiB", maxBody>>20)
		}
		if !begun {
			// What leads elsewhere, and what is no answer, the page has no use for.
			if p.Status < 200 || p.Status > 599 || p.Status >= 300 && p.Status < 400 {
				return fmt.Errorf("the store answers with the status %d", p.Status)
			}
			begun = true
			if p.Type != "" {
				w.Header().Set("Content-Type", p.Type)
			}
			w.WriteHeader(p.Status)
		}
		_, err := w.Write(p.Body)
		return err
	})
	switch {
	case err == nil:
	case begun: // The browser is to see that the rest is missing.
		panic(http.ErrAbortHandler)
	default:
		http.Error(w, nodeapi.Harmless(err.Error()), http.StatusBadGateway)
	}
}
