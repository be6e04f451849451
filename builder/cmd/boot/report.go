package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"spore/builder/rehearsal"
	"spore/builder/rehearsal/ready"
	"spore/builder/vm"
	"spore/wire/nodeapi"
)

// reporter tells what happens to machines: lines that begin with the node's name for people, JSON for programs.
type reporter struct {
	w    io.Writer
	json bool
	mu   sync.Mutex
}

// event is a line of JSON.
type event struct {
	// Event is warning, proxy, started, status, missing, ready, test, ended or killed.
	Event string `json:"event"`
	Node  string `json:"node,omitempty"`
	Text  string `json:"text,omitempty"`
	// PID is QEMU's process, Accel kvm or tcg, Memory in MiB.
	PID    int    `json:"pid,omitempty"`
	Accel  string `json:"accel,omitempty"`
	CPUs   int    `json:"cpus,omitempty"`
	Memory int    `json:"memory,omitempty"`
	// Bundle says where the secrets are from, or why there are none.
	Bundle string `json:"bundle,omitempty"`
	// Console is the file that the console is written to.
	Console  string              `json:"console,omitempty"`
	Disks    []string            `json:"disks,omitempty"`
	Forwards []rehearsal.Forward `json:"forwards,omitempty"`
	// Status is the node's status line.
	Status json.RawMessage `json:"status,omitempty"`
	// Address is that of the proxy.
	Address string `json:"address,omitempty"`
	// Missing is what a node lacks to be ready.
	Missing []ready.Lack `json:"missing,omitempty"`
	// Role is whose test ran, Test what came of it, and Passed that it has no problem.
	Role   string            `json:"role,omitempty"`
	Test   *nodeapi.RoleTest `json:"test,omitempty"`
	Passed *bool             `json:"passed,omitempty"`
}

// tell prints an event, or else the lines for people, each after the node's name.
func (r *reporter) tell(e event, lines ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.json {
		// What cannot be written is nobody's concern who reads it; the machines go on.
		_ = nodeapi.WriteJSON(r.w, e, "")
		return
	}
	prefix := ""
	if e.Node != "" {
		prefix = e.Node + ": "
	}
	for _, l := range lines {
		fmt.Fprintf(r.w, "%s%s\n", prefix, l)
	}
}

func (r *reporter) warn(node, text string) {
	r.tell(event{Event: "warning", Node: node, Text: text}, "warning: "+text)
}

// proxy tells where the way into the network is.
func (r *reporter) proxy(address string) {
	r.tell(event{Event: "proxy", Address: address}, "SOCKS5 proxy "+address+" into the network")
}

// started tells how to reach a machine.
func (r *reporter) started(m *machine, accel string, forwards []rehearsal.Forward) {
	node := m.plan.Node.Name
	for _, missing := range m.plan.Missing {
		r.warn(node, missing)
	}
	e := event{
		Event: "started", Node: node, PID: m.PID(), Accel: accel, CPUs: m.Config.CPUs, Memory: m.Config.Memory, Bundle: m.bundle,
		Console: filepath.Join(m.Config.Dir, node+".console"), Forwards: forwards,
	}
	for _, d := range m.Config.Disks {
		e.Disks = append(e.Disks, d.Path)
	}
	var lines []string
	if m.bundle != "" {
		lines = append(lines, m.bundle)
	}
	processors := fmt.Sprintf("%d processors", e.CPUs)
	if e.CPUs == 1 {
		processors = "1 processor"
	}
	lines = append(lines, fmt.Sprintf("%s, %s, %d MiB, disk %s", accel, processors, e.Memory, strings.Join(e.Disks, ", ")))
	for _, f := range forwards {
		lines = append(lines, fmt.Sprintf("127.0.0.1:%d leads to %s/%s", f.Host, f.Guest, f.Protocol))
	}
	r.tell(e, append(lines, "console in "+e.Console)...)
}

// watch tells of a machine's status whenever it changes, until its console ends or the context does.
func (r *reporter) watch(ctx context.Context, node string, c *vm.Console) {
	last := ""
	for mark := 0; ; {
		s, line, next, err := c.AwaitStatus(ctx, mark, "a status line", func(vm.Status) bool { return true })
		if err != nil {
			return
		}
		mark = next
		text := say(s)
		if text == last && !r.json {
			continue
		}
		last = text
		r.tell(event{Event: "status", Node: node, Status: json.RawMessage(only(s.Raw))}, fmt.Sprintf("%.0f s: %s", line.Wall.Seconds(), text))
	}
}

// only is the first JSON value of a text: something may stand behind a status line.
func only(text string) []byte {
	var v json.RawMessage
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&v); err != nil {
		return nil
	}
	return v
}

// say is a status line in few words.
func say(s vm.Status) string {
	if s.Node == "" {
		return strings.TrimSpace("no node: " + s.Problem)
	}
	said := s.System
	if len(s.Roles) > 0 {
		said += ", " + strings.Join(s.Roles, " ")
	}
	for _, h := range s.Held {
		said += "; held: " + h.Role + " (" + h.Reason + ")"
	}
	var waiting []string
	for _, w := range s.Waiting {
		waiting = append(waiting, w)
	}
	slices.Sort(waiting)
	for _, w := range waiting {
		said += "; " + w
	}
	if len(s.Failed) > 0 {
		said += "; failed: " + strings.Join(s.Failed, " ")
	}
	for _, problem := range []string{s.Problem, s.Bundle.Problem, s.State.Warning} {
		if problem != "" {
			said += "; " + problem
		}
	}
	return said
}

// lacks tells what a node lacks to be ready, or that it is.
func (r *reporter) lacks(node string, after time.Duration, list []ready.Lack) {
	if len(list) == 0 {
		r.tell(event{Event: "ready", Node: node}, fmt.Sprintf("%.0f s: ready", after.Seconds()))
		return
	}
	r.tell(event{Event: "missing", Node: node, Missing: list}, fmt.Sprintf("%.0f s: not ready yet: %s", after.Seconds(), joined(list)))
}

// notReady tells what a node lacks when nobody waits for it any longer.
func (r *reporter) notReady(node string, list []ready.Lack) {
	r.tell(event{Event: "missing", Node: node, Missing: list}, "not ready: "+joined(list))
}

// test tells what came of a test of a role.
func (r *reporter) test(node, role string, t nodeapi.RoleTest) {
	passed := t.Problem == ""
	said := "passed"
	if !passed {
		said = "failed: " + t.Problem
	}
	lines := []string{fmt.Sprintf("%s: %s: %s (%.1f s)", role, strings.Join(t.Command, " "), said, t.Seconds)}
	if t.Output != "" {
		for line := range strings.Lines(t.Output) {
			lines = append(lines, "  | "+strings.TrimRight(line, "\n"))
		}
	}
	r.tell(event{Event: "test", Node: node, Role: role, Test: &t, Passed: &passed}, lines...)
}

func joined(list []ready.Lack) string {
	var out []string
	for _, l := range list {
		out = append(out, l.String())
	}
	return strings.Join(out, "; ")
}

// ended tells that a machine has ended. Of the only one its console has told it.
func (r *reporter) ended(node string, others bool) {
	var lines []string
	if others {
		lines = append(lines, "has ended")
	}
	r.tell(event{Event: "ended", Node: node}, lines...)
}

func (r *reporter) killed(node string, did, removed bool) {
	text := "did not run"
	if did {
		text = "ended"
	}
	if removed {
		text += ", forgotten"
	}
	r.tell(event{Event: "killed", Node: node, Text: text}, text)
}
