package dashboard

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

const (
	// serviceEvery lies between two questions to a service, and serviceBound is how long one may take.
	serviceEvery, serviceBound = 20 * time.Second, 90 * time.Second
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
	ask func(ctx context.Context, w *Watcher, before any) (any, error)
}

// sources are the questions of the pages of services.
func sources() []source {
	return []source{
		{cephPath, askCeph}, {kafkaPath, askKafka}, {messagingPath, askMessaging}, {quorumsPath, askQuorums},
		{machinesPath, askMachines}, {kubernetesPath, askKubernetes}, {configurationPath, askConfiguration},
	}
}

// Told is what is known for the page of a service.
type Told struct {
	// Value is what the page shows, of which the question was sent at Asked; nil when there is none yet.
	Value any
	Asked time.Time
	// Problem says why nothing newer is known.
	Problem error
}

// looker notes when somebody looked at a page, and wakes who asks for it.
type looker struct {
	source
	looked time.Time
	wake   chan struct{}
}

func lookers() map[string]*looker {
	out := map[string]*looker{}
	for _, s := range sources() {
		out[s.path] = &looker{source: s, wake: make(chan struct{})}
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
		begun := time.Now()
		w.askService(ctx, l)
		timer.Reset(max(serviceEvery-time.Since(begun), time.Second))
	}
}

func (w *Watcher) askService(ctx context.Context, l *looker) {
	ctx, cancel := context.WithTimeout(ctx, serviceBound)
	defer cancel()
	w.mu.Lock()
	before := w.view.told[l.path].Value
	w.mu.Unlock()
	asked := w.now()
	value, err := l.ask(ctx, w, before)
	w.change(func(v *View) {
		told := maps.Clone(v.told)
		if told == nil {
			told = map[string]Told{}
		}
		t := told[l.path]
		if t.Problem = err; err == nil {
			t.Value, t.Asked = value, asked
		}
		told[l.path] = t
		v.told = told
	})
}

// service is what the template of a service's page shows.
type service struct {
	// Value is nil while nothing is known.
	Value any
	// Stale says that Value is an old one; Age is how old it is.
	Stale        bool
	Age, Problem string
}

// old is the age from which on what is known of a service is an old one: the next answer is late.
const old = serviceEvery + stale

// servicePage fills the page of a service.
func servicePage(path string) func(*Server, asked, *page) bool {
	return func(s *Server, a asked, p *page) bool {
		t := s.watcher.lookAt(path)
		out := service{Value: t.Value}
		if t.Problem != nil {
			out.Problem = t.Problem.Error()
		}
		if t.Value != nil {
			age := a.now.Sub(t.Asked)
			out.Stale, out.Age = age > old || t.Problem != nil, "moments ago"
			if out.Stale {
				out.Age = ago(age)
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
		if at := t.Asked.Add(old); t.Value != nil && at.After(now) && (first.IsZero() || at.Before(first)) {
			first = at
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

// nodes are those that are asked.
func (w *Watcher) nodes() []facts.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]facts.Node, 0, len(w.view.Nodes))
	for _, n := range w.view.Nodes {
		out = append(out, n.Node)
	}
	return out
}

// none is an order without arguments.
var none = nodeapi.Order{}
