package slot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/wire/nodeapi"
	"spore/wire/update"
)

// AnswerBound is how long the unit of root may take with a message: it copies a root and reads it back, perhaps on a
// slow stick.
const AnswerBound = 40 * time.Minute

// Handler takes a message of an update as the body of a request, has the unit of root take it, and answers with an
// update.Answer, which says whether it was refused. The query is a Wish.
func Handler(s Spool) func(http.ResponseWriter, *http.Request, nodeapi.Caller) {
	return func(w http.ResponseWriter, r *http.Request, caller nodeapi.Caller) {
		var wish Wish
		answer(w, r, s, &wish, caller, flags{"reboot": &wish.Reboot, "dryRun": &wish.DryRun, "giveUpWayBack": &wish.GiveUp})
	}
}

// BackHandler has the unit of root go back to the system before. The query is a Wish.
func BackHandler(s Spool) func(http.ResponseWriter, *http.Request, nodeapi.Caller) {
	return func(w http.ResponseWriter, r *http.Request, caller nodeapi.Caller) {
		wish := Wish{Back: true}
		answer(w, r, s, &wish, caller, flags{"dryRun": &wish.DryRun})
	}
}

// answer leaves what was asked for in the spool, and answers with what became of it.
func answer(w http.ResponseWriter, r *http.Request, s Spool, wish *Wish, caller nodeapi.Caller, known flags) {
	if err := parseWish(r.URL.Query(), known); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	wish.By = caller.Name
	ctx, cancel := context.WithTimeout(r.Context(), AnswerBound)
	defer cancel()
	a, err := s.Send(ctx, r.Body, *wish)
	if err != nil {
		status := http.StatusInsufficientStorage
		if errors.Is(err, errWaited) {
			status = http.StatusGatewayTimeout
		}
		http.Error(w, err.Error(), status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a)
}

// flags are parameters of a request, and where they go.
type flags map[string]*bool

// parseWish reads the parameters of a push. Whether an older update is taken is none of them: that is signed with it.
func parseWish(v url.Values, known flags) (err error) {
	for name, values := range v {
		to := known[name]
		if to == nil || len(values) != 1 {
			return fmt.Errorf("there is no parameter %.64q, or it is there more than once; there are %s",
				name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if *to, err = strconv.ParseBool(values[0]); err != nil {
			return fmt.Errorf("%s is %.64q; give true or false", name, values[0])
		}
	}
	return nil
}

// errWaited is in the error when nobody has taken what was left in the spool.
var errWaited = errors.New("waited for spore-stage.service to take the update")

// Send leaves a message in the spool, and waits for what becomes of it.
func (s Spool) Send(ctx context.Context, message io.Reader, wish Wish) (*update.Answer, error) {
	id, err := s.Put(message, update.MaxMessage, wish)
	if err != nil {
		return nil, fmt.Errorf("keep the update: %w", err)
	}
	defer s.Drop(id)
	return s.await(ctx, id)
}

func (s Spool) await(ctx context.Context, id string) (*update.Answer, error) {
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
			return nil, fmt.Errorf("%w: %w; see its journal", errWaited, ctx.Err())
		}
	}
}
