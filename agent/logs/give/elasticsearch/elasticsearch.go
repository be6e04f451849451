// Package elasticsearch gives entries to a server with the interface of Elasticsearch (REST APIs, bulk), into an index
// or a data stream. Documents have names of the Elastic Common Schema (ECS) where it has some; all other fields of an
// entry are under journal, with their own names.
//
// The id of a document comes from the node and the entry's cursor: what is sent again is there already, and no second.
package elasticsearch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"spore/agent/logs/give/parcel"
	"spore/agent/logs/give/post"
)

// maxEntries and maxBytes bound one request.
const maxEntries, maxBytes = 1000, 2 << 20

// Receiver is one index, or data stream, of a server.
type Receiver struct{ client *post.Client }

// New makes a receiver.
func New(s post.Server, index string) (*Receiver, error) {
	s.Scheme = "ApiKey"
	// Without this, an answer repeats much of what it was sent.
	c, err := post.New(s, url.Values{"filter_path": {"items.*.status,items.*.error.type,items.*.error.reason"}},
		index, "_bulk")
	if err != nil {
		return nil, err
	}
	return &Receiver{c}, nil
}

// Give sends entries. What the server refuses as malformed, such as a field of another type, it refuses for ever; what
// it has no room for now is left. When it calls a whole request malformed, the error is a parcel.Rejected.
func (r *Receiver) Give(ctx context.Context, entries []parcel.Entry) (parcel.Outcome, error) {
	out := parcel.Outcome{Left: entries}
	most := maxEntries
	for len(out.Left) > 0 {
		n := parcel.First(out.Left, most, maxBytes)
		answer, err := r.bulk(ctx, out.Left[:n])
		switch {
		case err != nil:
			return out, err
		case answer.Code == 413 && n > 1:
			most = n / 2
			continue
		case answer.Code == 413:
			out.Refused, out.Why, out.Left = out.Refused+1, answer.Said(), out.Left[1:]
			continue
		case answer.Code == 400, answer.Code == 422: // It has read none of it.
			return out, &parcel.Rejected{N: n, Err: answer.Err()}
		case answer.Code/100 != 2:
			return out, answer.Err()
		}
		got, err := read(answer.Body, out.Left[:n])
		if err != nil {
			return out, err
		}
		if out.Refused += got.refused; got.refused > 0 {
			out.Why = got.why
		}
		out.Left = append(got.again, out.Left[n:]...)
		if len(got.again) > 0 {
			err := fmt.Errorf("the server did not take %d entries now: %s", len(got.again), got.wait)
			return out, &parcel.Later{After: answer.After, Err: err}
		}
	}
	return out, nil
}

func (r *Receiver) bulk(ctx context.Context, entries []parcel.Entry) (post.Answer, error) {
	var b bytes.Buffer
	w := json.NewEncoder(&b)
	w.SetEscapeHTML(false)
	for _, e := range entries {
		action := map[string]any{"create": map[string]string{"_id": id(e)}}
		if err := errors.Join(w.Encode(action), w.Encode(document(e))); err != nil {
			return post.Answer{}, fmt.Errorf("internal error: %w", err)
		}
	}
	return r.client.Send(ctx, "application/x-ndjson", nil, b.Bytes())
}

// id is what one entry has, and no other.
func id(e parcel.Entry) string {
	of := []byte(e.Get(parcel.Node) + "\x00" + e.Get(parcel.Cursor))
	if e.Get(parcel.Cursor) == "" {
		of = []byte(e.Line)
	}
	sum := sha256.Sum256(of)
	return hex.EncodeToString(sum[:20])
}

// answered is what is read of an answer.
type answered struct {
	Items []map[string]struct {
		Status int `json:"status"`
		Error  struct {
			Type   string `json:"type"`
			Reason string `json:"reason"`
		} `json:"error"`
	} `json:"items"`
}

// verdict is what the server says of each entry: which to send again, how many it refuses, and the last reasons.
type verdict struct {
	again     []parcel.Entry
	refused   int
	wait, why string
}

func read(body []byte, entries []parcel.Entry) (verdict, error) {
	var a answered
	var v verdict
	if err := json.Unmarshal(body, &a); err != nil {
		return v, fmt.Errorf("the answer of the server is malformed: %w", err)
	}
	if len(a.Items) != len(entries) {
		return v, fmt.Errorf("the server answers for %d entries of %d; is it Elasticsearch?",
			len(a.Items), len(entries))
	}
	for i, item := range a.Items {
		got := item["create"]
		reason := fmt.Sprintf("%d %s: %s",
			got.Status, parcel.Cut(got.Error.Type, 100), parcel.Cut(got.Error.Reason, 200))
		switch {
		case got.Status/100 == 2, got.Status == 409: // 409: it is there already.
		case got.Status == 429, got.Status/100 == 5, got.Status == 401, got.Status == 403, got.Status == 404:
			v.again, v.wait = append(v.again, entries[i]), reason
		case got.Status/100 == 4:
			v.refused, v.why = v.refused+1, reason
		default:
			return verdict{}, fmt.Errorf("the server answers %d for an entry", got.Status)
		}
	}
	return v, nil
}

// ecs are fields with a name of ECS, or of Elastic's own program for the journal (systemd.unit), as a path.
var ecs = []struct {
	field string
	path  []string
}{
	{parcel.Cluster, []string{"orchestrator", "cluster", "name"}},
	{parcel.Node, []string{"host", "name"}},
	{parcel.Source, []string{"event", "dataset"}},
	{parcel.Unit, []string{"systemd", "unit"}},
	{parcel.Identifier, []string{"log", "syslog", "appname"}},
	{"_COMM", []string{"process", "name"}},
	{"_EXE", []string{"process", "executable"}},
	{"_CMDLINE", []string{"process", "command_line"}},
	{"_UID", []string{"user", "id"}},
	{parcel.Namespace, []string{"orchestrator", "namespace"}},
	{parcel.Pod, []string{"kubernetes", "pod", "name"}},
	{parcel.Container, []string{"container", "name"}},
	{parcel.Stream, []string{"kubernetes", "stream"}},
}

// levels are names for log.level, by PRIORITY.
var levels = []string{"emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"}

// document is an entry as the server keeps it.
func document(e parcel.Entry) map[string]any {
	at := e.Time
	if at.IsZero() {
		at = time.Unix(0, 0)
	}
	out := map[string]any{
		"@timestamp": at.UTC().Format("2006-01-02T15:04:05.000000000Z"), "message": e.Text,
		"ecs": map[string]any{"version": "8.17.0"},
	}
	set(out, levels[e.Importance()], "log", "level")
	set(out, e.Importance(), "log", "syslog", "severity", "code")
	known := map[string]bool{parcel.Priority: true}
	for _, f := range ecs {
		if value := e.Get(f.field); value != "" {
			set(out, value, f.path...)
		}
		known[f.field] = true
	}
	if pid, err := strconv.ParseUint(e.Get(parcel.Process), 10, 31); err == nil {
		set(out, pid, "process", "pid")
		known[parcel.Process] = true
	}
	rest := map[string]string{}
	for _, name := range e.Names() {
		if !known[name] && name != "" {
			rest[name] = e.Get(name)
		}
	}
	if len(rest) > 0 {
		out["journal"] = rest
	}
	return out
}

// set puts a value at a path of objects.
func set(in map[string]any, value any, path ...string) {
	for _, name := range path[:len(path)-1] {
		inner, is := in[name].(map[string]any)
		if !is {
			inner = map[string]any{}
			in[name] = inner
		}
		in = inner
	}
	in[path[len(path)-1]] = value
}
