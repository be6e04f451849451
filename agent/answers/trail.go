package answers

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"spore/agent/api"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/trail"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
	"spore/wire/update"
)

// newKeeper keeps the records of calls on this node, and on the next one in the order of names that answers.
func newKeeper(m *node.Machine, c *facts.Cluster, n *facts.Node) *trail.Keeper {
	client := nodeapi.Client{Identity: m.OwnIdentity, Addresses: m.AddressesOf}
	return &trail.Keeper{
		Dir: m.Root.At(paths.Trail), Node: n.Name, Others: after(c, n.Name), Say: m.Say, Now: m.Now,
		Random: rand.Reader,
		Send: func(ctx context.Context, node string, lines []byte) error {
			_, err := client.Read(ctx, node, nodeapi.Request{
				Method: http.MethodPost, Path: nodeapi.TrailPath, Body: bytes.NewReader(lines),
			}, 1<<10)
			return err
		},
	}
}

// after are the other nodes that have roles, in the order of their names, from the one behind this node on.
func after(c *facts.Cluster, name string) []string {
	all := map[string]bool{}
	for _, members := range c.Members {
		for _, m := range members {
			all[m] = m != name
		}
	}
	maps.DeleteFunc(all, func(_ string, other bool) bool { return !other })
	names := slices.Sorted(maps.Keys(all))
	at, _ := slices.BinarySearch(names, name)
	return append(slices.Clone(names[at:]), names[:at]...)
}

// trailRows are how records are read, and how another node has them kept.
func trailRows(m *node.Machine, k *trail.Keeper) []api.Row {
	return []api.Row{
		{
			Method: http.MethodGet, Path: nodeapi.TrailPath, Who: nodeapi.Lookers(), AtOnce: 4,
			Handle: func(w http.ResponseWriter, r *http.Request, _ nodeapi.Caller) { showTrail(w, r, m, k) },
		},
		{
			Method: http.MethodPost, Path: nodeapi.TrailPath, Who: []nodeapi.Role{nodeapi.Node}, AtOnce: 4,
			Body: nodeapi.MaxTrailPost,
			May: func(caller nodeapi.Caller) error {
				if _, err := m.Part.Node(caller.Name); err != nil || caller.Name == k.Node {
					return fmt.Errorf("%q is not another node of this cluster", caller.Name)
				}
				return nil
			},
			Handle: func(w http.ResponseWriter, r *http.Request, caller nodeapi.Caller) {
				if err := k.Take(caller.Name, r.Body); err != nil {
					m.Say(fmt.Sprintf("records of %.64q: %v", caller.Name, err))
					http.Error(w, err.Error(), http.StatusUnprocessableEntity)
				}
			},
		},
	}
}

func showTrail(w http.ResponseWriter, r *http.Request, m *node.Machine, k *trail.Keeper) {
	var since time.Time
	if text := r.URL.Query().Get(nodeapi.TrailSince); text != "" {
		var err error
		if since, err = time.Parse(time.RFC3339, text); err != nil {
			http.Error(w, "since is not a time of RFC 3339", http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	to := json.NewEncoder(w)
	if err := k.Records(since, func(r nodeapi.TrailRecord) error { return to.Encode(r) }); err != nil {
		m.Say(err.Error())
	}
}

// recorded has the calls of a row be records, under a name.
func recorded(k *trail.Keeper, name string, row api.Row) api.Row {
	handle := row.Handle
	row.Handle = func(w http.ResponseWriter, r *http.Request, caller nodeapi.Caller) {
		record := recordOf(name, r, caller)
		record.Arguments = argumentsOf(r.URL.Query())
		end := k.Begin(r.Context(), record)
		o := &outcome{ResponseWriter: w, status: http.StatusOK}
		handle(o, r, caller)
		end(o.end())
	}
	return row
}

// recordOf is what a record says of who asks.
func recordOf(name string, r *http.Request, caller nodeapi.Caller) nodeapi.TrailRecord {
	return nodeapi.TrailRecord{
		Call: name, User: caller.Name, Serial: caller.Serial, Role: nodeapi.Widest(caller.Roles), From: r.RemoteAddr,
	}
}

func argumentsOf(query url.Values) map[string]string {
	out := map[string]string{}
	for name, values := range query {
		out[name] = strings.Join(values, " ")
	}
	return out
}

// maxOutcome is how much of the last line of an answer is looked at, in bytes.
const maxOutcome = 64 << 10

// outcome sees how an answer ends: by its status, and by its last line, which says error or done where it is JSON.
type outcome struct {
	http.ResponseWriter
	status int
	last   []byte
}

// Unwrap is for http.ResponseController.
func (o *outcome) Unwrap() http.ResponseWriter { return o.ResponseWriter }

func (o *outcome) WriteHeader(status int) {
	o.status = status
	o.ResponseWriter.WriteHeader(status)
}

func (o *outcome) Write(data []byte) (int, error) {
	o.see(data)
	return o.ResponseWriter.Write(data)
}

// see keeps the last line that is not empty.
func (o *outcome) see(data []byte) {
	if len(bytes.TrimSpace(data)) == 0 {
		return // The node says that it is still there.
	}
	o.last = append(o.last, data...)
	if at := bytes.LastIndexByte(bytes.TrimRight(o.last, "\r\n"), '\n'); at >= 0 {
		o.last = append([]byte{}, o.last[at+1:]...)
	}
	o.last = o.last[:min(len(o.last), maxOutcome)]
}

// end is what the record says of it.
func (o *outcome) end() (nodeapi.Stage, string) {
	text := strings.TrimSpace(string(o.last))
	var said struct{ Error, Done string }
	err := json.Unmarshal([]byte(text), &said)
	switch {
	case o.status >= http.StatusBadRequest:
		return nodeapi.Erred, text
	case err == nil && said.Error != "":
		return nodeapi.Erred, said.Error
	case err == nil && said.Done != "":
		return nodeapi.Did, said.Done
	case o.Header().Get("Content-Type") == verbAnswer:
		return nodeapi.Erred, "it has ended without a word; see the journal of the node"
	case text == "":
		return nodeapi.Did, fmt.Sprintf("answered %d", o.status)
	}
	var a update.Answer
	if json.Unmarshal([]byte(text), &a) == nil {
		return nodeapi.Did, became(a)
	}
	return nodeapi.Did, text
}

// became says in words what became of an update.
func became(a update.Answer) string {
	what := fmt.Sprintf("update %d", a.Serial)
	switch {
	case a.DryRun:
		return "nothing was written, as was asked for"
	case a.Lacks != nil:
		return what + " is not whole yet"
	case a.Unchanged:
		return what + " was there already"
	case a.Live:
		return what + " is in effect"
	case a.Back:
		return "goes back from " + what
	case a.Reboot:
		return what + " is on the disk; the node restarts"
	}
	return what + " is on the disk"
}
