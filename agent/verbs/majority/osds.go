package majority

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"spore/agent/datadisk"
	"spore/agent/disks"
	"spore/services/ceph/osd"
	"spore/wire/nodeapi"
)

const (
	// osds is what OSDs are called in Order.Force, by their role; monitors is the role of those who know of them.
	osds     = "ceph-osd"
	monitors = "ceph-mon"
	// safeBound is how long a monitor has to answer: longer than its own ceph(8) looks for a quorum.
	safeBound = 75 * time.Second
	// maxReason is how much of what Ceph says is shown, in bytes.
	maxReason = 400
)

// taken are the numbers of this node's OSDs that an absence takes away. The runtime directory of one that does not run
// has none: it is not missed when it stops, and before its disk is deleted its number is read there. unread is why that
// is not known. One that was not made to its end has never served.
func (g guard) taken(a Absence) (out []int, unread error) {
	for _, i := range disks.All(g.run.Machine) {
		units := disks.OSDUnits([]datadisk.Info{i})
		if len(units) == 0 || a.OSDs == nil && a.Concerns != nil || a.OSDs != nil && !a.OSDs(units[0]) {
			continue
		}
		switch {
		case i.OSD != nil:
			out = append(out, *i.OSD)
		case a.Destroys:
			id, found, err := osd.Number(g.run.Machine.Root.At(i.Device))
			if found {
				out = append(out, id)
			}
			unread = errors.Join(unread, err)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), unread
}

// bears says why Ceph needs OSDs of this node. A Ceph that does not answer is one that needs them: those who read and
// write go on without its monitors.
func (g guard) bears(ctx context.Context, a Absence, taken []int) error {
	forced := g.forced(osds)
	until := time.Now().Add(g.patience)
	answer, err := g.askMonitors(ctx, a, taken)
	for said := false; err == nil && g.waits(a, answer) && time.Now().Before(until); said = true {
		if !said {
			_ = g.run.Say("Ceph does not bear it now, and is asked again for %s: %s", g.patience, answer.Unsafe)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(g.every):
		}
		answer, err = g.askMonitors(ctx, a, taken)
	}
	switch {
	case err != nil && forced:
		return g.run.Say("whether Ceph bears that is not known: %v", err)
	case err != nil:
		return fmt.Errorf("%s takes away %s, and whether Ceph bears that is not known: %w; --force %s does it nevertheless",
			a.What, named(taken), err, osds)
	case answer.Unsafe == "", len(answer.Running) == 0 && !a.Destroys:
		return nil
	case a.Returns && answer.Others == 0:
		return g.run.Say("this node has all OSDs of Ceph that serve (%s), which stand still meanwhile", named(answer.Running))
	case forced:
		return g.run.Say("Ceph does not bear it: %s", answer.Unsafe)
	}
	if a.Destroys {
		return fmt.Errorf("%s takes away %s, and Ceph does not bear that: %s; have its data moved first (spore ceph osd-out "+
			"NUMBER), or --force %s deletes it nevertheless", a.What, named(taken), answer.Unsafe, osds)
	}
	return fmt.Errorf("%s takes away %s, and Ceph does not bear that: %s; wait until spore ceph status shows no degraded "+
		"data, or --force %s does it nevertheless", a.What, named(taken), answer.Unsafe, osds)
}

// waits tells whether Ceph may bear an absence a little later.
func (g guard) waits(a Absence, answer nodeapi.OSDsAnswer) bool {
	return a.Returns && !g.run.Order.DryRun && !g.forced(osds) && answer.Unsafe != "" && len(answer.Running) > 0 &&
		answer.Others > 0
}

// named lists OSDs for a person.
func named(numbers []int) string {
	var out []string
	for _, n := range numbers {
		out = append(out, "osd."+strconv.Itoa(n))
	}
	return strings.Join(out, ", ")
}

// askMonitors asks all nodes with a monitor at once, and takes the answer that comes first.
func (g guard) askMonitors(ctx context.Context, a Absence, taken []int) (nodeapi.OSDsAnswer, error) {
	var list []string
	for _, n := range taken {
		list = append(list, strconv.Itoa(n))
	}
	o := nodeapi.Order{Arguments: map[string]string{"osds": strings.Join(list, ","), "to": "stop"}}
	if a.Destroys {
		o.Arguments["to"] = "destroy"
	}
	ctx, cancel := context.WithTimeout(ctx, safeBound)
	defer cancel()
	nodes := g.run.Cluster.Members[monitors]
	problems := make([]string, len(nodes))
	first := make(chan nodeapi.OSDsAnswer, max(1, len(nodes)))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() {
			answer, err := g.safe(ctx, node, o)
			if err != nil {
				problems[i] = fmt.Sprintf("%s (%v)", node, err)
				return
			}
			first <- answer
			cancel()
		})
	}
	all.Wait()
	select {
	case answer := <-first:
		answer.Unsafe = strings.ToValidUTF8(nodeapi.Harmless(answer.Unsafe[:min(len(answer.Unsafe), maxReason)]), "")
		return answer, nil
	default:
	}
	if len(nodes) == 0 {
		return nodeapi.OSDsAnswer{}, errors.New("cluster.yaml has no node with a monitor")
	}
	return nodeapi.OSDsAnswer{}, errors.New("no monitor answers: " + strings.Join(problems, ", "))
}

// safeBy is how another node, or this one, is asked.
func safeBy(client nodeapi.Client) func(ctx context.Context, node string, o nodeapi.Order) (nodeapi.OSDsAnswer, error) {
	return func(ctx context.Context, node string, o nodeapi.Order) (nodeapi.OSDsAnswer, error) {
		body, err := json.Marshal(o)
		if err != nil {
			return nodeapi.OSDsAnswer{}, err
		}
		q := nodeapi.Request{Method: http.MethodPost, Path: nodeapi.VerbsPath + nodeapi.OSDSafe, Body: bytes.NewReader(body)}
		events, err := client.Ask(ctx, node, q)
		if err != nil {
			return nodeapi.OSDsAnswer{}, err
		}
		defer events.Close()
		return parseOSDs(io.LimitReader(events, nodeapi.MaxHealth))
	}
}

// parseOSDs reads what a monitor's node answers.
func parseOSDs(events io.Reader) (answer nodeapi.OSDsAnswer, err error) {
	some := false
	_, err = nodeapi.ReadEvents(events, func(e nodeapi.Event) error {
		if e.Result == nil {
			return nil
		}
		some = true
		return json.Unmarshal(e.Result, &answer)
	})
	switch {
	case err != nil:
		return nodeapi.OSDsAnswer{}, err
	case !some:
		return nodeapi.OSDsAnswer{}, errors.New("the answer says nothing of OSDs")
	}
	return answer, nil
}
