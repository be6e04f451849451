package slot

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"spore/wire/nodeapi"
	"spore/wire/update"
)

// AnswerBound is how long the unit of root may take with an update.
const AnswerBound = 10 * time.Minute

// Handler takes an update as the body of a request, has the unit of root take it, and answers with an Answer, which
// says whether it was refused. The query is a Wish.
func Handler(s Spool) func(http.ResponseWriter, *http.Request, nodeapi.Caller) {
	return func(w http.ResponseWriter, r *http.Request, caller nodeapi.Caller) {
		wish, err := parseWish(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		wish.By = caller.Name
		id, err := s.Put(r.Body, update.MaxSize, wish)
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
	}
}

// parseWish reads the parameters of a push. Whether an older configuration is taken is none of them: that is signed
// with it.
func parseWish(v url.Values) (w Wish, err error) {
	for name, values := range v {
		if name != "reboot" || len(values) != 1 {
			return w, fmt.Errorf("there is no parameter %.64q, or it is there more than once; there is reboot", name)
		}
		if w.Reboot, err = strconv.ParseBool(values[0]); err != nil {
			return w, fmt.Errorf("reboot is %.64q; give true or false", values[0])
		}
	}
	return w, nil
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
