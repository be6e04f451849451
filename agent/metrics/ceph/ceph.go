// Package ceph measures a storage cluster of Ceph by what its monitors answer to Ceph's own commands (ceph(8)): health,
// monitors, OSDs, placement groups, pools and how full they are. It holds for the whole cluster; so the monitor that
// leads tells it, and the others tell nothing.
//
// Names are those of the manager's module prometheus. The module itself is not in an image: it brings a web server, and
// its listener would have to be on one of the nodes, wherever the manager happens to be. Of placement groups, pools are
// not told apart. What a single OSD does is left out.
package ceph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/agent/metrics/ask"
	"spore/agent/metrics/family"
	"spore/agent/paths"
	"spore/services/ceph/monitor"
)

// Every is how often the monitors are asked: it takes a third of a second of a processor, most of it Python's start.
const Every = time.Minute

const (
	program = "/usr/bin/ceph"
	// folder has the configuration and the key of commands, and Python's modules in their compiled form.
	folder = "/run/ceph-bootstrap"
	// connectBound is how long a monitor is looked for, in seconds.
	connectBound = "4"
)

// Bounds: maxAnswer in bytes of all answers; maxMons and those below it are how many are told one by one.
const (
	maxAnswer = 8 << 20
	maxMons   = 100
	maxOSDs   = 2000
	maxPools  = 500
	maxChecks = 100
)

// states are the states of placement groups that are counted (ceph(8), "Placement Group States").
var states = []string{
	"active", "backfilling", "clean", "degraded", "down", "inconsistent", "peering", "recovering", "stale", "undersized",
}

// Families is the table of this package.
func Families() []family.Family {
	row := func(name, help string, labels ...string) family.Family {
		return family.Family{Name: name, Type: family.Gauge, Labels: labels, Help: help, From: "ceph"}
	}
	out := []family.Family{
		row("ceph_health_status", "Ceph's health: 0 is well, 1 a warning, 2 an error."),
		row("ceph_health_detail", "1 for each thing that Ceph warns of and that nobody has muted.", "name", "severity"),
		row("ceph_mon_quorum_status", "1 for a monitor in the quorum, 0 for one outside.", "ceph_daemon"),
		row("ceph_osd_up", "1 for an OSD that is up.", "ceph_daemon"),
		row("ceph_osd_in", "1 for an OSD that is to hold data.", "ceph_daemon"),
		row("ceph_cluster_total_bytes", "Size of all OSDs."),
		row("ceph_cluster_total_used_bytes", "What is used of all OSDs."),
		row("ceph_pg_total", "Placement groups."),
		row("ceph_num_objects_degraded", "Copies of objects that are missing."),
		row("ceph_num_objects_misplaced", "Copies of objects that are to move."),
		row("ceph_num_objects_unfound", "Objects of which no copy is found."),
		row("ceph_pool_metadata", "1 for each pool, by its name.", "pool_id", "name"),
		row("ceph_pool_stored", "What clients have stored in a pool, in bytes.", "pool_id"),
		row("ceph_pool_objects", "Objects in a pool.", "pool_id"),
		row("ceph_pool_max_avail", "What clients can still store in a pool, in bytes.", "pool_id"),
		row("ceph_pool_percent_used", "How full a pool is: 1 is full.", "pool_id"),
	}
	for _, s := range states {
		out = append(out, row("ceph_pg_"+s, "Placement groups that are "+s+"."))
	}
	return out
}

// On tells whether the node has a monitor.
func On(q ask.Question) bool { return slices.Contains(q.Programs, "ceph-mon") }

// Ceph is the node's monitor. Its zero value cannot be used; see New.
type Ceph struct {
	root paths.Root
	// leads tells whether the monitor leads, and run gives commands to the monitors and returns what was answered.
	leads func(ctx context.Context) (bool, error)
	run   func(ctx context.Context, commands string) ([]byte, error)
}

// New is the monitor of the node below root.
func New(root paths.Root) *Ceph {
	c := &Ceph{root: root}
	c.leads, c.run = c.askMonitor, c.command
	return c
}

// commands are what the monitors are asked, one a line.
const commands = "status\nmon dump\nosd dump\ndf\n"

// Measure asks the monitors, where this node's leads.
func (c *Ceph) Measure(ctx context.Context, into *family.Sink) error {
	leads, err := c.leads(ctx)
	if err != nil || !leads {
		return err
	}
	out, err := c.run(ctx, commands)
	if err != nil {
		return fmt.Errorf("ask the monitors: %w", err)
	}
	if err := tell(out, into); err != nil {
		return fmt.Errorf("the answer of the monitors: %w", err)
	}
	return nil
}

// askMonitor asks this node's monitor at its socket.
func (c *Ceph) askMonitor(ctx context.Context) (bool, error) {
	sockets, err := filepath.Glob(c.root.At("/run/ceph-mon/mon.*.asok"))
	if err != nil || len(sockets) != 1 {
		return false, errors.New("the monitor has no socket: it does not run")
	}
	s, err := monitor.Status(ctx, sockets[0])
	if err != nil {
		return false, err
	}
	if !s.InQuorum() {
		return false, fmt.Errorf("the monitor is in no quorum: it is %.40q", s.State)
	}
	return s.State == "leader", nil
}

// command gives commands to one process of Ceph.
func (c *Ceph) command(ctx context.Context, commands string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.root.At(program), "-c", c.root.At(folder+"/ceph.conf"), "-n", "client.admin",
		"--connect-timeout", connectBound, "--format", "json")
	cmd.Env = []string{
		"PATH=/usr/sbin:/usr/bin", "HOME=/nonexistent", "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1",
		"PYTHONPYCACHEPREFIX=" + folder + "/python",
	}
	cmd.Stdin, cmd.WaitDelay = strings.NewReader(commands), time.Second
	out, said := &limited{left: maxAnswer}, &limited{left: 1 << 10}
	cmd.Stdout, cmd.Stderr = out, said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %.200q", err, said.String())
	}
	if out.full {
		return nil, fmt.Errorf("the answer has more than %d MiB", maxAnswer>>20)
	}
	return out.Bytes(), nil
}

// limited takes some bytes and no more.
type limited struct {
	bytes.Buffer
	left int
	full bool
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	l.full = l.full || n < len(p)
	l.Buffer.Write(p[:n])
	return len(p), nil
}

// Answers to the commands, with what is told of them.
type (
	status struct {
		Health struct {
			Status string
			Checks map[string]struct {
				Severity string
				Muted    bool
			}
		}
		PGMap struct {
			States []struct {
				Name  string `json:"state_name"`
				Count float64
			} `json:"pgs_by_state"`
			PGs       float64 `json:"num_pgs"`
			Degraded  float64 `json:"degraded_objects"`
			Misplaced float64 `json:"misplaced_objects"`
			Unfound   float64 `json:"unfound_objects"`
		}
	}
	monDump struct {
		Mons []struct {
			Rank int
			Name string
		}
		Quorum []int
	}
	osdDump struct {
		OSDs []struct{ OSD, Up, In int }
	}
	df struct {
		Stats struct {
			Total float64 `json:"total_bytes"`
			Used  float64 `json:"total_used_raw_bytes"`
		}
		Pools []struct {
			Name  string
			ID    int
			Stats struct {
				Stored, Objects float64
				PercentUsed     float64 `json:"percent_used"`
				MaxAvail        float64 `json:"max_avail"`
			}
		}
	}
)

// healths are the values of Ceph's health.
var healths = map[string]float64{"HEALTH_OK": 0, "HEALTH_WARN": 1, "HEALTH_ERR": 2}

// tell adds what was answered, one JSON value for each command.
func tell(answers []byte, into *family.Sink) error {
	var s status
	var mons monDump
	var osds osdDump
	var full df
	d := json.NewDecoder(bytes.NewReader(answers))
	for i, answer := range []any{&s, &mons, &osds, &full} {
		err := d.Decode(answer)
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("it has %d of %d parts", i, 4)
		}
		if err != nil {
			return fmt.Errorf("part %d: %w", i+1, err)
		}
	}
	value, ok := healths[s.Health.Status]
	if !ok {
		return fmt.Errorf("its health is %.40q", s.Health.Status)
	}
	into.Add("ceph_health_status", value)
	tellStatus(s, into)
	quorum := mons.Quorum[:min(len(mons.Quorum), maxMons)]
	for _, m := range mons.Mons[:min(len(mons.Mons), maxMons)] {
		into.Flag("ceph_mon_quorum_status", slices.Contains(quorum, m.Rank), "mon."+m.Name)
	}
	for _, o := range osds.OSDs[:min(len(osds.OSDs), maxOSDs)] {
		name := "osd." + strconv.Itoa(o.OSD)
		into.Flag("ceph_osd_up", o.Up == 1, name)
		into.Flag("ceph_osd_in", o.In == 1, name)
	}
	into.Add("ceph_cluster_total_bytes", full.Stats.Total)
	into.Add("ceph_cluster_total_used_bytes", full.Stats.Used)
	for _, p := range full.Pools[:min(len(full.Pools), maxPools)] {
		id := strconv.Itoa(p.ID)
		into.Add("ceph_pool_metadata", 1, id, p.Name)
		into.Add("ceph_pool_stored", p.Stats.Stored, id)
		into.Add("ceph_pool_objects", p.Stats.Objects, id)
		into.Add("ceph_pool_max_avail", p.Stats.MaxAvail, id)
		into.Add("ceph_pool_percent_used", p.Stats.PercentUsed, id)
	}
	return nil
}

// tellStatus adds what Ceph warns of, and placement groups and objects.
func tellStatus(s status, into *family.Sink) {
	checks := slices.Sorted(maps.Keys(s.Health.Checks))
	for _, name := range checks[:min(len(checks), maxChecks)] {
		if c := s.Health.Checks[name]; !c.Muted {
			into.Add("ceph_health_detail", 1, name, c.Severity)
		}
	}
	counts := map[string]float64{}
	for _, state := range s.PGMap.States {
		for word := range strings.SplitSeq(state.Name, "+") {
			counts[word] += state.Count
		}
	}
	into.Add("ceph_pg_total", s.PGMap.PGs)
	for _, state := range states {
		into.Add("ceph_pg_"+state, counts[state])
	}
	into.Add("ceph_num_objects_degraded", s.PGMap.Degraded)
	into.Add("ceph_num_objects_misplaced", s.PGMap.Misplaced)
	into.Add("ceph_num_objects_unfound", s.PGMap.Unfound)
}
