package enroll

import (
	"bytes"
	"cmp"
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

	"spore/pki/attest"
)

// Bounds of what is kept. Who is on the network can send claims without end, and from many addresses. Whoever still
// asks keeps his place against them: a claim that finds none is refused, and its machine asks again.
const (
	maxRequests  = 256
	maxPerRemote = 16
	// silent is from when on a machine's place may be taken: the longest time between two questions is a minute.
	silent = 3 * time.Minute
	// askFor is how long a machine's TPM is asked with a nonce.
	askFor = 2 * time.Minute
)

// Retry is how long a machine is asked to wait before it asks again, in seconds.
const Retry = 5

// ServerOptions are what a Server works with.
type ServerOptions struct {
	// Cluster is the cluster's id.
	Cluster string
	// Known tells whether the configuration has a node.
	Known func(node string) bool
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
	// Delivered says that the bundle was handed out at least once.
	Delivered bool `json:"delivered,omitempty"`
	// Holder is the fingerprint of the machine that has the node, in the state Given; in the state Waiting, that of one
	// that said the same of itself. Since is when that one was approved, or this one in the state Approved. It is zero
	// where that is not known.
	Holder string    `json:"holder,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	sealed []byte
	// nonce is what the machine's TPM is asked with, since asked; nil while nobody asks.
	nonce []byte
	asked time.Time
}

// Approval is the bundle for a claim, encrypted to it (Seal). Who reads it can do nothing with it; so it can be kept
// where the server reads it, and outlives the server's end.
type Approval struct {
	Claim  Claim  `json:"claim"`
	Sealed []byte `json:"sealed"`
	// At is when the operator approved; zero in files of older versions.
	At time.Time `json:"at,omitzero"`
}

// ParseApproval reads an approval that was kept.
func ParseApproval(data []byte) (Approval, error) {
	var a Approval
	if len(data) > 2*maxSealed {
		return a, fmt.Errorf("%w: an approval of %d bytes", ErrForm, len(data))
	}
	if err := decode(data, &a); err != nil {
		return a, err
	}
	if len(a.Sealed) == 0 || len(a.Sealed) > maxSealed {
		return a, fmt.Errorf("%w: a bundle of %d bytes", ErrForm, len(a.Sealed))
	}
	claim, err := json.Marshal(a.Claim)
	if err != nil {
		return a, err
	}
	a.Claim, err = ParseClaim(claim)
	return a, err
}

// Server collects claims, and hands out bundles for those that the operator approved. It is an http.Handler. Claims are
// gone when the process ends, and machines ask again; Approvals can be given to the next one.
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
	q, fresh, ok := s.note(claim, remote)
	if !ok {
		w.Header().Set("Retry-After", fmt.Sprint(Retry))
		http.Error(w, "too many machines wait for an approval; this one has to ask again", http.StatusTooManyRequests)
		return
	}
	if fresh && s.Changed != nil {
		s.Changed(q)
	}
	s.answer(w, q)
}

func (s *Server) answer(w http.ResponseWriter, q Request) {
	if q.State == Approved {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", fmt.Sprint(len(q.sealed)))
		_, _ = w.Write(q.sealed) // Who hung up asks again.
		return
	}
	p := Pending{State: q.State, Fingerprint: q.Fingerprint}
	code := http.StatusAccepted
	switch q.State {
	case Waiting:
		p.Message = "waiting for the operator's approval"
	case Given:
		p.Message, p.Holder, p.Since = "another machine has this node", q.Holder, q.Since
	case Unknown:
		p.Message = "the configuration has no such node"
	case Denied:
		p.Message, code = "the operator refused this key", http.StatusForbidden
	}
	// Also when there is an answer: everybody can send one, and only that of the machine is any good.
	if q.State != Unknown && q.nonce != nil && s.Now().Sub(q.asked) < askFor {
		p.Nonce = q.nonce
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", fmt.Sprint(Retry))
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(p) // Who hung up asks again.
}

// note keeps a claim; fresh says that it was not there, and ok is false when there is no place for it.
func (s *Server) note(c Claim, remote string) (_ Request, fresh, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, now := c.Fingerprint(), s.Now()
	q, found := s.requests[id]
	if !found {
		q = &Request{Fingerprint: id, Remote: remote, First: now, State: Waiting}
		if !s.makeRoom(q, s.known(c)) {
			return Request{}, false, false
		}
		s.requests[id] = q
	}
	// Everybody can send what he has heard of a claim, with cards and numbers of his own: they are not in the fingerprint,
	// and the first ones, which the machine sent, stay. A claim without an answer takes none away, and the last answer is
	// kept.
	if !found {
		q.Claim = c
		q.Claim.Evidence = nil
	}
	if c.Evidence != nil && q.nonce != nil && bytes.Equal(c.Evidence.Nonce, q.nonce) {
		q.Claim.Evidence = c.Evidence
	}
	q.Last = now
	s.judge(q)
	// Before it is sent: a refusal from here on comes too late, and has to say so.
	q.Delivered = q.Delivered || q.State == Approved
	// A place belongs to the address that took it: else a repeated claim would have it counted among those of another one.
	if q.Remote == "" || q.State == Approved {
		q.Remote = remote
	}
	return *q, !found, true
}

func (s *Server) known(c Claim) bool { return c.Node != "" && s.Known(c.Node) }

// judge says for what a request waits that the operator has not decided on.
func (s *Server) judge(q *Request) {
	if q.State == Approved || q.State == Denied {
		return
	}
	q.State, q.Holder, q.Since = Waiting, "", time.Time{}
	if !s.known(q.Claim) {
		q.State = Unknown
		return
	}
	for _, o := range s.requests {
		if o.State != Approved || o.Claim.Node != q.Claim.Node {
			continue
		}
		q.Holder, q.Since = o.Fingerprint, o.Since
		if !o.Claim.SameMachine(q.Claim) {
			q.State = Given
		}
	}
}

// makeRoom sees to a place for a request. An approved one has its place beside the others: there is one for each node.
// Of the others, those make room that nobody has asked for any more; when all are in use, the newest of the address
// that has the most, if it has two more than the one that wants a place, and then the newest of a machine that is no
// node.
func (s *Server) makeRoom(want *Request, known bool) bool {
	byRemote := map[string][]*Request{}
	n := 0
	for id, q := range s.requests {
		switch {
		case q.State == Approved:
		case want.First.Sub(q.Last) > silent:
			delete(s.requests, id)
		default:
			byRemote[q.Remote] = append(byRemote[q.Remote], q)
			n++
		}
	}
	if len(byRemote[want.Remote]) >= maxPerRemote {
		return false
	}
	if n < maxRequests {
		return true
	}
	var most, unknown []*Request
	for _, list := range byRemote {
		if len(list) > len(most) {
			most = list
		}
		for _, q := range list {
			if q.State == Unknown {
				unknown = append(unknown, q)
			}
		}
	}
	switch {
	case len(most) >= len(byRemote[want.Remote])+2:
	case known && len(unknown) > 0:
		most = unknown
	default:
		return false
	}
	newest := slices.MaxFunc(most, func(a, b *Request) int {
		return cmp.Or(a.First.Compare(b.First), strings.Compare(a.Fingerprint, b.Fingerprint))
	})
	delete(s.requests, newest.Fingerprint)
	return true
}

// Requests lists what came, the newest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Request
	for _, q := range s.requests {
		s.judge(q)
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

// Approve has a bundle handed out to the machine with that claim from now on. An earlier approval for the same node
// ends: whoever calls has seen to it that the operator wants that. It need not have asked this server yet.
func (s *Server) Approve(a Approval) error {
	c := a.Claim
	if !strings.EqualFold(c.Cluster, s.Cluster) {
		return fmt.Errorf("the approval of %s is for another cluster", c.Fingerprint())
	}
	if !s.known(c) {
		return c.NotKnown()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.requests {
		if other.Claim.Node == c.Node && other.State == Approved {
			other.State, other.sealed, other.Delivered = Waiting, nil, false
		}
	}
	id, now := c.Fingerprint(), s.Now()
	q := s.requests[id]
	if q == nil {
		q = &Request{Fingerprint: id, Claim: c, First: now, Last: now}
		s.requests[id] = q
	}
	q.State, q.sealed, q.Delivered, q.nonce, q.Holder, q.Since = Approved, a.Sealed, false, nil, "", a.At
	return nil
}

// NotKnown says what to do about a machine that does not match any node.
func (c Claim) NotKnown() error {
	return fmt.Errorf("the machine with the fingerprint %s does not match any node of the configuration; add it (MACs %s, serial number %s), build, and boot it again",
		c.Fingerprint(), strings.Join(c.MACs, ", "), c.Serial)
}

// Challenge has the machine's TPM asked with a nonce, which its next claims answer.
func (s *Server) Challenge(fingerprint string, nonce []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(fingerprint)
	if err != nil {
		return err
	}
	if len(nonce) != attest.NonceSize {
		return fmt.Errorf("a nonce has %d bytes, and this one %d", attest.NonceSize, len(nonce))
	}
	if q.Claim.TPM == nil {
		return fmt.Errorf("the machine with the fingerprint %s has shown no TPM", q.Fingerprint)
	}
	q.nonce, q.asked, q.Claim.Evidence = nonce, s.Now(), nil
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
	q.State, q.sealed, q.Holder, q.Since = Denied, nil, "", time.Time{}
	return nil
}
