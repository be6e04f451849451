package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"spore/wire/nodeapi"
)

const (
	// serviceBound is how long a question to a service may take.
	serviceBound = 90 * time.Second
	// maxRows bounds each table of a page; what has no room is counted.
	maxRows = 300
)

// Reply is what a node answers to a verb that looks: the parts of the result, and what it said meanwhile.
type Reply struct {
	Node    string
	Results []json.RawMessage
	Said    []string
}

// servicePages are the rows of the table of pages that are about services.
func servicePages() []row {
	return []row{
		{path: kubernetesPath, title: "Kubernetes", template: "kubernetes", needs: []string{master}, make: servicePage(kubernetesPath)},
		{path: quorumsPath, title: "Quorums", template: "quorums", needs: []string{master, broker, monitor}, make: servicePage(quorumsPath)},
		{path: kafkaPath, title: "Kafka", template: "kafka", needs: []string{broker}, make: servicePage(kafkaPath)},
		{path: cephPath, title: "Ceph", template: "ceph", needs: []string{monitor}, make: servicePage(cephPath)},
		{path: messagingPath, title: "MQTT and DNS", template: "messaging", needs: []string{mqttBroker, dnsServer}, make: servicePage(messagingPath)},
		{path: configurationPath, title: "Configuration", template: "configuration", make: servicePage(configurationPath)},
		{path: machinesPath, title: "Machines", template: "machines", make: servicePage(machinesPath)},
	}
}

// source is what the page of a service asks.
type source struct {
	path string
	// ask returns what the page shows; before is what it returned last, nil at first. A page of several questions has
	// the problem of one that failed in what it shows.
	ask func(ctx context.Context, w *inquiry, before any) (any, error)
	// least lies between two questions at least, whatever they cost.
	least time.Duration
}

// sources are the questions of the pages of services.
func sources() []source {
	return []source{
		{cephPath, askCeph, soonest}, {kafkaPath, askKafka, soonest}, {messagingPath, askMessaging, counting},
		{quorumsPath, askQuorums, soonest}, {machinesPath, askMachines, soonest}, {kubernetesPath, askKubernetes, soonest},
		{configurationPath, askConfiguration, soonest},
	}
}

// Told is what is known for the page of a service.
type Told struct {
	// Value is what the page shows, timing is that of its question, and From are the nodes that said it; nil when there is
	// none yet.
	Value any
	timing
	From map[string]bool
	// Problem says why nothing newer is known.
	Problem error
}

// looker notes when somebody looked at a page, and wakes who asks for it.
type looker struct {
	source
	looked time.Time
	wake   chan struct{}
	// hurry has something in it when the next question is not to wait: a node that has answered the last one is gone.
	hurry chan struct{}
}

func lookers() map[string]*looker {
	out := map[string]*looker{}
	for _, s := range sources() {
		out[s.path] = &looker{source: s, wake: make(chan struct{}), hurry: make(chan struct{}, 1)}
	}
	return out
}

// lookAt is Look at the page of a service: it is asked for a while.
func (w *Watcher) lookAt(path string) Told {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, now := w.lookers[path], w.now()
	if l.looked.IsZero() || now.Sub(l.looked) > watched {
		close(l.wake)
		l.wake = make(chan struct{})
	}
	l.looked = now
	return w.view.told[path]
}

// runServices asks for the pages of services until ctx is over: for each while somebody looks at that one.
func (w *Watcher) runServices(ctx context.Context, all *sync.WaitGroup) {
	for _, l := range w.lookers {
		all.Go(func() { w.followService(ctx, l) })
	}
}

func (w *Watcher) followService(ctx context.Context, l *looker) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.hurry:
		}
		w.mu.Lock()
		idle, wake := l.looked.IsZero() || w.now().Sub(l.looked) > watched, l.wake
		w.mu.Unlock()
		if idle {
			select {
			case <-ctx.Done():
				return
			case <-wake:
			}
		}
		select {
		case <-l.hurry: // This question is the one.
		default:
		}
		begun := time.Now()
		pause := w.askService(ctx, l)
		timer.Reset(max(pause-time.Since(begun), time.Second))
	}
}

// askService asks, and returns how long after the question the next one is to be.
func (w *Watcher) askService(ctx context.Context, l *looker) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, serviceBound)
	defer cancel()
	w.mu.Lock()
	before := w.view.told[l.path].Value
	w.mu.Unlock()
	asked := w.now()
	q := &inquiry{Watcher: w, from: map[string]bool{}}
	value, err := l.ask(ctx, q, before)
	when := timed(asked, w.now(), l.least)
	w.change(func(v *View) {
		told := maps.Clone(v.told)
		if told == nil {
			told = map[string]Told{}
		}
		t := told[l.path]
		if t.Problem = err; err == nil {
			t.Value, t.timing, t.From = value, when, q.from
		}
		told[l.path] = t
		v.told = told
	})
	return when.Pause
}

// hurry has those asked again at once whose last answer came from a node. The caller has w.mu.
func (w *Watcher) hurry(node string) {
	for path, t := range w.view.told {
		if !t.From[node] {
			continue
		}
		select {
		case w.lookers[path].hurry <- struct{}{}:
		default:
		}
	}
}

// service is what the template of a service's page shows.
type service struct {
	// Value is nil while nothing is known.
	Value any
	// Elsewhere says that nothing is known here, and where it is.
	Elsewhere bool
	// Stale says that Value is an old one; Age is how old it is.
	Stale        bool
	Age, Problem string
	// Gone are nodes that have said it, and say nothing any more. Took is how long the answer took, where that was long.
	Gone []string
	Took string
	// Wrong is what is wrong with the service.
	Wrong []Trouble
}

// lacks tells that a page is of what only an operator's machine has.
func (a Asker) lacks(path string) bool {
	return path == configurationPath && a.Files == nil || path == machinesPath && a.Machines == nil
}

// servicePage fills the page of a service.
func servicePage(path string) func(*Server, asked, *page) bool {
	return func(s *Server, a asked, p *page) bool {
		if s.watcher.asker.lacks(path) {
			p.Data = service{Elsewhere: true}
			return true
		}
		t := s.watcher.lookAt(path)
		out := service{Value: t.Value}
		if t.Problem != nil {
			out.Problem = t.Problem.Error()
		}
		if t.Value != nil {
			out.Wrong = advised(t.Value, s.help(a.view))
			out.Gone, out.Age = a.view.gone(t, a.now), "moments ago"
			if out.Stale = a.now.After(t.late()) || t.Problem != nil || len(out.Gone) > 0; out.Stale {
				out.Age = ago(a.now.Sub(t.Asked))
			}
			if took := t.took(); took >= slow {
				out.Took = fmt.Sprintf("%d s", int(took.Seconds()))
			}
		}
		p.Data = out
		return true
	}
}

// growsOld is when the first of what is known of services becomes an old one; zero when nothing does.
func (v View) growsOld(now time.Time) time.Time {
	var first time.Time
	for _, t := range v.told {
		if t.Value == nil {
			continue
		}
		first = sooner(first, t.late(), now)
		for _, n := range v.Nodes {
			if t.From[n.Name] && !n.Answered.IsZero() {
				first = sooner(first, n.last(t.Answered).Add(stale), now)
			}
		}
	}
	return first
}

// cut bounds a table, and counts what has no room.
func cut[T any](rows []T) ([]T, int) {
	if len(rows) <= maxRows {
		return rows, 0
	}
	return rows[:maxRows], len(rows) - maxRows
}

// known is what is known of the nodes now.
func (w *Watcher) known() []*Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view.Nodes
}

// none is an order without arguments.
var none = nodeapi.Order{}
