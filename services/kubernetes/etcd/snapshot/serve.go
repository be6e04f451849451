package snapshot

import (
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"spore/wire/nodeapi"
)

// slowest is how many bytes a second whoever gets a snapshot has to take.
const slowest = 64 << 10

// Handler answers GET /v1/snapshots with a list, and GET /v1/snapshots/NAME with a snapshot, encrypted as it is. Who may ask
// is decided before.
func Handler(d Dir) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "only GET is answered", http.StatusMethodNotAllowed)
			return
		}
		switch rest := strings.TrimPrefix(r.URL.Path, nodeapi.SnapshotsPath); {
		case rest == "":
			serveList(w, d)
		case rest[0] == '/':
			serveOne(w, r, d, rest[1:])
		default:
			http.NotFound(w, r)
		}
	})
}

func serveList(w http.ResponseWriter, d Dir) {
	list, err := d.List()
	if err != nil {
		http.Error(w, "the snapshots cannot be listed; see the journal of this node", http.StatusInternalServerError)
		return
	}
	Sort(list, time.Now())
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(nodeapi.EncodeSnapshots(list))
}

func serveOne(w http.ResponseWriter, r *http.Request, d Dir, text string) {
	name, err := nodeapi.ParseSnapshotName(text)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f, err := d.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		http.Error(w, "there is no such snapshot", http.StatusNotFound)
		return
	}
	if err != nil {
		http.Error(w, "the snapshot cannot be read; see the journal of this node", http.StatusInternalServerError)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		http.Error(w, "the snapshot cannot be read; see the journal of this node", http.StatusInternalServerError)
		return
	}
	// The server's own bounds are for small answers; that of reading ends the request as well. Not every server lets them be
	// changed, and then they are as good.
	until := time.Now().Add(time.Minute + time.Duration(info.Size()/slowest)*time.Second)
	c := http.NewResponseController(w)
	_ = errors.Join(c.SetReadDeadline(until), c.SetWriteDeadline(until))
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", name.Taken, f)
}
