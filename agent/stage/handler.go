package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"spore/update"
)

// AnswerBound is how long the unit of root may take with an update.
const AnswerBound = 10 * time.Minute

// Handler takes an update as the body of a request, has the unit of root take it, and answers with an Answer, which
// says whether it was refused. The query's force and reboot are a Wish.
func Handler(s Spool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		id, err := s.Put(r.Body, update.MaxSize, Wish{Force: q.Get("force") == "true", Reboot: q.Get("reboot") == "true"})
		if err != nil {
			http.Error(w, "keep the update: "+err.Error(), http.StatusInsufficientStorage)
			return
		}
		defer s.Drop(id)
		ctx, cancel := context.WithTimeout(r.Context(), AnswerBound)
		defer cancel()
		a, err := s.await(ctx, id)
		if err != nil {
			http.Error(w, err.Error(), http.StatusGatewayTimeout)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a)
	})
}

func (s Spool) await(ctx context.Context, id string) (*Answer, error) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		a, err := s.Answered(id)
		if a != nil || err != nil {
			return a, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("waited for spore-stage.service to take the update: %w; see its journal", ctx.Err())
		}
	}
}
