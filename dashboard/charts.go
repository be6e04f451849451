package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/fleet/metrics"
	"spore/fleet/moment"
	store "spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

const (
	chartsPath, seriesPath = "/charts", "/series"
	// points is how many a chart has, shownSeries how many lines, and shortest what lies between two points at least.
	points, shownSeries = 240, 20
	shortest            = 15 * time.Second
	// longest is the longest time of a chart, and charting bounds a question.
	longest  = 366 * 24 * time.Hour
	charting = 90 * time.Second
	// questions is how many questions for series are under way at once; others wait.
	questions = 4
	week      = 7 * 24 * time.Hour
	// maxPromQL bounds a query, in bytes: an argument of a verb has at most 4 KiB.
	maxPromQL = 4000
)

// chart is what the script of the page draws.
type chart struct {
	Title, Query, Unit string
	// Data is the address of its series, Before that of those of a week before, and Alone that of a page of it alone.
	Data, Before, Alone string
}

// chartsData is what the page of charts shows.
type chartsData struct {
	// None says that nobody keeps metrics.
	None                      bool
	Role                      string
	Query, Since, Until, Node string
	OfRole                    string
	Compare                   bool
	Nodes, Roles              []string
	Problem                   string
	Begin, End                string
	Charts                    []chart
	// Fixed is the address with its times; the others lead to another time.
	Fixed, Earlier, Later, Wider, Narrower string
}

// ready are the charts that are made for a node or for the nodes of a role; SEL stands for which.
func ready() []chart {
	const network = `device=~"(en|eth|bond|ib).+"`
	return []chart{
		{Title: "Processors in use", Unit: "percent", Query: `100 * (1 - avg by (instance) (rate(node_cpu_seconds_total{job="node",mode="idle",SEL}[5m])))`},
		{Title: "Memory in use", Unit: "percent",
			Query: `100 * (1 - node_memory_MemAvailable_bytes{job="node",SEL} / node_memory_MemTotal_bytes{job="node",SEL})`},
		{Title: "Disk /var in use", Unit: "percent",
			Query: `100 * (1 - node_filesystem_avail_bytes{job="node",mountpoint="/var",SEL} / node_filesystem_size_bytes{job="node",mountpoint="/var",SEL})`},
		{Title: "Written to disks", Unit: "bytes/s", Query: `sum by (instance) (rate(node_disk_written_bytes_total{job="node",SEL}[5m]))`},
		{Title: "Read from disks", Unit: "bytes/s", Query: `sum by (instance) (rate(node_disk_read_bytes_total{job="node",SEL}[5m]))`},
		{Title: "Received from the network", Unit: "bytes/s",
			Query: `sum by (instance) (rate(node_network_receive_bytes_total{job="node",` + network + `,SEL}[5m]))`},
		{Title: "Sent to the network", Unit: "bytes/s",
			Query: `sum by (instance) (rate(node_network_transmit_bytes_total{job="node",` + network + `,SEL}[5m]))`},
	}
}

// selector is the matcher of nodes.
func selector(nodes []string) string {
	var quoted []string
	for _, n := range nodes {
		quoted = append(quoted, regexp.QuoteMeta(n))
	}
	return `instance=~` + strconv.Quote(strings.Join(quoted, "|"))
}

// at is the address of the page, with changes.
func (d *chartsData) at(changes map[string]string) string {
	fields := map[string]string{"q": d.Query, "node": d.Node, "role": d.OfRole, "since": d.Since, "until": d.Until}
	if d.Compare {
		fields["week"] = "1"
	}
	q := url.Values{}
	for name, value := range fields {
		if other, changed := changes[name]; changed {
			value = other
		}
		if value != "" {
			q.Set(name, value)
		}
	}
	return chartsPath + "?" + q.Encode()
}

func (s *Server) chartsPage(a asked, p *page) bool {
	get := func(name string) string { return strings.TrimSpace(a.query.Get(name)) }
	d := &chartsData{
		None: s.watcher.asker.Query == nil, Role: store.Role, Query: get("q"), Since: cmp.Or(get("since"), "6h"), Until: get("until"), Node: get("node"),
		OfRole: get("role"), Compare: get("week") != "",
	}
	p.Data = d
	if d.None {
		return true
	}
	for _, n := range a.view.Nodes {
		d.Nodes = append(d.Nodes, n.Name)
	}
	for role, members := range s.watcher.cluster.Members {
		if len(members) > 0 {
			d.Roles = append(d.Roles, role)
		}
	}
	slices.Sort(d.Roles)
	begin, end, err := span(d.Since, d.Until, a.now)
	if err == nil {
		err = d.choose(s, a.view)
	}
	if err != nil {
		d.Problem = err.Error()
		return true
	}
	if len(d.Charts) == 0 {
		return true
	}
	p.Charts = true
	const form = "2006-01-02 15:04:05 UTC"
	d.Begin, d.End = begin.UTC().Format(form), end.UTC().Format(form)
	between := func(from, to time.Time) map[string]string {
		return map[string]string{"since": from.UTC().Format(time.RFC3339), "until": to.UTC().Format(time.RFC3339)}
	}
	half := end.Sub(begin) / 2
	d.Fixed, d.Earlier = d.at(between(begin, end)), d.at(between(begin.Add(-half), end.Add(-half)))
	d.Later, d.Wider = d.at(between(begin.Add(half), end.Add(half))), d.at(between(begin.Add(-2*half), end))
	d.Narrower = d.at(between(begin.Add(half), end))
	for i := range d.Charts {
		c := &d.Charts[i]
		q := url.Values{"q": {c.Query}, "from": {strconv.FormatInt(begin.Unix(), 10)}, "until": {strconv.FormatInt(end.Unix(), 10)}}
		c.Data = seriesPath + "?" + q.Encode()
		if d.Compare {
			q.Set("week", "1")
			c.Before = seriesPath + "?" + q.Encode()
		}
		c.Alone = d.at(map[string]string{"q": c.Query, "node": "", "role": ""})
	}
	return true
}

// choose has the charts that were asked for: one of a query, or those of a node or of a role.
func (d *chartsData) choose(s *Server, v View) error {
	var nodes []string
	switch {
	case d.Query != "":
		if len(d.Query) > maxPromQL {
			return fmt.Errorf("a query has at most %d bytes", maxPromQL)
		}
		d.Charts = []chart{{Title: d.Query, Query: d.Query}}
		return nil
	case d.Node != "":
		if _, found := v.node(d.Node); !found {
			return fmt.Errorf("no node of cluster.yaml has the name %.64q", d.Node)
		}
		nodes = []string{d.Node}
	case d.OfRole != "":
		if nodes = s.watcher.cluster.Members[d.OfRole]; len(nodes) == 0 {
			return fmt.Errorf("no node has the role %.64q", d.OfRole)
		}
	default:
		return nil
	}
	for _, c := range ready() {
		if c.Query = strings.ReplaceAll(c.Query, "SEL", selector(nodes)); len(c.Query) > maxPromQL {
			return fmt.Errorf("the role %s has too many nodes for one chart; choose a node", d.OfRole)
		}
		d.Charts = append(d.Charts, c)
	}
	return nil
}

// span is the time of charts, in whole seconds.
func span(since, until string, now time.Time) (begin, end time.Time, err error) {
	if begin, err = moment.Parse(since, now); err != nil {
		return begin, end, fmt.Errorf("since: %w", err)
	}
	end = now
	if until != "" {
		if end, err = moment.Parse(until, now); err != nil {
			return begin, end, fmt.Errorf("until: %w", err)
		}
	}
	begin, end = begin.Truncate(time.Second), end.Truncate(time.Second)
	switch length := end.Sub(begin); {
	case length < time.Minute:
		err = fmt.Errorf("a chart is of a minute at least, and until is behind since")
	case length > longest || begin.Unix() < int64(week/time.Second):
		err = fmt.Errorf("a chart is of at most %d days", int(longest/(24*time.Hour)))
	}
	return begin, end, err
}

// seriesAnswer is what the script takes.
type seriesAnswer struct {
	// Problem is why there are none.
	Problem string `json:"problem,omitempty"`
	// Store is the node that has answered. More is how many series are left out.
	Store string `json:"store,omitempty"`
	More  int    `json:"more,omitempty"`
	// At are the times in Unix seconds, and Lines the values at them; null where there is none.
	At    []int64      `json:"at"`
	Lines []seriesLine `json:"lines"`
}

type seriesLine struct {
	Name   string       `json:"name"`
	Values []*sixDigits `json:"values"`
}

// sixDigits is a value with as many digits as somebody sees.
type sixDigits float64

// MarshalJSON has six significant digits.
func (n sixDigits) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(n), 'g', 6, 64), nil
}

// series answers the script of the page of charts with what the store has.
func (s *Server) series(w http.ResponseWriter, r *http.Request) {
	s.watcher.Look()
	answer := s.seriesOf(r.Context(), r.URL.Query())
	w.Header().Set("Content-Type", "application/json")
	if answer.Problem != "" {
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *Server) seriesOf(ctx context.Context, q url.Values) (out seriesAnswer) {
	problem := func(err error) seriesAnswer { return seriesAnswer{Problem: shown(err.Error())} }
	if s.watcher.asker.Query == nil {
		return problem(fmt.Errorf("no node has the role %s", store.Role))
	}
	from, err := strconv.ParseInt(q.Get("from"), 10, 40)
	until, err2 := strconv.ParseInt(q.Get("until"), 10, 40)
	if err != nil || err2 != nil {
		return problem(fmt.Errorf("from and until are times in Unix seconds"))
	}
	begin, end, err := span(time.Unix(from, 0).UTC().Format(time.RFC3339), time.Unix(until, 0).UTC().Format(time.RFC3339), s.Now())
	if err != nil {
		return problem(err)
	}
	back := time.Duration(0)
	if q.Get("week") != "" {
		back = week
	}
	step := max(int64(shortest/time.Second), (until-from)/points)
	order := nodeapi.Order{Arguments: map[string]string{
		"query": q.Get("q"), "from": strconv.FormatInt(begin.Add(-back).Unix(), 10), "until": strconv.FormatInt(end.Add(-back).Unix(), 10),
		"step": strconv.FormatInt(step, 10),
	}}
	ctx, cancel := context.WithTimeout(ctx, charting)
	defer cancel()
	select {
	case s.questions <- struct{}{}:
		defer func() { <-s.questions }()
	case <-ctx.Done():
		return problem(ctx.Err())
	}
	all, node, err := s.watcher.asker.Query(ctx, order)
	if err != nil {
		return problem(err)
	}
	out = aligned(all, from, until, step, int64(back/time.Second))
	out.Store = shown(node)
	return out
}

// aligned has the values of all series at the same times, those of back seconds before as if they were of now.
func aligned(all []machine.Series, from, until, step, back int64) (out seriesAnswer) {
	for at := from; at <= until; at += step {
		out.At = append(out.At, at)
	}
	out.Lines = []seriesLine{}
	if out.More = len(all) - shownSeries; out.More > 0 {
		all = all[:shownSeries]
	}
	out.More = max(out.More, 0)
	for _, one := range all {
		line := seriesLine{Name: shown(metrics.Name(one.Labels)), Values: make([]*sixDigits, len(out.At))}
		for _, sample := range one.Samples {
			i := int(math.Round((sample.At + float64(back-from)) / float64(step)))
			value, err := strconv.ParseFloat(sample.Value, 64)
			if err != nil || math.IsNaN(value) || math.IsInf(value, 0) || i < 0 || i >= len(out.At) {
				continue
			}
			n := sixDigits(value)
			line.Values[i] = &n
		}
		out.Lines = append(out.Lines, line)
	}
	return out
}
