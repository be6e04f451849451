// Package dashboard is the pages about a running cluster, which a command or a node serves: what is wrong, since when,
// and what to do about it. It only looks. What it shows is what the nodes say, and it says how old that is.
package dashboard

import (
	"context"
	"slices"
	"sync"
	"time"

	"spore/cluster/facts"
	"spore/fleet"
	"spore/fleet/clusterhealth"
	"spore/fleet/logs"
	"spore/fleet/trail"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

const (
	// every is how long lies between two questions to a node of few, forEach what each node adds to it, so that many cost
	// this machine no more, and most its bound.
	every, forEach, most = 5 * time.Second, 10 * time.Millisecond, 7 * time.Second
	// stale is the age from which on a value is shown as an old one.
	stale = 9 * time.Second
	// watched is for how long after the last look at a page the nodes are asked. After as long without an answer, nobody
	// knows when something became as it is.
	watched = time.Minute
)

// Asker asks the cluster; tests have their own.
type Asker struct {
	// Node asks one node for its status and its health.
	Node func(ctx context.Context, name string) (nodeapi.Status, nodeapi.Health, error)
	// Alerts asks who knows them what fires. It is nil where the cluster has no alerts.
	Alerts func(ctx context.Context) ([]machine.Alert, error)
	// Logs searches the logs (logs.Search).
	Logs func(ctx context.Context, q logs.Question) (logs.Found, error)
	// Follow gives the last lines of a node, and then each as it is written (logs.Follow).
	Follow func(ctx context.Context, node string, lines int, each func(logs.Line) error) error
	// Trail asks who had nodes change something (trail.Ask).
	Trail func(ctx context.Context, q trail.Question) (trail.Answer, error)
	// Query asks a store of metrics, and says which (metrics.Query). It is nil where the cluster has none.
	Query func(ctx context.Context, o nodeapi.Order) (series []machine.Series, store string, err error)
	// Renewals asks all nodes how far they are with their certificates (nodeapi.RenewalPath).
	Renewals func(ctx context.Context) []fleet.Answer[nodeapi.Renewal]
	// Devices writes the disks and the network of a node as text.
	Devices func(ctx context.Context, node string) (disks, network string, err error)
	// Verb has the first node with a role that answers carry out a verb that looks, and the next one where that fails.
	Verb func(ctx context.Context, role, verb string, o nodeapi.Order) (Reply, error)
	// On has one node carry out a verb that looks.
	On func(ctx context.Context, node, verb string, o nodeapi.Order) (Reply, error)
	// Files are those of the operator's folder that a configuration is compiled from, by their paths in it. It is nil where
	// there is no such folder.
	Files func() (map[string][]byte, error)
	// Metrics asks a node for what it measures, in the text format of Prometheus.
	Metrics func(ctx context.Context, node string) ([]byte, error)
	// Machines asks the spore serve of this machine for the machines that boot from the network. It is nil on a node.
	Machines func(ctx context.Context) (Machines, error)
	// Silence and Unsilence have nobody told of alerts, and end that by the ID of the silence; they return what was done.
	// Both are nil where the certificate is no operator's.
	Silence   func(ctx context.Context, w Wish) (string, error)
	Unsilence func(ctx context.Context, id string) (string, error)
	// From is the node that serves the pages and asks by a certificate of its own; empty on an operator's machine.
	From string
	// Timeout bounds a question.
	Timeout time.Duration
	// Ends is when the operator's certificate ends.
	Ends time.Time
}

// Node is what is known of a node.
type Node struct {
	facts.Node
	// Status and Health are what it answered last, and Answered is when; zero when it never has.
	Status   nodeapi.Status
	Health   nodeapi.Health
	Asked    time.Time
	Answered time.Time
	// Problem says why it does not answer; nil when it does, or was not asked yet. Silent is since when it does not, and
	// Failed when the last question was sent that it has not answered.
	Problem error
	Silent  Change
	Failed  time.Time
	// Conditions has since when a condition is as it is, as far as this page has seen it.
	Conditions map[string]Change
}

// Change is a state and since when it is seen.
type Change struct {
	State nodeapi.State
	Since time.Time
	// First says that nobody looked before, or not for a while: it may be so for longer.
	First bool
}

// View is what is known at a moment. It is never changed, nor is what it points to: with many nodes, an answer comes each
// few milliseconds, and makes another view of one other node.
type View struct {
	Nodes []*Node
	// Alerts are what fires, AlertsAt when that was heard, and AlertsProblem why nothing newer is known.
	Alerts        []machine.Alert
	AlertsAt      time.Time
	AlertsProblem error
	// alertsLate is from when on the next answer is late.
	alertsLate time.Time
	// cluster judges the whole, once for all who look at the view: most views nobody sees.
	cluster func() clusterhealth.Cluster
	// told is what is known for the pages of services, by their paths.
	told map[string]Told
	// from is the node that asks (Asker.From).
	from string
}

// Watcher asks nodes while somebody looks.
type Watcher struct {
	cluster facts.Cluster
	asker   Asker
	now     func() time.Time

	mu    sync.Mutex
	view  View
	looks time.Time
	// wake is closed when somebody looks after a while in which nobody did; changed when the view is another one.
	wake, changed chan struct{}
	// lookers ask for the pages of services, by their paths.
	lookers map[string]*looker
}

// NewWatcher makes the watcher of a cluster's nodes. It asks nobody before Run.
func NewWatcher(c facts.Cluster, nodes []facts.Node, a Asker, now func() time.Time) *Watcher {
	w := &Watcher{cluster: c, asker: a, now: now, wake: make(chan struct{}), changed: make(chan struct{}), lookers: lookers()}
	for _, n := range nodes {
		w.view.Nodes = append(w.view.Nodes, &Node{Node: n, Conditions: map[string]Change{}})
	}
	w.view.cluster, w.view.from = judge(c.Name, w.view.Nodes), a.From
	return w
}

// Run asks until ctx is over. Each node is asked for itself, so that none waits for another.
func (w *Watcher) Run(ctx context.Context) {
	var all sync.WaitGroup
	w.mu.Lock()
	nodes := w.view.Nodes // The first that answer make another view while the last are begun with.
	w.mu.Unlock()
	pause := min(every+time.Duration(len(nodes))*forEach, most)
	for i, n := range nodes {
		all.Go(func() {
			w.repeat(ctx, func(ctx context.Context) time.Duration {
				w.askNode(ctx, i, n.Name)
				return pause
			})
		})
	}
	if w.asker.Alerts != nil {
		all.Go(func() { w.repeat(ctx, w.askAlerts) })
	}
	w.runServices(ctx, &all)
	all.Wait()
}

// repeat asks again and again, each time as long after the question as ask returns, and pauses while nobody looks.
func (w *Watcher) repeat(ctx context.Context, ask func(context.Context) time.Duration) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		w.mu.Lock()
		idle, wake := w.now().Sub(w.looks) > watched, w.wake
		w.mu.Unlock()
		if idle {
			select {
			case <-ctx.Done():
				return
			case <-wake:
			}
		}
		begun := time.Now()
		each, cancel := context.WithTimeout(ctx, w.asker.Timeout)
		pause := ask(each)
		cancel()
		timer.Reset(max(pause-time.Since(begun), time.Second))
	}
}

func (w *Watcher) askNode(ctx context.Context, i int, name string) {
	asked := w.now()
	s, h, err := w.asker.Node(ctx, name)
	w.change(func(v *View) {
		next := *v.Nodes[i]
		n := &next
		v.Nodes[i] = n
		if err != nil {
			if n.Problem == nil {
				n.Silent = Change{Since: asked, First: asked.Sub(n.Answered) > watched}
				w.hurry(name)
			}
			n.Problem, n.Failed = err, asked
			return
		}
		n.Conditions = changes(n.Conditions, h, asked, asked.Sub(n.Answered) > watched)
		n.Status, n.Health, n.Problem, n.Silent = s, h, nil, Change{}
		n.Asked, n.Answered = asked, w.now()
	})
}

// changes has since when each condition of an answer is as it is; first says that the answer before is none, or an old
// one.
func changes(before map[string]Change, h nodeapi.Health, at time.Time, first bool) map[string]Change {
	out := make(map[string]Change, len(h.Conditions))
	for _, c := range h.Conditions {
		old, known := before[c.Name]
		switch {
		case known && old.State == c.State:
			out[c.Name] = old
		default:
			out[c.Name] = Change{State: c.State, Since: at, First: first}
		}
	}
	return out
}

func (w *Watcher) askAlerts(ctx context.Context) time.Duration {
	asked := w.now()
	alerts, err := w.asker.Alerts(ctx)
	when := timed(asked, w.now(), soonest)
	w.change(func(v *View) {
		if v.AlertsProblem = err; err == nil {
			v.Alerts, v.AlertsAt, v.alertsLate = alerts, when.Answered, when.late()
		}
	})
	return when.Pause
}

// change makes the next view, and tells those who wait for it.
func (w *Watcher) change(edit func(*View)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := w.view
	next.Nodes = slices.Clone(w.view.Nodes)
	edit(&next)
	next.cluster = judge(w.cluster.Name, next.Nodes)
	w.view = next
	close(w.changed)
	w.changed = make(chan struct{})
}

// judge has the conditions of the cluster, of what the nodes said last. A node that has yet to answer the first time is
// no reason for an alarm.
func judge(name string, nodes []*Node) func() clusterhealth.Cluster {
	return sync.OnceValue(func() clusterhealth.Cluster {
		answers := make([]fleet.Answer[nodeapi.Health], 0, len(nodes))
		for _, n := range nodes {
			if n.Problem == nil && n.Answered.IsZero() {
				continue
			}
			a := fleet.Answer[nodeapi.Health]{Node: n.Node, Err: n.Problem, Asked: n.Asked, Answered: n.Answered}
			if a.Err == nil {
				a.Value = n.Health
			}
			answers = append(answers, a)
		}
		if len(answers) == 0 {
			return clusterhealth.Cluster{}
		}
		return clusterhealth.Judge(name, answers)
	})
}

// Look is what is known now. It has the nodes asked for a while; changed is closed when there is more to see.
func (w *Watcher) Look() (v View, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if now.Sub(w.looks) > watched {
		close(w.wake)
		w.wake = make(chan struct{})
	}
	w.looks = now
	return w.view, w.changed
}

// Ended tells that the operator's certificate has ended.
func (w *Watcher) Ended() bool { return !w.asker.Ends.IsZero() && w.now().After(w.asker.Ends) }

// grows is when the first of the values that are fresh becomes an old one; zero when none is fresh.
func (v View) grows(now time.Time) time.Time {
	var first time.Time
	for _, n := range v.Nodes {
		if !n.Answered.IsZero() {
			first = sooner(first, n.Answered.Add(stale), now)
		}
	}
	return sooner(sooner(first, v.alertsLate, now), v.growsOld(now), now)
}

// sooner is at where it is before first, or there is no first, and is yet to come.
func sooner(first, at, now time.Time) time.Time {
	if at.After(now) && (first.IsZero() || at.Before(first)) {
		return at
	}
	return first
}
