//go:build e2e

package dashboard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"spore/builder/entrance"
	"spore/cluster/facts"
	"spore/dashboard"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// timeout is how long a node is asked, as the command has it.
const timeout = 10 * time.Second

// hostile is a text that would do something, were it not shown as text: it ends an attribute, runs a script, and turns
// the direction of what comes behind it.
const hostile = `"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>` + "\u202eevil\u2066"

// plant is a cluster that answers as the test says, with the pages about it.
type plant struct {
	facts facts.Cluster
	nodes []facts.Node
	// ends is when the certificate does; zero is never. operator is whether it may silence alerts, and blind that no node
	// has the role alerts.
	ends            time.Time
	operator, blind bool
	// services is whether they answer.
	services bool

	mu      sync.Mutex
	answers map[string]answer
	alerts  []machine.Alert
	problem error
	// faults are those of services, by the verb, or by "logs" and "metrics".
	faults map[string]fault
	// wishes are the silences that were made.
	wishes []dashboard.Wish

	// address is what the command prints, and origin the same without its secret.
	address, origin string
	stopped         func()
}

// answer is what a node says. One that is silent takes the question and says nothing.
type answer struct {
	status nodeapi.Status
	health nodeapi.Health
	err    error
	silent bool
	// ahead is by how much its clock is.
	ahead time.Duration
}

// fault is what is wrong with a service: what it answers instead, if it does, and how long it takes.
type fault struct {
	answer []string
	err    error
	takes  time.Duration
}

// breaks has a service do what it does when it is not well.
func (p *plant) breaks(service string, f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults == nil {
		p.faults = map[string]fault{}
	}
	p.faults[service] = f
}

// broken is what a service does that is not well; it takes its time.
func (p *plant) broken(ctx context.Context, service string) (fault, bool) {
	p.mu.Lock()
	f, found := p.faults[service]
	p.mu.Unlock()
	select {
	case <-ctx.Done():
		return fault{err: errors.New("no answer in time")}, true
	case <-time.After(f.takes):
	}
	return f, found
}

// newPlant has nodes of which nothing is wrong.
func newPlant(names ...string) *plant {
	p := &plant{facts: facts.Cluster{Name: "plant", ID: "id"}, answers: map[string]answer{}}
	for _, name := range names {
		p.nodes = append(p.nodes, facts.Node{Name: name, Roles: []string{"mqtt-broker"}})
		p.answers[name] = well(name)
	}
	p.alerts = []machine.Alert{{Labels: map[string]string{machine.AlertName: metrics.Watchdog}, State: machine.Fires}}
	return p
}

// troubled is a small cluster with a problem of each kind.
func troubled() *plant {
	p := newPlant("edge-01", "edge-02", "edge-03", "edge-04")
	p.says("edge-02", failing)
	p.says("edge-03", func(a *answer) { a.err = errors.New("no answer: connection refused") })
	p.says("edge-04", func(a *answer) {
		a.status.System, a.status.Failed, a.status.Services["kafka.service"] = "degraded", []string{"kafka.service"}, "failed"
		a.health.Healthy = false
		a.health.Conditions = append(slices.Clone(a.health.Conditions),
			nodeapi.Condition{Name: "units", State: nodeapi.Failing, Reason: "kafka.service failed"},
			nodeapi.Condition{Name: "system", State: nodeapi.Failing, Reason: "degraded: a unit failed"})
		a.status.Held = []nodeapi.Held{{Role: "kafka-broker", Reason: "it waits for its bundle"}}
	})
	p.alerts = append(p.alerts, machine.Alert{
		Labels: map[string]string{machine.AlertName: "NodeSilent", machine.AlertNode: "edge-03", machine.Severity: "critical"},
		State:  machine.Fires, Since: time.Now().Add(-10 * time.Minute), Summary: "edge-03 does not answer", Runbook: "alerts#nodesilent",
	}, machine.Alert{
		Labels: map[string]string{machine.AlertName: "PressTooHot", "job": "press", machine.Severity: "warning"},
		State:  machine.Fires, Since: time.Now().Add(-3 * time.Hour), Summary: "the press is too hot", Runbook: "https://wiki.plant.example/press",
	}, machine.Alert{
		Labels: map[string]string{machine.AlertName: "DiskFull", machine.AlertNode: "edge-02", machine.Severity: "warning"},
		State:  machine.HeldBack, Since: time.Now().Add(-time.Hour), Summary: "the disk of edge-02 is full",
	}, machine.Alert{
		Labels: map[string]string{machine.AlertName: "SensorSilent", machine.AlertNode: "edge-04", machine.Severity: "warning"},
		State:  machine.Silenced, Since: time.Now().Add(-time.Hour), Summary: "a sensor of edge-04 says nothing",
		Silences: []machine.Silence{{ID: silenceID, By: "bert", Comment: "the sensor is replaced", Ends: time.Now().Add(time.Hour)}},
	})
	return p
}

// large has so many nodes, of which every tenth is not well.
func large(many int) *plant {
	var names []string
	for i := range many {
		names = append(names, fmt.Sprintf("edge-%03d", i))
	}
	p := newPlant(names...)
	for i := 0; i < many; i += 10 {
		p.says(names[i], failing)
	}
	return p
}

func well(name string) answer {
	return answer{
		status: nodeapi.Status{
			Spore: 1, Cluster: "plant", Node: name, System: "running", Roles: []string{"mqtt-broker"}, Addresses: []string{"10.77.0.16"},
			Services: map[string]string{"mosquitto.service": "active", "spore-agent.service": "active"}, Versions: map[string]string{"mosquitto": "2.0.21"},
			Configuration: &nodeapi.Configuration{RootHash: "0123456789abcdef", Serial: 7},
		},
		health: nodeapi.Health{Cluster: "id", Node: name, Healthy: true, Conditions: []nodeapi.Condition{
			{Name: "agent", State: nodeapi.OK, Reason: "it runs"}, {Name: "clock", State: nodeapi.OK, Reason: "it has the time of 10.77.0.1"},
			{Name: "space", State: nodeapi.OK, Reason: "90 % of /var is free"},
		}},
	}
}

func failing(a *answer) {
	a.health.Healthy = false
	a.health.Conditions = []nodeapi.Condition{
		{Name: "agent", State: nodeapi.OK, Reason: "it runs"}, {Name: "clock", State: nodeapi.Warning, Reason: "its source does not answer"},
		{Name: "space", State: nodeapi.Failing, Reason: "1 % of /var is free"},
	}
}

func (p *plant) says(name string, change func(*answer)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.answers[name]
	change(&a)
	p.answers[name] = a
}

// fires adds an alert.
func (p *plant) fires(a machine.Alert) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alerts = append(p.alerts, a)
}

func (p *plant) ask(ctx context.Context, name string) (nodeapi.Status, nodeapi.Health, error) {
	p.mu.Lock()
	a := p.answers[name]
	p.mu.Unlock()
	if a.silent {
		<-ctx.Done()
		return nodeapi.Status{}, nodeapi.Health{}, errors.New("no answer in time")
	}
	a.health.Time = time.Now().Add(a.ahead)
	return a.status, a.health, a.err
}

func (p *plant) askAlerts(context.Context) ([]machine.Alert, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alerts, p.problem
}

// silence is what Alertmanager does: the alerts of the name are silenced.
func (p *plant) silence(_ context.Context, w dashboard.Wish) (string, error) {
	if w.Name == metrics.Watchdog {
		return "", errors.New("edge-01: it would silence the alert that always fires")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wishes = append(p.wishes, w)
	p.alerts = slices.Clone(p.alerts)
	for i, a := range p.alerts {
		if a.Labels[machine.AlertName] == w.Name {
			p.alerts[i].State = machine.Silenced
			p.alerts[i].Silences = []machine.Silence{{ID: silenceID, By: "anna", Comment: w.Comment, Ends: time.Now().Add(2 * time.Hour)}}
		}
	}
	return "silenced", nil
}

func (p *plant) unsilence(_ context.Context, id string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alerts = slices.Clone(p.alerts)
	for i, a := range p.alerts {
		if len(a.Silences) > 0 && a.Silences[0].ID == id {
			p.alerts[i].State, p.alerts[i].Silences = machine.Fires, nil
		}
	}
	return "ended", nil
}

// silenceID is that of the silence.
const silenceID = "3d1219c7-c4c5-404a-aa1f-6d2a48adfda4"

// serve has the pages served as the command does, until stop.
func (p *plant) serve() error {
	asker := dashboard.Asker{Node: p.ask, Alerts: p.askAlerts, Timeout: timeout, Ends: p.ends}
	if p.blind {
		asker.Alerts = nil
	}
	if p.services {
		p.asks(&asker)
	}
	if p.operator {
		asker.Silence, asker.Unsilence = p.silence, p.unsilence
	}
	watcher := dashboard.NewWatcher(p.facts, p.nodes, asker, time.Now)
	pages, err := dashboard.NewServer(dashboard.Options{Cluster: p.facts.Name, Dir: "configs", Now: time.Now, Token: rand.Text()}, watcher)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	door, path, err := entrance.New(entrance.Options{
		Host: l.Addr().String(), Name: "spore-dashboard", Command: "spore dashboard", First: "/", Random: rand.Reader,
		Methods: []string{http.MethodGet, http.MethodPost},
	}, pages)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	p.origin = "http://" + l.Addr().String()
	p.address = p.origin + path
	ctx, cancel := context.WithCancel(context.Background())
	var runs sync.WaitGroup
	runs.Go(func() { watcher.Run(ctx) })
	runs.Go(func() { _ = entrance.Serve(ctx, l, door) }) // It ends with the test.
	p.stopped = func() { cancel(); runs.Wait() }
	return nil
}
