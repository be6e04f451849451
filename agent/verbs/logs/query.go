// Package logs is the verb logs-query, on a node with a store of logs: it asks the store, VictoriaLogs, which listens
// on this node alone and wants a password that the store's own programs have. What a caller may not read, the question
// to the store leaves out.
package logs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/agent/logs/logsql"
	"spore/agent/verbs"
	"spore/services/logs"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

const (
	// maxKept bounds the entries of an answer in bytes. They come from the newest on, and are given on from the oldest on.
	maxKept = 32 << 20
	// page is how many entries the store is asked for at once at most, of which it has twice as many in memory, and
	// leastPage at least: more than have the same time.
	page      = 5000
	leastPage = 1000
	// patience is after how long a search ends with what it has found.
	patience = 90 * time.Second
	// future is how much later than now entries may be, by clocks of nodes (victoria-logs.service, -futureRetention).
	future = 10 * 365 * 24 * time.Hour
	// firstWindow is the length of the time that is searched first, from the end on; each further one is twice as long, up
	// to maxWindow. So a search has an answer for a part of the time when it has none for all. The last one has what is
	// older than entries are kept: there is only what a clock has a wrong time for.
	firstWindow = time.Hour
	maxWindow   = 24 * time.Hour
	// leastWindow is the shortest time that is asked for when the store breaks off an answer about a longer one.
	leastWindow = time.Minute
)

// Query answers with the newest entries that fit, in the order of time.
func (s Store) Query(ctx context.Context, r *verbs.Run) (string, error) {
	if !logs.Stores(r.Cluster, r.Node.Name) {
		return "", fmt.Errorf("%s has no store of logs; ask a node with the role %s", r.Node.Name, logs.Role)
	}
	q, err := question(r)
	if err != nil {
		return "", err
	}
	if boot := r.Argument("boot", ""); boot != "" {
		q.byBoot = true
		if q.Boots, err = s.boots(ctx, r, q, boot); err != nil {
			return "", err
		}
	}
	found := &search{question: q, most: nodeapi.DefaultLines}
	if n := r.Argument("lines", ""); n != "" {
		found.most, _ = strconv.Atoi(n) // The table of verbs has checked it.
	}
	if found.most > 0 && !(q.byBoot && len(q.Boots) == 0) {
		if err := s.search(ctx, r, found); err != nil {
			return "", err
		}
	}
	if err := verbs.Results(r, found.inOrder()); err != nil {
		return "", err
	}
	end := machine.LogsEnd{Cut: found.cut, Why: found.why}
	if end.Newest, err = s.newest(ctx, r, q); err != nil {
		return "", err
	}
	end.Clocks = clocks(r, q)
	if err := r.Result(end); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d entries", len(found.entries)), nil
}

// asked is what the store is asked.
type asked struct {
	logsql.Filter
	// from and until are the time, from included and until not.
	from, until time.Time
	// match is what a message has to match; nil is everything.
	match *regexp.Regexp
	// byBoot says that Boots chooses, even where it is empty.
	byBoot bool
}

// question is what the caller asks for, without what he may not read.
func question(r *verbs.Run) (q asked, err error) {
	audit, pods := r.By.Listed(r.Cluster.LogRights.ForAudit()), r.By.Listed(r.Cluster.LogRights.ForPods())
	pod := r.Argument("pod", "")
	otherwise := machine.LogJournal
	if pod != "" {
		otherwise = machine.LogPod
		if q.Namespace, q.Pod, q.Container, err = nodeapi.PodParts(pod); err != nil {
			return q, err
		}
	}
	q.Sources = strings.Split(r.Argument("sources", otherwise), ",")
	switch {
	case !audit && slices.Contains(q.Sources, machine.LogAudit):
		return q, refused("audit logs", "audit", r.Cluster.LogRights.ForAudit())
	case !pods && slices.Contains(q.Sources, machine.LogPod):
		return q, refused("the logs of pods", "pods", r.Cluster.LogRights.ForPods())
	}
	q.WithoutKernelAudit = !audit
	if q.Nodes, err = nodesOf(r); err != nil {
		return q, err
	}
	if units := r.Argument("units", ""); units != "" {
		q.Units = strings.Split(units, ",")
	}
	q.Priority, q.Grep = r.Argument("priority", ""), r.Argument("grep", "")
	if q.Grep != "" {
		if q.match, err = nodeapi.ParseGrep(q.Grep); err != nil {
			return q, err
		}
	}
	now := r.Machine.Now()
	q.from, q.until = time.Unix(1, 0), now.Add(future)
	for name, at := range map[string]*time.Time{"since": &q.from, "until": &q.until} {
		if text := r.Argument(name, ""); text != "" {
			if *at, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return q, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if r.Argument("until", "") != "" {
		q.until = q.until.Add(time.Microsecond) // The journal's end is included.
	}
	if !q.from.Before(q.until) {
		return q, errors.New("the end is not behind the begin")
	}
	if n := len(q.Entries()); n > logsql.MaxQuery {
		return q, fmt.Errorf("this question has %d bytes, and the store takes %d; ask for fewer nodes or units", n, logsql.MaxQuery)
	}
	return q, nil
}

// refused says who may.
func refused(what, key string, list []string) error {
	return fmt.Errorf("%s are not for this certificate: cluster.yaml (logRights.%s) lets %s read them, and admins", what, key,
		strings.Join(list[:min(len(list), 10)], ", "))
}

// nodesOf are the nodes that are asked for, as far as the caller's certificate holds for them.
func nodesOf(r *verbs.Run) ([]string, error) {
	text := r.Argument("nodes", "")
	if text == "" {
		return r.By.Nodes, nil
	}
	nodes := strings.Split(text, ",")
	for _, n := range nodes {
		if err := r.By.MayAsk(n); err != nil {
			return nil, fmt.Errorf("%s: %w", n, err)
		}
	}
	return nodes, nil
}

// search is what was found so far.
type search struct {
	question asked
	// most is how many entries are asked for.
	most    int
	entries []entry
	size    int
	// known are those that were found: what a node sent twice is there twice.
	known map[[sha256.Size]byte]bool
	// long counts entries that have no room in an answer.
	long int
	cut  bool
	why  string
	// began is when the search did.
	began time.Time
}

// late ends a search that takes too long, and says how far back it went.
func (f *search) late(end time.Time) bool {
	if time.Since(f.began) <= patience {
		return false
	}
	f.cut, f.why = true, fmt.Sprintf("the search took longer than %s, and went back to %s; go on with --until %[2]s",
		patience, end.UTC().Format(time.RFC3339))
	return true
}

// entry is one of the answer.
type entry struct {
	at   time.Time
	node string
	// place is where it stands in its node's journal, as far as that is said.
	place uint64
	// name is what it is known by.
	name [sha256.Size]byte
	data json.RawMessage
}

// search asks for one window of time after the other, from the end on.
func (s Store) search(ctx context.Context, r *verbs.Run, f *search) error {
	f.known = map[[sha256.Size]byte]bool{}
	f.began = time.Now()
	end, length := f.question.until, firstWindow
	if now := r.Machine.Now(); end.After(now) {
		length += end.Sub(now)
	}
	for end.After(f.question.from) && !f.cut {
		begin := end.Add(-length)
		if begin.Before(f.question.from) || !end.After(r.Machine.Now().Add(-kept(r))) {
			begin = f.question.from
		}
		if f.late(end) {
			break
		}
		if err := s.window(ctx, r, f, begin, end); err != nil {
			if len(f.entries) == 0 || ctx.Err() != nil {
				return err
			}
			f.cut, f.why = true, err.Error() // What was found is better than nothing.
		}
		end, length = begin, min(2*length, maxWindow)
	}
	if f.long > 0 {
		return r.Say("%d entries have no room in an answer and are left out; see them on their nodes", f.long)
	}
	return nil
}

// window asks for pages of one window of time, until it has no more. When the store breaks off an answer, as it does
// after its -search.maxQueryDuration, it is asked for half the time, and so on.
func (s Store) window(ctx context.Context, r *verbs.Run, f *search, begin, end time.Time) error {
	from, length := begin, time.Duration(0)
	// An expression of which the store knows no part is looked for in page after page.
	for !f.cut && begin.Before(end) && !f.late(end) {
		limit := min(max(f.most-len(f.entries)+1, leastPage), page)
		oldest, n, long, had := end, 0, f.long, len(f.entries)
		err := s.lines(ctx, r, f.question.Entries(), from, end, limit, func(fields map[string]string) error {
			n++
			at, err := f.add(fields)
			if at.Before(oldest) {
				oldest = at
			}
			return err
		}, &f.long)
		switch {
		case errors.Is(err, errFull):
			return nil
		case errors.Is(err, errBroken) && ctx.Err() == nil:
			f.forget(had)
			f.long = long
			last := end // Of the time to come there is next to nothing.
			if now := r.Machine.Now(); last.After(now) {
				last = now
			}
			if length = last.Sub(from) / 2; length < leastWindow || time.Since(f.began) > patience {
				return fmt.Errorf("from %s to %s: %w", from.UTC().Format(time.RFC3339), last.UTC().Format(time.RFC3339), err)
			}
			from = last.Add(-length)
			continue
		case err != nil:
			return err
		case n+f.long-long < limit:
			if end, from = from, from.Add(-length); from.Before(begin) {
				from = begin
			}
			continue
		}
		// More of the same time may be on the next page; those that are known are passed over.
		next := oldest.Add(time.Nanosecond)
		if !next.Before(end) {
			next = oldest
			if err := r.Say("more than %d entries have the time %s; not all of them are shown", limit, oldest.Format(time.RFC3339Nano)); err != nil {
				return err
			}
		}
		if end = next; !from.Before(end) {
			from = begin
			if length > 0 && end.Add(-length).After(begin) {
				from = end.Add(-length)
			}
		}
	}
	return nil
}

// forget takes back all but the first entries: of an answer that was broken off, newer ones may be missing.
func (f *search) forget(all int) {
	for _, e := range f.entries[all:] {
		delete(f.known, e.name)
		f.size -= len(e.data)
	}
	f.entries = f.entries[:all]
}

// errFull ends a page.
var errFull = errors.New("there is no room for more")

// add takes an entry of the store, and returns its time.
func (f *search) add(fields map[string]string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, fields[logsql.Time])
	if err != nil {
		return at, fmt.Errorf("the store's answer is malformed: an entry has the time %.64q", fields[logsql.Time])
	}
	if f.question.match != nil && !f.question.match.MatchString(fields[logsql.Message]) {
		return at, nil
	}
	e, name, err := convert(at, fields)
	if err != nil {
		return at, err
	}
	if f.known[name] {
		return at, nil
	}
	switch {
	case len(f.entries) >= f.most:
		f.cut = true
		return at, errFull
	case f.size+len(e.data) > maxKept:
		f.cut, f.why = true, fmt.Sprintf("an answer has at most %d MiB", maxKept>>20)
		return at, errFull
	}
	f.known[name], e.name = true, name
	f.entries, f.size = append(f.entries, e), f.size+len(e.data)
	return at, nil
}

// convert makes an entry of the store into one of journalctl, and returns what names it: the node and its cursor, or
// all of it where it has none.
func convert(at time.Time, fields map[string]string) (e entry, name [sha256.Size]byte, err error) {
	out := make(map[string]string, len(fields))
	for k, v := range fields {
		switch k {
		case logsql.Time, "_stream", "_stream_id":
		case logsql.Message:
			out["MESSAGE"] = v
		default:
			out[k] = v
		}
	}
	if out["__REALTIME_TIMESTAMP"] == "" {
		out["__REALTIME_TIMESTAMP"] = strconv.FormatInt(at.UnixMicro(), 10)
	}
	if pod := out[logsql.Pod]; pod != "" && out["SYSLOG_IDENTIFIER"] == "" {
		out["SYSLOG_IDENTIFIER"] = pod + "/" + out[logsql.Container]
	}
	data, err := json.Marshal(out)
	if err != nil {
		return e, name, fmt.Errorf("internal error: %w", err)
	}
	e = entry{at: at, node: fields[logsql.Node], data: data}
	cursor := fields["__CURSOR"]
	if cursor == "" {
		return e, sha256.Sum256(data), nil
	}
	e.place = place(cursor)
	return e, sha256.Sum256([]byte(e.node + "\x00" + cursor)), nil
}

// place reads where an entry stands: the number of a cursor of the journal (i=, hexadecimal; systemd, sd-journal.c), or
// the offset in a file.
func place(cursor string) uint64 {
	for part := range strings.SplitSeq(cursor, ";") {
		if digits, ok := strings.CutPrefix(part, "i="); ok {
			n, _ := strconv.ParseUint(digits, 16, 64)
			return n
		}
		if digits, ok := strings.CutPrefix(part, "offset="); ok {
			n, _ := strconv.ParseUint(digits, 10, 64)
			return n
		}
	}
	return 0
}

// inOrder are the entries in the order of time, and those of one time in their nodes' order.
func (f *search) inOrder() []json.RawMessage {
	slices.SortStableFunc(f.entries, func(a, b entry) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.node, b.node), cmp.Compare(a.place, b.place))
	})
	out := make([]json.RawMessage, len(f.entries))
	for i, e := range f.entries {
		out[i] = e.data
	}
	return out
}
