// Package ceph is the verbs of a storage cluster of Ceph, on a node with a monitor: how it is, taking an OSD out and
// in, and forgetting an OSD or a monitor that is lost for good. It gives Ceph's own commands (ceph(8)) and nothing
// else.
package ceph

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/agent/verbs"
	"spore/wire/nodeapi"
)

const (
	program = "/usr/bin/ceph"
	// configuration is what people's commands find (docs/ceph.md), and connectBound how long a quorum is looked for, in
	// seconds.
	configuration = "/run/ceph-bootstrap/ceph.conf"
	connectBound  = "30"
	// role is that of nodes with a monitor, and quorum what theirs is called.
	role   = "ceph-mon"
	quorum = "ceph-mon"
	// lookEvery is how often it is looked whether the data has moved.
	lookEvery = 5 * time.Second
	// managerBound is how long the manager has for what it answers, and not the monitors: it may be down.
	managerBound = 20 * time.Second
	// atOnce is how many OSDs are in one part of the result.
	atOnce = 500
)

// Ceph is the verbs; its Run is verbs.Machine but in tests.
type Ceph struct {
	Run verbs.Programs

	// every is how often a wait looks, patience how long failures of that are borne, and manager how long the manager has;
	// 0 is the usual.
	every, patience, manager time.Duration
}

// ask gives commands to one process, since starting Python costs more than all of them, and returns an answer for each.
func (c Ceph) ask(ctx context.Context, r *verbs.Run, commands ...[]string) ([]json.RawMessage, error) {
	if !slices.Contains(r.Node.Roles, role) {
		return nil, fmt.Errorf("%s has no monitor; those that have one are %s", r.Node.Name, strings.Join(r.Cluster.Members[role], ", "))
	}
	var input strings.Builder
	for _, words := range commands {
		input.WriteString(strings.Join(words, " ") + "\n") // None of them holds a space or a quote: numbers and names of nodes.
	}
	cmd := c.Run(ctx, program, "-c", r.Machine.Root.At(configuration), "-n", "client.admin", "--connect-timeout", connectBound, "--format", "json")
	cmd.Stdin = strings.NewReader(input.String())
	out, words, err := verbs.OutputAndWords(cmd)
	if err != nil {
		return nil, fmt.Errorf("speak to the monitors: %w", err)
	}
	answers, err := split(out, len(commands))
	if err != nil && words != "" { // A command that fails does not make the program fail that read it.
		err = fmt.Errorf("%w: %s", err, words)
	}
	return answers, err
}

// split reads the answers that one process has printed one after the other.
func split(out []byte, want int) ([]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(out))
	var answers []json.RawMessage
	for {
		var a json.RawMessage
		err := d.Decode(&a)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("the answer of the monitors is malformed: %w", err)
		}
		answers = append(answers, a)
	}
	if len(answers) != want {
		return nil, fmt.Errorf("the monitors answered %d of %d commands", len(answers), want)
	}
	return answers, nil
}

// order gives a command that answers with words alone, and returns them.
func (c Ceph) order(ctx context.Context, r *verbs.Run, words ...string) error {
	args := append([]string{"-c", r.Machine.Root.At(configuration), "-n", "client.admin", "--connect-timeout", connectBound}, words...)
	if _, err := verbs.Output(c.Run(ctx, program, args...)); err != nil {
		return fmt.Errorf("ceph %s: %w", strings.Join(words, " "), err)
	}
	return nil
}

// Status answers with the status, the OSDs and the pools, as ceph(8) has them in JSON: parts {"status": …}, {"osds":
// {"nodes": […]}} and {"pools": …}, and with the monitors: {"monitors": {"all": […], "quorum": […], "leader": …}}. The
// OSDs come in several parts. What the manager answers is left out, and why is said, where it does not.
func (c Ceph) Status(ctx context.Context, r *verbs.Run) (string, error) {
	answers, err := c.ask(ctx, r, []string{"status"}, []string{"quorum_status"})
	if err != nil {
		return "", err
	}
	s, err := parseStatus(answers[0])
	if err != nil {
		return "", err
	}
	if err := r.Result(map[string]json.RawMessage{"status": answers[0]}); err != nil {
		return "", err
	}
	q, err := parseQuorum(answers[1])
	if err != nil {
		return "", err
	}
	if err := r.Result(map[string]any{"monitors": map[string]any{"all": q.all(), "quorum": q.Names, "leader": q.Leader}}); err != nil {
		return "", err
	}
	bound := cmp.Or(c.manager, managerBound)
	short, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	answers, err = c.ask(short, r, []string{"osd", "df", "tree"}, []string{"df"})
	if err != nil {
		if ctx.Err() == nil && short.Err() != nil {
			err = fmt.Errorf("no answer within %s", bound)
		}
		_ = r.Say("the OSDs and the pools are missing, which the manager answers for (ceph-mgr): %v", err)
		return s.Health.Status, nil
	}
	if err := sendOSDs(r, answers[0]); err != nil {
		return "", err
	}
	return s.Health.Status, r.Result(map[string]json.RawMessage{"pools": answers[1]})
}

// sendOSDs gives the caller what `ceph osd df tree` answers, in parts.
func sendOSDs(r *verbs.Run, tree json.RawMessage) error {
	var osds struct {
		Nodes []json.RawMessage `json:"nodes"`
		// Stray are OSDs without a place in the tree.
		Stray   []json.RawMessage `json:"stray"`
		Summary json.RawMessage   `json:"summary"`
	}
	if err := json.Unmarshal(tree, &osds); err != nil {
		return fmt.Errorf("the tree of OSDs is malformed: %w", err)
	}
	send := func(name string, v any) error { return r.Result(map[string]any{"osds": map[string]any{name: v}}) }
	for part := range slices.Chunk(osds.Nodes, atOnce) {
		if err := send("nodes", part); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(osds.Stray, atOnce) {
		if err := send("stray", part); err != nil {
			return err
		}
	}
	if osds.Summary == nil {
		return nil
	}
	return send("summary", osds.Summary)
}

// status is what is read of `ceph status`.
type status struct {
	Health struct {
		Status string `json:"status"`
	} `json:"health"`
	QuorumNames []string `json:"quorum_names"`
	PGs         struct {
		Count  int `json:"num_pgs"`
		States []struct {
			Name  string `json:"state_name"`
			Count int    `json:"count"`
		} `json:"pgs_by_state"`
	} `json:"pgmap"`
}

func parseStatus(data []byte) (status, error) {
	var s status
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("the status is malformed: %w", err)
	}
	return s, nil
}

// unclean counts the placement groups that do not have all of their copies where they belong.
func (s status) unclean() int {
	clean := 0
	for _, state := range s.PGs.States {
		if parts := strings.Split(state.Name, "+"); slices.Contains(parts, "active") && slices.Contains(parts, "clean") {
			clean += state.Count
		}
	}
	return s.PGs.Count - clean
}

// Out has Ceph move the data of an OSD to the others, and waits for it.
func (c Ceph) Out(ctx context.Context, r *verbs.Run) (string, error) { return c.move(ctx, r, "out") }

// In has Ceph give an OSD data again, and waits for it.
func (c Ceph) In(ctx context.Context, r *verbs.Run) (string, error) { return c.move(ctx, r, "in") }

func (c Ceph) move(ctx context.Context, r *verbs.Run, way string) (string, error) {
	id := r.Argument("osd", "")
	all, err := c.osds(ctx, r)
	if err != nil {
		return "", err
	}
	if _, found := find(all, id); !found {
		return "", fmt.Errorf("there is no osd.%s; there are %s", id, numbers(all))
	}
	if r.Order.DryRun {
		return fmt.Sprintf("osd.%s would be %s", id, way), nil
	}
	if err := c.order(ctx, r, "osd", way, id); err != nil {
		return "", err
	}
	if r.Argument("wait", "yes") == "no" {
		return fmt.Sprintf("osd.%s is %s", id, way), nil
	}
	return fmt.Sprintf("osd.%s is %s, and all data has its copies", id, way), c.settle(ctx, r)
}

// settle waits until every placement group is clean, and says how many are not.
func (c Ceph) settle(ctx context.Context, r *verbs.Run) error {
	last := -1
	patience := verbs.Patience{For: c.patience}
	for seen := 0; seen < 2; { // The first look may be older than the move.
		s, err := c.status(ctx, r)
		if ctx.Err() == nil {
			if err := patience.Bear(r, err); err != nil {
				return fmt.Errorf("it is not known how far Ceph is, which goes on: %w", err)
			}
		}
		left := s.unclean()
		switch {
		case err != nil:
			left = last
		case left == 0:
			seen++
		default:
			seen = 0
		}
		if left != last && left > 0 {
			_ = r.Say("waiting for %d of %d placement groups", left, s.PGs.Count)
		}
		last = left
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s placement groups are not clean yet; Ceph goes on: %w", count(left), ctx.Err())
		case <-time.After(cmp.Or(c.every, lookEvery)):
		}
	}
	return nil
}

// count is a number of placement groups; below 0 none is known.
func count(n int) string {
	if n < 0 {
		return "some"
	}
	return strconv.Itoa(n)
}

func (c Ceph) status(ctx context.Context, r *verbs.Run) (status, error) {
	answers, err := c.ask(ctx, r, []string{"status"})
	if err != nil {
		return status{}, err
	}
	return parseStatus(answers[0])
}

// osd is one of `ceph osd dump`.
type osd struct {
	ID int `json:"osd"`
	Up int `json:"up"`
	In int `json:"in"`
}

func (c Ceph) osds(ctx context.Context, r *verbs.Run) ([]osd, error) {
	answers, err := c.ask(ctx, r, []string{"osd", "dump"})
	if err != nil {
		return nil, err
	}
	var dump struct {
		OSDs []osd `json:"osds"`
	}
	if err := json.Unmarshal(answers[0], &dump); err != nil {
		return nil, fmt.Errorf("the list of OSDs is malformed: %w", err)
	}
	return dump.OSDs, nil
}

func find(all []osd, id string) (osd, bool) {
	i := slices.IndexFunc(all, func(o osd) bool { return strconv.Itoa(o.ID) == id })
	if i < 0 {
		return osd{}, false
	}
	return all[i], true
}

// numbers lists OSDs for a person.
func numbers(all []osd) string {
	var out []string
	for _, o := range all {
		out = append(out, strconv.Itoa(o.ID))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// Safe answers whether Ceph bears that OSDs stop, or that they and their data are gone. Those that do not serve are not
// missed when they stop.
func (c Ceph) Safe(ctx context.Context, r *verbs.Run) (string, error) {
	all, err := c.osds(ctx, r)
	if err != nil {
		return "", err
	}
	asked := strings.Split(r.Argument("osds", ""), ",")
	answer := nodeapi.OSDsAnswer{Running: []int{}}
	var about []string
	for _, o := range all {
		id, serves := strconv.Itoa(o.ID), o.Up == 1 && o.In == 1
		switch is := slices.Contains(asked, id); {
		case is && o.Up == 1:
			answer.Running, about = append(answer.Running, o.ID), append(about, id)
		case is && r.Argument("to", "") == "destroy":
			about = append(about, id)
		case !is && serves:
			answer.Others++
		}
	}
	question := "ok-to-stop"
	if r.Argument("to", "") == "destroy" {
		question = "safe-to-destroy"
	}
	if len(about) > 0 {
		err := c.order(ctx, r, append([]string{"osd", question}, about...)...)
		switch {
		case err == nil:
		case strings.Contains(err.Error(), "Error EBUSY"), strings.Contains(err.Error(), "Error EAGAIN"):
			// EAGAIN: what some placement groups have is not known.
			_, answer.Unsafe, _ = strings.Cut(err.Error(), "Error ")
		default:
			return "", err
		}
	}
	if err := r.Result(answer); err != nil {
		return "", err
	}
	if answer.Unsafe != "" {
		return answer.Unsafe, nil
	}
	return "Ceph bears it", nil
}

// Purge forgets an OSD that is lost for good: its number, its key and its place, which the monitors do in one step. It
// refuses one that runs, and one that has the last copy of something. One that is not there was forgotten by an order
// whose answer nobody heard.
func (c Ceph) Purge(ctx context.Context, r *verbs.Run) (string, error) {
	id := r.Argument("osd", "")
	all, err := c.osds(ctx, r)
	if err != nil {
		return "", err
	}
	o, found := find(all, id)
	if !found {
		return fmt.Sprintf("there is no osd.%s (any more), and nothing to forget; there are %s", id, numbers(all)), nil
	}
	if o.Up == 1 {
		return "", fmt.Errorf("osd.%s runs; what is lost for good does not. %s", id, before(id))
	}
	if r.Order.Force != quorum {
		if err := c.order(ctx, r, "osd", "safe-to-destroy", id); err != nil {
			return "", fmt.Errorf("osd.%s may have the last copy of something: %w. %s; with --force %s that copy is given up", id, err, before(id), quorum)
		}
	}
	if r.Order.DryRun {
		return fmt.Sprintf("osd.%s would be forgotten", id), nil
	}
	if want := "osd." + id; r.Order.Confirm != want {
		return "", fmt.Errorf("the order repeats %.64q, and this is about %s; nothing was done", r.Order.Confirm, want)
	}
	if err := c.order(ctx, r, "osd", "purge", id, "--yes-i-really-mean-it"); err != nil {
		return "", err
	}
	return fmt.Sprintf("osd.%s is forgotten", id), nil
}

// before says what has to be done before an OSD can be forgotten.
func before(id string) string {
	return fmt.Sprintf("Take it out (spore ceph osd-out %s), which waits until its data is elsewhere; then stop its machine "+
		"(spore shutdown), and forget it when spore ceph status shows no degraded data (PG_DEGRADED) any more", id)
}

// monitors is what is read of `ceph quorum_status`.
type monitors struct {
	Names  []string `json:"quorum_names"`
	Leader string   `json:"quorum_leader_name"`
	MonMap struct {
		Mons []struct {
			Name string `json:"name"`
		} `json:"mons"`
	} `json:"monmap"`
}

func parseQuorum(data []byte) (monitors, error) {
	var m monitors
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("the quorum is malformed: %w", err)
	}
	return m, nil
}

// all are the names of all monitors, those outside the quorum too.
func (m monitors) all() (out []string) {
	for _, mon := range m.MonMap.Mons {
		out = append(out, mon.Name)
	}
	return out
}

// RemoveMonitor takes a monitor out of the quorum that is lost for good.
func (c Ceph) RemoveMonitor(ctx context.Context, r *verbs.Run) (string, error) {
	name := r.Argument("monitor", "")
	answers, err := c.ask(ctx, r, []string{"quorum_status"})
	if err != nil {
		return "", err
	}
	s, err := parseQuorum(answers[0])
	if err != nil {
		return "", err
	}
	all := s.all()
	if !slices.Contains(all, name) && slices.Contains(r.Cluster.Members[role], name) {
		// By an order whose answer nobody heard, or it has never been one.
		return fmt.Sprintf("%s is none of the monitors (any more); it joins when it starts without its former data", name), nil
	}
	if err := removable(all, s.Names, name, r.Order.Force); err != nil {
		return "", err
	}
	if r.Order.DryRun {
		return fmt.Sprintf("the monitor %s would be taken out; %d would be left", name, len(all)-1), nil
	}
	if r.Order.Confirm != name {
		return "", fmt.Errorf("the order repeats %.64q, and this is about %s; nothing was done", r.Order.Confirm, name)
	}
	if err := c.order(ctx, r, "mon", "remove", name); err != nil {
		return "", err
	}
	return fmt.Sprintf("the monitor %s is taken out; it joins again when it starts without its former data", name), nil
}

// removable says why a monitor is not taken out.
func removable(all, serve []string, name, force string) error {
	if !slices.Contains(all, name) {
		return fmt.Errorf("there is no monitor %.64q; there are %s", name, strings.Join(all, ", "))
	}
	left := len(all) - 1
	serving := len(serve)
	if slices.Contains(serve, name) {
		serving--
	}
	switch {
	case left == 0:
		return fmt.Errorf("%s is the only monitor", name)
	case serving < left/2+1 && force != quorum:
		return fmt.Errorf("of the %d monitors that are left %d serve, and a majority is %d; bring another one back first", left, serving, left/2+1)
	}
	return nil
}
