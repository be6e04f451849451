package ntp

import (
	"net/netip"
	"sync"
	"time"
)

// Limits of answers. timesyncd asks every 32 seconds at most, and again at once a few times when it starts.
const (
	// burst are answered to one client at once, and one more each pause.
	burst = 8
	pause = 2 * time.Second
	// all are answered to everybody in a second.
	all = 1000
	// maxClients is how many are remembered; beyond it the one that was silent for longest is forgotten.
	maxClients = 4096
)

// Limit bounds the answers to each client, and to all of them: the addresses of a flood may be forged. Nothing is said to those
// beyond it: an answer that says so would be one more. It may be used from any goroutine.
type Limit struct {
	mu      sync.Mutex
	clients map[netip.Addr]bucket
	total   bucket
}

// bucket holds answers that may be given, as of a time.
type bucket struct {
	left float64
	at   time.Time
}

// take takes one answer out; per is the time in which one more comes in, up to most.
func (b *bucket) take(now time.Time, most float64, per time.Duration) bool {
	// A clock that is set back gives nothing, and takes nothing.
	if gone := now.Sub(b.at); gone > 0 {
		b.left = min(most, b.left+float64(gone)/float64(per))
	}
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// allow tells whether a client may be answered now.
func (l *Limit) allow(client netip.Addr, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients == nil {
		l.clients, l.total = map[netip.Addr]bucket{}, bucket{left: all, at: now}
	}
	if !l.total.take(now, all, time.Second/all) {
		return false
	}
	b, known := l.clients[client]
	if !known {
		l.forget()
		b = bucket{left: burst, at: now}
	}
	ok := b.take(now, burst, pause)
	l.clients[client] = b
	return ok
}

// forget makes room for a client.
func (l *Limit) forget() {
	if len(l.clients) < maxClients {
		return
	}
	var oldest netip.Addr
	for a, b := range l.clients {
		if !oldest.IsValid() || b.at.Before(l.clients[oldest].at) {
			oldest = a
		}
	}
	delete(l.clients, oldest)
}
