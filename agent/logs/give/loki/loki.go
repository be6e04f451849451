// Package loki gives entries to a server with the interface of Grafana Loki (HTTP API, POST /loki/api/v1/push, JSON).
//
// Labels are few, since Loki keeps a stream of each set of them: cluster, node, source, unit, namespace and container.
// A unit is a label when it is a service; instances of one template are one. What has no bound in number, such as pods
// and scopes, is structured metadata, which Loki knows since version 3.
package loki

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"spore/agent/logs/give/parcel"
	"spore/agent/logs/give/post"
)

const (
	// maxEntries and maxBytes bound one request: Loki takes 4 MiB (server.grpc_server_max_recv_msg_size).
	maxEntries, maxBytes = 2000, 1 << 20
	// maxStreams bounds the sets of labels of a receiver: those that come later have cluster, node and source.
	maxStreams = 5000
	// maxLabel and maxMetadata bound a value, in bytes (Loki: limits_config.max_label_value_length, 2048).
	maxLabel, maxMetadata = 256, 1024
)

// Receiver is one server.
type Receiver struct {
	client *post.Client
	tenant string
	// known are the sets of labels that have streams, by their text.
	known map[string]bool
}

// New makes a receiver. Tenant is the organization, none when it is empty.
func New(s post.Server, tenant string) (*Receiver, error) {
	s.Scheme = "Bearer"
	c, err := post.New(s, nil, "loki", "api", "v1", "push")
	if err != nil {
		return nil, err
	}
	return &Receiver{client: c, tenant: tenant, known: map[string]bool{}}, nil
}

// Give sends entries. What Loki refuses as too old, or too long, it refuses for ever. Where it does not say how many of
// a request these are, the error is a parcel.Rejected. Loki may have taken the others of it: when they come again, it
// drops what it has.
func (r *Receiver) Give(ctx context.Context, entries []parcel.Entry) (parcel.Outcome, error) {
	out := parcel.Outcome{Left: entries}
	most := maxEntries
	for len(out.Left) > 0 {
		n := parcel.First(out.Left, most, maxBytes)
		answer, err := r.push(ctx, out.Left[:n])
		switch {
		case err != nil:
			return out, err
		case answer.Code/100 == 2:
		case answer.Code == 413 && n > 1:
			most = n / 2
			continue
		case answer.Code == 413:
			out.Refused, out.Why = out.Refused+1, answer.Said()
		case answer.Code == 400, answer.Code == 422:
			few := ignored(string(answer.Body), n)
			if few == 0 {
				return out, &parcel.Rejected{N: n, Certain: ofEntries(string(answer.Body)), Err: answer.Err()}
			}
			out.Refused, out.Why = out.Refused+few, answer.Said()
		default:
			return out, answer.Err()
		}
		out.Left = out.Left[n:]
	}
	return out, nil
}

func (r *Receiver) push(ctx context.Context, entries []parcel.Entry) (post.Answer, error) {
	body, err := json.Marshal(request{r.streams(entries)})
	if err != nil {
		return post.Answer{}, fmt.Errorf("internal error: %w", err)
	}
	headers := map[string]string{}
	if r.tenant != "" {
		headers["X-Scope-OrgID"] = r.tenant
	}
	return r.client.Send(ctx, "application/json", headers, body)
}

type request struct {
	Streams []stream `json:"streams"`
}

type stream struct {
	Labels map[string]string `json:"stream"`
	Values []value           `json:"values"`
}

// value is the time in nanoseconds, the line, and structured metadata.
type value struct {
	at       int64
	line     string
	metadata map[string]string
}

// MarshalJSON writes a value as Loki takes it: a list of three.
func (v value) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{strconv.FormatInt(v.at, 10), v.line, v.metadata})
}

// streams are the entries by their labels; each in the order of time.
func (r *Receiver) streams(entries []parcel.Entry) []stream {
	var out []stream
	at := map[string]int{}
	for _, e := range entries {
		labels, key := r.labels(e)
		i, found := at[key]
		if !found {
			i, at[key] = len(out), len(out)
			out = append(out, stream{Labels: labels})
		}
		out[i].Values = append(out[i].Values, value{nanoseconds(e), e.Text, metadata(e)})
	}
	for _, s := range out {
		slices.SortStableFunc(s.Values, func(a, b value) int { return cmp.Compare(a.at, b.at) })
	}
	return out
}

// labels are those of an entry, and one text of them.
func (r *Receiver) labels(e parcel.Entry) (map[string]string, string) {
	few := map[string]string{
		"cluster": e.Get(parcel.Cluster), "node": e.Get(parcel.Node), "source": e.Get(parcel.Source),
	}
	all := map[string]string{
		"unit": service(e.Get(parcel.Unit)), "namespace": e.Get(parcel.Namespace), "container": e.Get(parcel.Container),
	}
	for name, value := range few {
		all[name] = value
	}
	key := textOf(all)
	if !r.known[key] {
		if len(r.known) >= maxStreams {
			return few, textOf(few)
		}
		r.known[key] = true
	}
	return all, key
}

// labelNames are the labels in the order of their text.
var labelNames = []string{"cluster", "node", "source", "unit", "namespace", "container"}

// textOf makes labels valid, leaves out those that are empty, and returns their text.
func textOf(labels map[string]string) string {
	var b strings.Builder
	for _, name := range labelNames {
		value := parcel.Cut(labels[name], maxLabel)
		if value == "" {
			delete(labels, name)
			continue
		}
		labels[name] = value
		fmt.Fprintf(&b, "%s=%q,", name, value)
	}
	if len(labels) == 0 { // Loki takes no stream without labels.
		labels["source"] = "unknown"
	}
	return b.String()
}

// service is a unit as a label: a service, without the instance of a template. Services that systemd-run(1) made, and
// everything else, are none: their names are without number.
func service(unit string) string {
	name, is := strings.CutSuffix(unit, ".service")
	if !is || strings.HasPrefix(name, "run-") {
		return ""
	}
	if template, _, is := strings.Cut(name, "@"); is {
		name = template + "@"
	}
	return name + ".service"
}

// described are fields that are structured metadata, by their names there.
var described = []struct{ name, field string }{
	{"unit_name", parcel.Unit}, {"pod", parcel.Pod}, {"stream", parcel.Stream}, {"role", parcel.Role},
	{"identifier", parcel.Identifier}, {"pid", parcel.Process}, {"priority", parcel.Priority},
	{"boot_id", "_BOOT_ID"}, {"cursor", parcel.Cursor},
}

func metadata(e parcel.Entry) map[string]string {
	out := map[string]string{}
	for _, d := range described {
		if value := parcel.Cut(e.Get(d.field), maxMetadata); value != "" {
			out[d.name] = value
		}
	}
	return out
}

// nanoseconds is the time of an entry. The journal has microseconds: what is below them comes from the number in the
// entry's cursor, so that two entries of one microsecond stay two, in their order, and an entry that is sent again has
// the same time, by which Loki knows it.
func nanoseconds(e parcel.Entry) int64 {
	t := e.Time
	if t.IsZero() {
		t = time.Unix(0, 0)
	}
	ns := t.UnixNano()
	if ns%1000 == 0 {
		ns += int64(number(e.Get(parcel.Cursor)) % 1000)
	}
	return ns
}

// number is that of an entry in its source: i= of the journal's cursors, in base 16, or offset= of those of files.
func number(cursor string) uint64 {
	for _, part := range strings.Split(parcel.Cut(cursor, 1024), ";") {
		if text, is := strings.CutPrefix(part, "i="); is {
			n, _ := strconv.ParseUint(text, 16, 64)
			return n
		}
		if text, is := strings.CutPrefix(part, "offset="); is {
			n, _ := strconv.ParseUint(text, 10, 64)
			return n
		}
	}
	return 0
}

// ignoredForm is how Loki says how many entries of a stream it did not take; it took the others.
var ignoredForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`total ignored: (\d{1,9}) out of`) })

// ignored is how many entries of so many Loki did not take; 0 where it does not say, or what cannot be.
func ignored(text string, most int) int {
	n := 0
	for _, m := range ignoredForm().FindAllStringSubmatch(text, 1000) {
		one, _ := strconv.Atoi(m[1])
		n += one
	}
	if n > most {
		return 0
	}
	return n
}

// ofEntries tells whether Loki refuses entries for what they are (Loki, pkg/validation/validate.go), and not a request
// that it would not take with any entries.
func ofEntries(text string) bool {
	return slices.ContainsFunc([]string{"timestamp too old", "timestamp too new", "too far behind", "max entry size"},
		func(reason string) bool { return strings.Contains(text, reason) })
}
