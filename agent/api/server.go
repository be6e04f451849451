// Package api is the node's API: what this node answers to the other nodes of its cluster and to its operator
// (protocol: package nodeapi). It is a table of rows {method, path, who may ask, handler}; everything that holds for
// all of them is here: certificates, rights, and the bounds of what one asker can take up.
//
// The server runs without privileges. What takes root it leaves to a unit of root, by a socket or by a directory that a
// path unit looks at.
package api

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"spore/wire/nodeapi"
)

// Bounds of a request. maxHeader is in bytes.
const (
	// headerBound is for the header, on a slow machine.
	headerBound = 30 * time.Second
	// usualBound is for a whole request and its answer where the row says nothing else.
	usualBound = time.Minute
	// usualStall is how long a body may bring nothing where the row says nothing else.
	usualStall = time.Minute
	maxHeader  = 16 << 10
	// usualAtOnce is how many requests of one row are answered at once.
	usualAtOnce = 64
)

// Row is one thing that the node answers.
type Row struct {
	Method string
	// Path is a pattern of http.ServeMux, such as /v1/formation/{service}.
	Path string
	// Who may ask.
	Who []nodeapi.Role
	// May looks closer at a caller who has one of the roles; the error is what is answered. Empty is everybody.
	May func(nodeapi.Caller) error
	// Body is how many bytes the request's body may have; 0 for none.
	Body int64
	// Bound is how long reading the request and answering it may take; 0 is a minute. A handler that answers for longer
	// moves the deadline by itself (http.ResponseController).
	Bound time.Duration
	// Stall is how long nothing of the body may come; 0 is a minute. Whoever is cut off from the node in the middle of
	// a body does not keep the others from asking for as long as Bound.
	Stall time.Duration
	// AtOnce is how many of these are answered at once; 0 is the usual. Others are told to come again.
	AtOnce int
	// Ended lets nodes ask whose certificate has ended. The handler must not take their names for proved (Caller.Ended).
	Ended bool
	// Traced has each request be a line of the journal, with the caller's name, and with why it was refused if it was.
	Traced bool
	// Handle answers. It is called with a caller who may ask. The request's context ends with the caller's
	// certificate, where that has an end to come.
	Handle func(http.ResponseWriter, *http.Request, nodeapi.Caller)
}

// Plain is a handler to whom it is the same who of those who may is asking.
func Plain(h http.Handler) func(http.ResponseWriter, *http.Request, nodeapi.Caller) {
	return func(w http.ResponseWriter, r *http.Request, _ nodeapi.Caller) { h.ServeHTTP(w, r) }
}

// Server answers for this node.
type Server struct {
	// Rows is the table.
	Rows []Row
	// Node is the name of this node, which certificates are limited by; those that are limited are refused without it.
	Node string
	// Withdrawn returns the serial numbers of certificates that are refused from now on, and whose connections are
	// closed. It is called often. Nil is none.
	Withdrawn func() map[string]bool
	// Identity reads what the node shows and whom it trusts. It is called for each connection, so that what was renewed is
	// shown from then on.
	Identity func() (nodeapi.Identity, error)
	// Say is told what goes wrong, and who asks what of rows that are traced.
	Say func(string)
	// Now is time.Now but in tests.
	Now func() time.Time
	// Behind tells whether the clock is known to be too early (nodeapi.Clock). Nil is never.
	Behind func() bool
}

// Serve answers on a listener until the context ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if _, err := s.config(func(nodeapi.Caller) error { return nil }); err != nil { // Rather than to refuse everybody.
		return err
	}
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerBound, ReadTimeout: usualBound, WriteTimeout: usualBound,
		IdleTimeout: usualBound, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, c.(*tls.Conn).NetConn())
		},
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // no HTTP/2: see nodeapi.Identity
		// What goes wrong on a connection is told to whoever has it; here it would fill the journal.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	greeting := &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		config, err := s.config(func(caller nodeapi.Caller) error {
			if s.withdrawn()[caller.Serial] {
				return errWithdrawn
			}
			if now := s.Now(); now.Before(caller.Begins) {
				s.Say(fmt.Sprintf("lets %.64q in with a certificate (%s) that begins at %s: this clock is known to be too early",
					caller.Name, caller.Serial, caller.Begins.UTC().Format(time.RFC3339)))
			}
			hello.Conn.(*connection).caller = caller
			return nil
		})
		if err != nil {
			s.Say(err.Error())
		}
		return config, err
	}}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	d := newDoor(l, greeting, s.Say)
	go s.evict(d)
	err := server.Serve(d)
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("answer nodes and operators: %w", err)
}

// config is what a connection begins with.
func (s *Server) config(greet func(nodeapi.Caller) error) (*tls.Config, error) {
	id, err := s.Identity()
	if err != nil {
		return nil, err
	}
	return id.ServerConfig(nodeapi.Clock{Now: s.Now(), Behind: s.Behind != nil && s.Behind()}, greet)
}

// evictEvery is how often it is looked whether somebody who is served may be no longer.
const evictEvery = time.Second

// evict closes the connections of certificates that were withdrawn, until the door is closed.
func (s *Server) evict(d *door) {
	beat := time.NewTicker(evictEvery)
	defer beat.Stop()
	for {
		select {
		case <-d.closed:
			return
		case <-beat.C:
			if out := s.withdrawn(); len(out) > 0 {
				d.cut(func(c nodeapi.Caller) bool { return out[c.Serial] })
			}
		}
	}
}

// errWithdrawn is why somebody is refused whose certificate was withdrawn.
var errWithdrawn = errors.New("this certificate was withdrawn by the configuration")

// withdrawn are the certificates that are refused.
func (s *Server) withdrawn() map[string]bool {
	if s.Withdrawn == nil {
		return nil
	}
	return s.Withdrawn()
}

// handler is the table as one handler.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.Rows {
		mux.Handle(r.Method+" "+r.Path, s.guard(r))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		// Whoever may ask nothing at all learns nothing of what there is, either.
		caller := callerOf(r)
		err := caller.MayAsk(s.Node)
		switch {
		case len(caller.Roles) == 0:
			err = errors.New("this certificate is neither that of a node nor that of an operator")
		case s.withdrawn()[caller.Serial]:
			err = errWithdrawn
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// guard holds a row to its bounds, and others than those who may ask off it.
func (s *Server) guard(row Row) http.Handler {
	atOnce, bound := row.AtOnce, row.Bound
	if atOnce == 0 {
		atOnce = usualAtOnce
	}
	if bound == 0 {
		bound = usualBound
	}
	room := make(chan struct{}, atOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := callerOf(r)
		refuse := func(status int, why string) {
			s.trace(row, r, caller, ", which is refused: "+why)
			http.Error(w, why, status)
		}
		if !caller.Is(row.Who...) {
			refuse(http.StatusForbidden, fmt.Sprintf("%s %s is for certificates of %s", row.Method, row.Path, names(row.Who)))
			return
		}
		// A connection may outlive the certificate that it was opened with.
		left := caller.Ends.Sub(s.Now())
		if life := caller.Ends.Sub(caller.Begins); left > life {
			left = life // The clock is too early (nodeapi.Clock).
		}
		if left <= 0 && !row.Ended {
			// Whoever has another one by now, as a scraper that asks twice a minute for months, is to begin anew with that.
			w.Header().Set("Connection", "close")
			refuse(http.StatusForbidden, "the certificate has ended at "+caller.Ends.Format(time.RFC3339))
			return
		}
		if row.May != nil {
			if err := row.May(caller); err != nil {
				refuse(http.StatusForbidden, err.Error())
				return
			}
		}
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
		default:
			refuse(http.StatusServiceUnavailable, "too many ask this at once; come again")
			return
		}
		control := http.NewResponseController(w)
		until := time.Now().Add(bound)
		if err := errors.Join(control.SetReadDeadline(until), control.SetWriteDeadline(until)); err != nil {
			s.Say(fmt.Sprintf("bound %s %s: %v", row.Method, row.Path, err))
			return
		}
		if !row.Ended {
			ctx, cancel := context.WithTimeout(r.Context(), left)
			defer cancel()
			r = r.WithContext(ctx)
		}
		body := &steady{ReadCloser: r.Body, control: control, stall: cmp.Or(row.Stall, usualStall), until: until}
		r.Body = http.MaxBytesReader(w, body, row.Body)
		s.trace(row, r, caller, "")
		row.Handle(w, r, caller)
	})
}

// steady is a body that ends with an error when nothing of it comes for a while.
type steady struct {
	io.ReadCloser
	control *http.ResponseController
	stall   time.Duration
	// until is the end of the whole request.
	until time.Time
}

func (s *steady) Read(b []byte) (int, error) {
	end := time.Now().Add(s.stall)
	if end.After(s.until) {
		end = s.until
	}
	if err := s.control.SetReadDeadline(end); err != nil {
		return 0, err
	}
	n, err := s.ReadCloser.Read(b)
	// Behind the body the server looks whether the asker is still there, and takes a deadline for his end.
	if failed := s.control.SetReadDeadline(s.until); err == nil {
		err = failed
	}
	return n, err
}

// trace says who asks what. A name and an address may hold anything: the line is quoted.
func (s *Server) trace(row Row, r *http.Request, caller nodeapi.Caller, end string) {
	if row.Traced {
		s.Say(fmt.Sprintf("%.64q (%s) at %s asks %s %.256q%s",
			caller.Name, names(caller.Roles), r.RemoteAddr, r.Method, r.URL.RequestURI(), end))
	}
}

func names(who []nodeapi.Role) string {
	var out []string
	for _, r := range who {
		out = append(out, string(r))
	}
	slices.Sort(out)
	return strings.Join(out, " or ")
}
