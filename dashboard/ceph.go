package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/fleet/cephstatus"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

const (
	cephPath = "/ceph"
	monitor  = "ceph-mon"
	// usageSince is for how long back the use of the OSDs is shown, usageStep what lies between two points.
	usageSince, usageStep = 7 * 24 * time.Hour, 3 * time.Hour
	// The drawing of the use: its size, in its own units.
	drawingWidth, drawingHeight = 600, 120
)

// storage is the page of Ceph.
type storage struct {
	From, Health string
	Level        Level
	Checks       []named
	Monitors     string
	Hosts        []host
	More         int
	Pools        []pool
	MorePools    int
	// Missing is what a node said that is missing, and why.
	Missing []string
	Usage   *usage
	// NoUsage is why there is no usage over time.
	NoUsage string
}

type host struct {
	Name string
	OSDs []osd
}

type osd struct {
	Name, State, Used, Percent string
	PGs                        int
	Level                      Level
}

type pool struct {
	Name, Stored, Free, Percent string
	Level                       Level
}

// usage is how much of all OSDs was used, as a line of a drawing; 100 % is its top.
type usage struct {
	Points, Begin, First, Last string
	Width, Height              int
}

func askCeph(ctx context.Context, w *inquiry, _ any) (any, error) {
	r, err := w.verb(ctx, monitor, "ceph-status", none)
	if err != nil {
		return nil, err
	}
	a, err := cephstatus.Read(r.Results)
	if err != nil {
		return nil, err
	}
	s := storageOf(a)
	s.From, s.Missing = r.Node, r.Said
	s.Usage, s.NoUsage = w.cephUsage(ctx)
	return s, nil
}

func storageOf(a cephstatus.Answer) *storage {
	s := &storage{Health: a.Status.Health.Status, Level: healthLevel(a.Status.Health.Status)}
	for _, name := range slices.Sorted(maps.Keys(a.Status.Health.Checks)) {
		c := a.Status.Health.Checks[name]
		s.Checks = append(s.Checks, named{name, c.Summary.Message, healthLevel(c.Severity)})
	}
	slices.SortStableFunc(s.Checks, func(a, b named) int { return cmp.Compare(b.Level, a.Level) })
	s.Checks = s.Checks[:min(len(s.Checks), maxRows)]
	s.Monitors = fmt.Sprintf("%d in the quorum", len(a.Status.QuorumNames))
	if m := a.Monitors; m != nil {
		s.Monitors = fmt.Sprintf("%d of %d in the quorum; %s leads", len(m.Quorum), len(m.All), cmp.Or(m.Leader, "nobody"))
	}
	osds := 0
	for _, n := range a.OSDs.Nodes {
		switch {
		case n.Type == "osd" && osds == maxRows:
			s.More++
		case n.Type == "osd":
			osds++
			if len(s.Hosts) == 0 {
				s.Hosts = append(s.Hosts, host{Name: "no host"})
			}
			last := &s.Hosts[len(s.Hosts)-1]
			last.OSDs = append(last.OSDs, osdOf(n))
		case n.Type == "host" && len(s.Hosts) < maxRows:
			s.Hosts = append(s.Hosts, host{Name: n.Name})
		}
	}
	var pools []cephstatus.Pool
	pools, s.MorePools = cut(a.Pools.Pools)
	for _, p := range pools {
		row := pool{Name: p.Name, Stored: bytesOf(p.Stats.Stored), Free: bytesOf(p.Stats.MaxAvail), Percent: percent(p.Stats.Percent)}
		row.Level = fullness(p.Stats.Percent)
		s.Pools = append(s.Pools, row)
	}
	return s
}

func osdOf(n cephstatus.OSD) osd {
	row := osd{Name: n.Name, State: n.Status + ", in", PGs: n.PGs, Used: bytesOf(n.KBUsed*1024) + " of " + bytesOf(n.KB*1024)}
	used := 0.0
	if n.KB > 0 {
		used = n.KBUsed / n.KB
	}
	row.Percent, row.Level = percent(used), fullness(used)
	if n.Reweight == 0 {
		row.State, row.Level = n.Status+", out", max(row.Level, Warning)
	}
	if n.Status != "up" {
		row.Level = Critical
	}
	return row
}

// fullness is how bad it is that something is that full: Ceph warns at 85 %, and stops writes at 95 %.
func fullness(used float64) Level {
	switch {
	case used >= 0.95:
		return Critical
	case used >= 0.85:
		return Warning
	}
	return Fine
}

func healthLevel(text string) Level {
	switch text {
	case "HEALTH_OK":
		return Fine
	case "HEALTH_ERR":
		return Critical
	}
	return Warning
}

// bytesOf is a size for people.
func bytesOf(n float64) string {
	if math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
		return "unknown"
	}
	for _, unit := range []struct {
		size float64
		name string
	}{{1 << 50, "PiB"}, {1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", n/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%.0f KiB", n/1024)
}

func percent(part float64) string {
	if math.IsNaN(part) || math.IsInf(part, 0) {
		return "unknown"
	}
	return fmt.Sprintf("%.0f %%", part*100)
}

// cephUsage asks the store of metrics, where the cluster has one.
func (w *inquiry) cephUsage(ctx context.Context) (*usage, string) {
	if len(w.cluster.Members[metrics.Role]) == 0 {
		return nil, "No node has the role " + metrics.Role + ", so nobody keeps how much was used; see docs/metrics.md."
	}
	now := w.now()
	r, err := w.verb(ctx, metrics.Role, "metrics-query", nodeapi.Order{Arguments: map[string]string{
		"query": "max(ceph_cluster_total_used_bytes/ceph_cluster_total_bytes)",
		"from":  strconv.FormatInt(now.Add(-usageSince).Unix(), 10), "until": strconv.FormatInt(now.Unix(), 10),
		"step": strconv.Itoa(int(usageStep.Seconds())),
	}})
	if err != nil {
		return nil, "The store of metrics does not answer: " + err.Error()
	}
	u, err := usageOf(r.Results)
	if err != nil {
		return nil, "The store of metrics: " + err.Error()
	}
	if u == nil {
		return nil, "The store of metrics has nothing of it yet."
	}
	return u, ""
}

// usageOf draws the first series of an answer; nil where it has fewer than two points.
func usageOf(results []json.RawMessage) (*usage, error) {
	var samples []machine.Sample
	for _, part := range results {
		var all []machine.Series
		if err := json.Unmarshal(part, &all); err != nil {
			return nil, fmt.Errorf("the answer is malformed: %w", err)
		}
		for _, s := range all {
			samples = append(samples, s.Samples...)
		}
	}
	type point struct{ at, used float64 }
	var points []point
	for _, s := range samples[:min(len(samples), 1000)] {
		used, err := strconv.ParseFloat(s.Value, 64)
		if err == nil && used >= 0 && used <= 1 && s.At >= 0 && s.At < 1<<40 {
			points = append(points, point{s.At, used})
		}
	}
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.at, b.at) })
	if len(points) < 2 || points[0].at == points[len(points)-1].at {
		return nil, nil
	}
	first, last := points[0], points[len(points)-1]
	var line []string
	for _, p := range points {
		x := (p.at - first.at) / (last.at - first.at) * drawingWidth
		line = append(line, fmt.Sprintf("%.1f,%.1f", x, (1-p.used)*drawingHeight))
	}
	return &usage{
		Points: strings.Join(line, " "), Width: drawingWidth, Height: drawingHeight, First: percent(first.used), Last: percent(last.used),
		Begin: time.Unix(int64(first.at), 0).UTC().Format("2006-01-02 15:04 UTC"),
	}, nil
}
