package updatetest

import (
	"encoding/json"
	"net/http"

	"spore/wire/nodeapi"
	"spore/wire/update"
)

// ServeHTTP answers as the API of a node does, to whoever asks: updates, the way back, and the status. A connection
// that is to break breaks.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(a any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a)
	}
	switch r.Method + " " + r.URL.Path {
	case "POST " + nodeapi.UpdatePath:
		a, err := n.Take(http.MaxBytesReader(w, r.Body, update.MaxMessage), r.URL.Query())
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		answer(a)
	case "POST " + nodeapi.BackPath:
		answer(n.Back(r.URL.Query()))
	case "GET " + nodeapi.StatusPath:
		answer(n.Status())
	default:
		http.NotFound(w, r)
	}
}
