// Package metricspage serves the page of the cluster's store of metrics on the operator's own machine, to the browser of
// whoever was told its address. It asks a node for what the page wants. It leaves out what the page could change.
package metricspage

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// tokenBytes is how much chance is in the address.
const tokenBytes = 16

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
	token string
	turns chan struct{}
}

// New returns the handler and the path at which a browser is let in.
//
// The path has a secret. A browser that asks for it gets a cookie and is sent to the page; who has neither is refused.
// Others on this machine can reach the port, and pages of the web can have a browser ask it: they know no secret, their
// requests are without the cookie (SameSite=Strict), and a name of theirs that leads here is not the Host.
func New(o Options) (h http.Handler, entrance string, err error) {
	secret := make([]byte, tokenBytes)
	if _, err := io.ReadFull(o.Random, secret); err != nil {
		return nil, "", fmt.Errorf("make the secret of the address: %w", err)
	}
	s := &server{Options: o, token: hex.EncodeToString(secret), turns: make(chan struct{}, atOnce)}
	return s, "/" + s.token, nil
}

// cookie has the port in its name: browsers keep one set of cookies for all ports of an address.
func (s *server) cookie() string {
	_, port, _ := net.SplitHostPort(s.Host)
	return "spore-metrics-" + port
}

func (s *server) known(given string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(s.token)) == 1
}

// policy keeps what the page's programs, which come from a node, do to the page itself.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"font-src 'self' data:; connect-src 'self'; manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// ServeHTTP answers a browser.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	if r.Host != s.Host {
		http.Error(w, "this is not the address of the page", http.StatusMisdirectedRequest)
		return
	}
	if r.Method != http.MethodGet {
		http.Error(w, "the page is for reading", http.StatusMethodNotAllowed)
		return
	}
	if len(r.URL.Path) > 1 && s.known(r.URL.Path[1:]) {
		http.SetCookie(w, &http.Cookie{Name: s.cookie(), Value: s.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		http.Redirect(w, r, "/vmui/", http.StatusSeeOther)
		return
	}
	// Cookies are for all ports of an address: pages of other programs on this machine would have it sent, too.
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		http.Error(w, "another page asks for it", http.StatusForbidden)
		return
	}
	if c, err := r.Cookie(s.cookie()); err != nil || !s.known(c.Value) {
		http.Error(w, "open the address that spore metrics --page has printed", http.StatusForbidden)
		return
	}
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

// Serve answers at a listener until ctx is over.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	stopped := context.AfterFunc(ctx, func() { _ = s.Close() }) // it ends what there is
	defer stopped()
	if err := s.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}
