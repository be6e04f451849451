package enroll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"spore/pki/seal"
)

// Bounds of what is kept. Who is on the network can send claims without end: the oldest that nobody approved make room.
const (
	maxRequests  = 256
	maxPerRemote = 16
)

// Retry is how long a machine is asked to wait before it asks again, in seconds.
const Retry = 5

// ServerOptions are what a Server works with.
type ServerOptions struct {
	// Cluster is the cluster's id.
	Cluster string
	// Known tells whether the configuration has a node.
	Known func(node string) bool
	// Bundle makes the bundle of a node, signed and not encrypted. It is called for each approval, by whoever approves.
	Bundle func(ctx context.Context, node string) ([]byte, error)
	// Now is the time.
	Now func() time.Time
	// Changed is called, when it is not nil, after a request came that was not there before.
	Changed func(Request)
}

// Request is a claim that came.
type Request struct {
	Fingerprint string `json:"fingerprint"`
	Claim       Claim  `json:"claim"`
	// Remote is the address that it came from.
	Remote string    `json:"remote"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	State  string    `json:"state"`
	// Delivered says that the bundle was sent at least once.
	Delivered bool `json:"delivered,omitempty"`
	sealed    []byte
}

// Server collects claims, and hands out bundles for those that the operator approved. It is an http.Handler. What it knows is
// gone when the process ends: machines ask again, and are approved again.
type Server struct {
	ServerOptions
	mu       sync.Mutex
	requests map[string]*Request
}

// NewServer returns a server without requests.
func NewServer(o ServerOptions) *Server {
	return &Server{ServerOptions: o, requests: map[string]*Request{}}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "a machine sends its claim by POST", http.StatusMethodNotAllowed)
		return
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxClaim))
	if err != nil {
		http.Error(w, "the claim could not be read", http.StatusBadRequest)
		return
	}
	claim, err := ParseClaim(data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !strings.EqualFold(claim.Cluster, s.Cluster) {
		http.Error(w, "this server is of another cluster", http.StatusConflict)
		return
	}
	remote, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		remote = r.RemoteAddr
	}
	q, fresh := s.note(claim, remote)
	if fresh && s.Changed != nil {
		s.Changed(q)
	}
	s.answer(w, q)
}

func (s *Server) answer(w http.ResponseWriter, q Request) {
	if q.State == Approved {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", fmt.Sprint(len(q.sealed)))
		if _, err := w.Write(q.sealed); err == nil {
			s.delivered(q.Fingerprint)
		}
		return
	}
	p := Pending{State: q.State, Fingerprint: q.Fingerprint}
	code := http.StatusAccepted
	switch q.State {
	case Waiting:
		p.Message = "waiting for the operator's approval"
	case Unknown:
		p.Message = "the configuration has no such node"
	case Denied:
		p.Message, code = "the operator refused this key", http.StatusForbidden
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", fmt.Sprint(Retry))
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(p) // Who hung up asks again.
}

// note keeps a claim; fresh says that it was not there.
func (s *Server) note(c Claim, remote string) (_ Request, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, now := c.Fingerprint(), s.Now()
	q, ok := s.requests[id]
	if !ok {
		s.makeRoom(remote)
		q = &Request{Fingerprint: id, First: now, State: Waiting}
		s.requests[id] = q
	}
	if q.State == Waiting || q.State == Unknown {
		q.State = Waiting
		if c.Node == "" || !s.Known(c.Node) {
			q.State = Unknown
		}
	}
	q.Claim, q.Remote, q.Last = c, remote, now
	return *q, !ok
}

// makeRoom drops what was heard of longest ago, of one address that has sent many keys, or of all.
func (s *Server) makeRoom(remote string) {
	var mine, all []*Request
	for _, q := range s.requests {
		if q.State == Approved {
			continue
		}
		all = append(all, q)
		if q.Remote == remote {
			mine = append(mine, q)
		}
	}
	for _, from := range []struct {
		list []*Request
		full bool
	}{{mine, len(mine) >= maxPerRemote}, {all, len(s.requests) >= maxRequests}} {
		if from.full && len(from.list) > 0 {
			oldest := slices.MinFunc(from.list, func(a, b *Request) int { return a.Last.Compare(b.Last) })
			delete(s.requests, oldest.Fingerprint)
			return
		}
	}
}

func (s *Server) delivered(fingerprint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.requests[fingerprint]; q != nil {
		q.Delivered = true
	}
}

// Requests lists what came, the newest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Request
	for _, q := range s.requests {
		out = append(out, *q)
	}
	sort.Slice(out, func(i, j int) bool {
		if !out[i].First.Equal(out[j].First) {
			return out[i].First.After(out[j].First)
		}
		return out[i].Fingerprint < out[j].Fingerprint
	})
	return out
}

// ErrNoRequest is a fingerprint that no machine sent.
var ErrNoRequest = errors.New("no machine has sent this fingerprint")

// find takes a fingerprint as people type it.
func (s *Server) find(fingerprint string) (*Request, error) {
	q := s.requests[strings.ToLower(strings.TrimSpace(fingerprint))]
	if q == nil {
		return nil, fmt.Errorf("%.40q: %w; compare it with the machine's console", fingerprint, ErrNoRequest)
	}
	return q, nil
}

// Approve makes the bundle of the node that a machine claims to be, and has it handed out to that machine's key from now on.
// An earlier approval for the same node ends.
func (s *Server) Approve(ctx context.Context, fingerprint string) error {
	s.mu.Lock()
	q, err := s.find(fingerprint)
	var claim Claim
	if err == nil {
		claim = q.Claim
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if claim.Node == "" || !s.Known(claim.Node) {
		return fmt.Errorf("the machine with the fingerprint %s is no node of the configuration; add it (MACs %s, serial number %s), build, and boot it again", claim.Fingerprint(), strings.Join(claim.MACs, ", "), claim.Serial)
	}
	// Without the lock: it may ask the operator for a passphrase.
	data, err := s.Bundle(ctx, claim.Node)
	if err != nil {
		return fmt.Errorf("make the bundle of %s: %w", claim.Node, err)
	}
	sealed, err := seal.ForRecipients(data, []string{claim.Key})
	if err != nil {
		return fmt.Errorf("encrypt the bundle of %s: %w", claim.Node, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q, err = s.find(fingerprint); err != nil {
		return err
	}
	for _, other := range s.requests {
		if other.Claim.Node == claim.Node && other.State == Approved {
			other.State, other.sealed, other.Delivered = Waiting, nil, false
		}
	}
	q.State, q.sealed, q.Delivered = Approved, sealed, false
	return nil
}

// Deny refuses a machine; an approval ends. What it was sent before it has.
func (s *Server) Deny(fingerprint string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(fingerprint)
	if err != nil {
		return err
	}
	q.State, q.sealed = Denied, nil
	return nil
}
