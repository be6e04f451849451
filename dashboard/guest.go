package dashboard

import (
	"context"
	"net/http"
	"time"
)

// Guest is who looks at pages that a node serves. Whoever has the address of a spore dashboard is none.
type Guest struct {
	// Name and Role are those of the certificate, the role as people call it, and Ends is its end.
	Name, Role string
	Ends       time.Time
	// Over is closed when the guest may look no longer, and Why says why then: a title, a text, and what to do.
	Over <-chan struct{}
	Why  func() (title, text string, do []string)
}

type guestKey struct{}

// WithGuest says who asks.
func WithGuest(ctx context.Context, g *Guest) context.Context {
	return context.WithValue(ctx, guestKey{}, g)
}

// guestOf is who asks; nil where nobody is told from others.
func guestOf(r *http.Request) *Guest {
	g, _ := r.Context().Value(guestKey{}).(*Guest)
	return g
}

// Until is the end of the certificate for people.
func (g *Guest) Until() string { return g.Ends.UTC().Format("2006-01-02 15:04 UTC") }

// gone is closed when the guest may look no longer.
func (g *Guest) gone() <-chan struct{} {
	if g == nil {
		return nil
	}
	return g.Over
}

// over is why the guest may look no longer; nil while he may.
func (g *Guest) over() *problem {
	select {
	case <-g.gone():
		p := new(problem)
		p.Title, p.Text, p.Do = g.Why()
		return p
	default:
		return nil
	}
}
