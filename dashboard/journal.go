package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"spore/fleet/logs"
)

const (
	journalPath = "/journal"
	// maxFollowers are journals that are followed at once, and followersEach those that one guest follows: each takes a seat
	// of a node and a connection of a browser.
	maxFollowers, followersEach = 8, 4
	// followed is how many lines a follower gets first, batch how many are sent at once, and gather for how long they are
	// gathered.
	followed, batch, gather = 50, 100, 250 * time.Millisecond
)

// followedLine is a line as the script of the page takes it.
type followedLine struct {
	Text  string `json:"text"`
	Level string `json:"level"`
}

// journal sends the lines of a node as they are written (server-sent events), until the browser or the node ends it. A
// browser that takes them slowly has the node wait.
func (s *Server) journal(w http.ResponseWriter, r *http.Request) {
	v, _ := s.watcher.Look()
	node, found := v.node(r.URL.Query().Get("node"))
	if !found {
		http.Error(w, "node is the name of a node of cluster.yaml", http.StatusNotFound)
		return
	}
	leave, why := s.followers.take(r.Context())
	if leave == nil {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	defer func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) }()
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	lines := make(chan logs.Line, batch)
	ended := make(chan error, 1)
	go func() {
		ended <- s.watcher.asker.Follow(ctx, node.Name, followed, func(l logs.Line) error {
			select {
			case lines <- l:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	if send(w, "begun", "", nil) != nil {
		return
	}
	tick := time.NewTicker(gather)
	defer tick.Stop()
	guest := guestOf(r)
	for idle := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-guest.gone():
			_ = send(w, "ended", "", guest.over().Title+".")
			return
		case err := <-ended:
			_ = sendLines(w, lines) // What it has said before it went.
			text := "The node has ended its answer."
			if err != nil {
				text = "The node does not answer any more: " + shown(err.Error())
			}
			_ = send(w, "ended", "", text)
			return
		case now := <-tick.C:
			switch {
			case s.watcher.Ended():
				_ = send(w, "ended", "", "The certificate has ended. Start spore dashboard again.")
				return
			case len(lines) > 0:
				idle = now
				if sendLines(w, lines) != nil {
					return
				}
			case now.Sub(idle) > beats: // So that a browser that has gone is known.
				idle = now
				if send(w, "same", "", nil) != nil {
					return
				}
			}
		}
	}
}

// sendLines sends what waits, up to a batch.
func sendLines(w http.ResponseWriter, lines <-chan logs.Line) error {
	var out []followedLine
	for len(lines) > 0 && len(out) < batch {
		row := rowOf(<-lines)
		out = append(out, followedLine{Text: row.Time + " " + cmp.Or(row.Unit, row.Who) + ": " + row.Message, Level: row.Level.String()})
	}
	if len(out) == 0 {
		return nil
	}
	return send(w, "lines", "", out)
}
