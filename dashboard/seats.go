package dashboard

import (
	"context"
	"fmt"
	"sync"
)

// seats are something of which only so many are had at once. Of the guests of a node, each has only some of them, so that
// nobody keeps all others out.
type seats struct {
	all, each int
	// full and own say why there is none, with the number: of all, and of the guest himself.
	full, own string

	mu    sync.Mutex
	taken int
	// of has how many each guest has, by name: who has several certificates is one.
	of map[string]int
}

// take takes a seat for whoever asks, until leave is called. Where leave is nil, there is none, and why says so.
func (s *seats) take(ctx context.Context) (leave func(), why string) {
	g, known := ctx.Value(guestKey{}).(*Guest)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.taken >= s.all:
		return nil, fmt.Sprintf(s.full, s.all)
	case known && s.of[g.Name] >= s.each:
		return nil, fmt.Sprintf(s.own, s.each)
	}
	s.taken++
	if known {
		if s.of == nil {
			s.of = map[string]int{}
		}
		s.of[g.Name]++
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.taken--; !known {
			return
		}
		if s.of[g.Name]--; s.of[g.Name] == 0 {
			delete(s.of, g.Name)
		}
	}), ""
}
