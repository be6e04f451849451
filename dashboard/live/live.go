// Package live asks a running cluster for what the pages of package dashboard show.
package live

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"

	"spore/cluster/facts"
	"spore/dashboard"
	"spore/fleet"
	"spore/fleet/alerts"
	"spore/fleet/devices"
	"spore/fleet/logs"
	query "spore/fleet/metrics"
	"spore/fleet/trail"
	"spore/fleet/verbs"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// stay is for how long a connection to a node is kept on which nothing is asked: longer than the pause between two
// questions, and shorter than nodes keep it.
const stay = 20 * time.Second

// fresh is after how long a connection to a node is begun anew: the certificate that it shows may have been renewed.
const fresh = 10 * time.Minute

// Asker asks the nodes of a cluster, with a certificate that ends at a time; zero is one that is renewed. It changes
// nothing.
func Asker(c *fleet.Cluster, ends time.Time) dashboard.Asker {
	a := dashboard.Asker{Node: (&visitor{c: c, visits: map[string]visit{}}).ask, Timeout: c.Timeout, Ends: ends}
	a.Logs = func(ctx context.Context, q logs.Question) (logs.Found, error) {
		return logs.Search(ctx, c, q, time.Now())
	}
	a.Follow = func(ctx context.Context, node string, lines int, each func(logs.Line) error) error {
		return logs.Follow(ctx, c, node, lines, each)
	}
	a.Trail = func(ctx context.Context, q trail.Question) (trail.Answer, error) {
		return trail.Ask(ctx, c, q, time.Now())
	}
	a.Renewals = func(ctx context.Context) []fleet.Answer[nodeapi.Renewal] {
		return fleet.Each(ctx, c, func(ctx context.Context, n facts.Node) (nodeapi.Renewal, error) {
			return fleet.Renewal(ctx, c.Client, n.Name)
		})
	}
	a.Devices = func(ctx context.Context, node string) (string, string, error) { return devicesOf(ctx, c, node) }
	if len(c.Facts.Members[metrics.Role]) > 0 {
		a.Query = func(ctx context.Context, o nodeapi.Order) ([]machine.Series, string, error) {
			return query.Query(ctx, c, o)
		}
	}
	if len(c.Facts.Members[metrics.AlertsRole]) > 0 {
		a.Alerts = func(ctx context.Context) ([]machine.Alert, error) { return alerts.Now(ctx, c) }
	}
	a.Verb = (&rounds{c: c, last: map[string]string{}}).first
	a.On = func(ctx context.Context, node, name string, o nodeapi.Order) (dashboard.Reply, error) {
		var said lines
		answer, err := verbs.At(ctx, c, node, verbs.Row(name), o, &said)
		return dashboard.Reply{Node: node, Results: answer.Value.Results, Said: said.all()}, err
	}
	a.Metrics = func(ctx context.Context, node string) ([]byte, error) {
		return c.Client.Read(ctx, node, nodeapi.Request{Path: nodeapi.MetricsPath}, maxMetrics)
	}
	return a
}

// maxDevices bounds what a node says of its disks, and of its network, in bytes.
const maxDevices = 4 << 20

// devicesOf has the disks and the network of a node, as spore disks and spore net print them.
func devicesOf(ctx context.Context, c *fleet.Cluster, node string) (onDisks, onNetwork string, err error) {
	var texts [2]strings.Builder
	for i, of := range []struct {
		verb string
		show func(io.Writer, string, []json.RawMessage) error
	}{{"disks", devices.ShowDisks}, {"net", devices.ShowNetwork}} {
		results, err := verbs.Results(ctx, c, node, verbs.Row(of.verb), nodeapi.Order{}, maxDevices)
		if err == nil {
			err = of.show(&texts[i], node, results)
		}
		if err != nil {
			return "", "", err
		}
	}
	return texts[0].String(), texts[1].String(), nil
}

// visit is a connection to a node, and since when.
type visit struct {
	*nodeapi.Visit
	begun time.Time
}

// visitor asks each node on one connection.
type visitor struct {
	c      *fleet.Cluster
	mu     sync.Mutex
	visits map[string]visit
}

func (v *visitor) ask(ctx context.Context, name string) (nodeapi.Status, nodeapi.Health, error) {
	visit, err := v.visit(name)
	if err != nil {
		return nodeapi.Status{}, nodeapi.Health{}, err
	}
	line, err := visit.Read(ctx, nodeapi.Request{Path: nodeapi.StatusPath}, nodeapi.MaxStatus)
	if err != nil {
		return nodeapi.Status{}, nodeapi.Health{}, err
	}
	s, err := nodeapi.ParseStatus(line, v.c.Facts.Name, name)
	if err != nil {
		return nodeapi.Status{}, nodeapi.Health{}, err
	}
	data, err := visit.Read(ctx, nodeapi.Request{Path: nodeapi.HealthPath}, nodeapi.MaxHealth)
	if err != nil {
		return nodeapi.Status{}, nodeapi.Health{}, err
	}
	h, err := nodeapi.ParseHealth(data, v.c.Facts.ID, name)
	return s, h, err
}

func (v *visitor) visit(name string) (*nodeapi.Visit, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old, known := v.visits[name]
	if known && time.Since(old.begun) < fresh {
		return old.Visit, nil
	}
	next, err := v.c.Client.Stay(name, stay)
	if err != nil {
		return nil, err
	}
	if known {
		old.End()
	}
	v.visits[name] = visit{next, time.Now()}
	return next, nil
}
