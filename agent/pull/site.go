package pull

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"spore/agent/share"
	"spore/storage/pieces"
	"spore/wire/nodeapi"
)

// Bounds of what other nodes may cost. A look of all nodes begins within a few minutes (package daemon), so that one
// who has nothing to give after gives has not looked, or cannot.
const (
	// askBound is how long one answer may take: a piece by a slow link.
	askBound = 30 * time.Second
	// A node that fails maxFailures times and for fails, without an answer between, is asked no more.
	maxFailures = 2
	fails       = 30 * time.Second
	// gives is how long a node is waited for that has given nothing yet, and idle how long no node may give anything
	// before pieces are fetched from outside; all is how long nodes are asked at most.
	gives = 10 * time.Minute
	idle  = 10 * time.Minute
	all   = 6 * time.Hour
	// firstPause and lastPause are the pauses between two questions for a piece.
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// bounds are those of the constants, shorter in tests.
type bounds struct{ ask, fails, gives, idle, all, first, last time.Duration }

func usual() bounds { return bounds{askBound, fails, gives, idle, all, firstPause, lastPause} }

// site has objects from the nodes of the cluster and from outside. Two nodes are responsible for each object
// (share.Responsible): the first fetches it from outside, the second asks the first, and all others ask both. Whom that
// does not help within the bounds fetches it from outside itself.
type site struct {
	// self is this node, of is the SHA-256 of the update's head.
	self, of string
	nodes    share.Nodes
	shelf    *share.Shelf
	outside  objects
	// ask asks a node for an object; the answer is not trusted.
	ask    func(ctx context.Context, node string, sum pieces.Sum, of string) ([]byte, error)
	bounds bounds
	say    func(string)
	// fromOutside and fromNodes count bytes.
	fromOutside, fromNodes atomic.Int64

	mu    sync.Mutex
	began time.Time
	gave  time.Time
	peers map[string]*peer
}

// peer is what is known of a node in this look.
type peer struct {
	failures int
	// since is when it began to fail.
	since      time.Time
	gave, gone bool
}

// newSite begins a look.
func newSite(s *site) *site {
	s.began = time.Now()
	s.gave, s.peers = s.began, map[string]*peer{}
	return s
}

// Expect implements objects. What this node is the first to fetch is fetched before it asks others for anything: they
// wait for it.
func (s *site) Expect(ctx context.Context, lacks []pieces.Sum) {
	room := make(chan struct{}, ahead)
	var full atomic.Bool
	var g sync.WaitGroup
	for _, sum := range lacks {
		if s.nodes.Of(sum).First != s.self || full.Load() {
			continue
		}
		room <- struct{}{}
		g.Go(func() {
			defer func() { <-room }()
			if _, err := s.shelf.Get(sum); err == nil {
				return
			}
			// What fails, or is not kept, is fetched when it is asked for.
			if _, kept, err := s.fetch(ctx, sum, true); err != nil || !kept {
				full.Store(true)
			}
		})
	}
	g.Wait()
}

// Get implements objects.
func (s *site) Get(ctx context.Context, sum pieces.Sum) ([]byte, error) {
	if content, err := s.shelf.Get(sum); err == nil {
		return content, nil
	}
	r := s.nodes.Of(sum)
	var others []string
	switch s.self {
	case r.First:
	case r.Second:
		others = []string{r.First}
	default:
		others = []string{r.First, r.Second}
	}
	mine := len(others) < 2
	if content := s.fromOthers(ctx, sum, others); content != nil {
		s.fromNodes.Add(int64(len(content)))
		s.keep(sum, content, mine)
		return content, nil
	}
	content, _, err := s.fetch(ctx, sum, mine)
	return content, err
}

// fetch has an object from outside. kept says that others can have it.
func (s *site) fetch(ctx context.Context, sum pieces.Sum, mine bool) (content []byte, kept bool, err error) {
	if content, err = s.outside.Get(ctx, sum); err != nil {
		return nil, false, err
	}
	s.fromOutside.Add(int64(len(content)))
	return content, s.keep(sum, content, mine), nil
}

// keep keeps an object for others where this node is responsible. A full disk is no reason to go without.
func (s *site) keep(sum pieces.Sum, content []byte, mine bool) bool {
	if !mine {
		return false
	}
	kept, err := s.shelf.Put(sum, content)
	if err != nil {
		s.say(err.Error())
	}
	return kept
}

// fromOthers asks nodes for an object until one gives it; nil when none does within the bounds.
func (s *site) fromOthers(ctx context.Context, sum pieces.Sum, nodes []string) []byte {
	pause := s.bounds.first
	for {
		waits := false
		for _, node := range slices.Clone(nodes) {
			if node == "" || !s.worth(node) {
				continue
			}
			content, may := s.one(ctx, node, sum)
			if content != nil {
				return content
			}
			if !may {
				nodes = slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == node })
				continue
			}
			waits = true
		}
		if !waits {
			return nil
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, s.bounds.last)
	}
}

// worth tells whether a node is to be asked.
func (s *site) worth(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, now := s.peer(node), time.Now()
	if !p.gone && !p.gave && now.Sub(s.began) > s.bounds.gives {
		p.gone = true
		s.say(node + " has given nothing of the update, and is asked no more")
	}
	return !p.gone && now.Sub(s.gave) <= s.bounds.idle && now.Sub(s.began) <= s.bounds.all
}

func (s *site) peer(node string) *peer {
	if s.peers[node] == nil {
		s.peers[node] = &peer{}
	}
	return s.peers[node]
}

// one asks a node once. may says that it may have the object later.
func (s *site) one(ctx context.Context, node string, sum pieces.Sum) (content []byte, may bool) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.bounds.ask)
	defer cancel()
	content, err := s.ask(ctx, node, sum, s.of)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peer(node)
	var refused nodeapi.Refusal
	switch {
	case err == nil && pieces.SumOf(content) == sum:
		p.failures, p.gave, s.gave = 0, true, time.Now()
		return content, true
	case err == nil:
		if !p.gone {
			s.say(fmt.Sprintf("%s gave other content than that of piece %s: it is asked no more, and the piece is "+
				"fetched elsewhere", node, sum))
		}
		p.gone = true
		return nil, false
	case errors.As(err, &refused):
		p.failures = 0
		switch refused.Status {
		case http.StatusNotFound, http.StatusServiceUnavailable:
			return nil, true
		}
		return nil, false // It will not have it, or says that this node may not ask.
	}
	if p.failures++; p.failures == 1 {
		p.since = began
	}
	if p.failures >= maxFailures && time.Since(p.since) >= s.bounds.fails && !p.gone {
		p.gone = true
		s.say(fmt.Sprintf("%s does not answer (%v): it is asked no more", node, err))
	}
	return nil, !p.gone
}

// visits asks nodes by their API.
type visits struct {
	client nodeapi.Client
	mu     sync.Mutex
	of     map[string]*nodeapi.Visit
}

// ask is what site.ask is.
func (v *visits) ask(ctx context.Context, node string, sum pieces.Sum, of string) ([]byte, error) {
	v.mu.Lock()
	visit := v.of[node]
	if visit == nil {
		var err error
		if visit, err = v.client.Visit(node); err != nil {
			v.mu.Unlock()
			return nil, err
		}
		if v.of == nil {
			v.of = map[string]*nodeapi.Visit{}
		}
		v.of[node] = visit
	}
	v.mu.Unlock()
	q := nodeapi.Request{Path: nodeapi.PiecesPath + sum.String(), Query: url.Values{nodeapi.PieceOf: {of}}}
	return visit.Read(ctx, q, pieces.MaxSize)
}

// end closes all connections.
func (v *visits) end() {
	for _, visit := range v.of {
		visit.End()
	}
}
