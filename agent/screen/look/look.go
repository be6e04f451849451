// Package look finds out what the pages of the screen show. It reads the status line, asks what carries out the verbs
// of the node's API that look (spore-look.socket), reads the journal and what the kernel says of the hardware. It
// changes nothing but by Choose, and whoever does not answer in time costs one line of a page.
package look

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	choice "spore/agent/choice/call"
	"spore/agent/paths"
	"spore/agent/screen/page"
	"spore/storage/atomicfile"
	"spore/wire/machine"
)

// Bounds: how long one answer is waited for, which on a slow machine takes a process of the agent; how large the whole
// of one and the status line may be in bytes; and how many lines of the journal there are, and how many bytes of each.
const (
	bound       = time.Minute
	maxAnswer   = 8 << 20
	maxStatus   = 1 << 20
	maxLines    = 300
	maxJournal  = 1 << 20
	maxLine     = 8 << 10
	maxGateways = 4
)

// Looker looks at the machine below a root.
type Looker struct {
	Root paths.Root
	// Journal is the program that reads the journal, as journalctl(1) does, with its first arguments.
	Journal []string
	Now     func() time.Time
	// Last spares reading the same status line again; nil has it read each time.
	Last *Last
}

// Last is the status line that was read last. One goroutine may use it.
type Last struct {
	// file is who the file was: the agent writes a new one at each change.
	file    os.FileInfo
	status  *page.Status
	problem string
}

// Status reads the status line into the model, and tells whether anything on a page changes with it: the line, or the
// minute.
func (l Looker) Status(m *page.Model) (changed bool) {
	now := l.Now()
	changed = !now.Truncate(time.Minute).Equal(m.Now.Truncate(time.Minute))
	m.Now = now
	info, err := os.Stat(l.Root.At(paths.Status))
	if last := l.Last; last != nil && err == nil && last.file != nil && os.SameFile(info, last.file) &&
		info.ModTime().Equal(last.file.ModTime()) && info.Size() == last.file.Size() {
		changed = changed || m.Status != last.status
		m.Status, m.StatusProblem = last.status, last.problem
		return changed
	}
	l.read(m)
	if l.Last != nil {
		*l.Last = Last{file: info, status: m.Status, problem: m.StatusProblem}
	}
	return true
}

// read reads the status line.
func (l Looker) read(m *page.Model) {
	var s page.Status
	data, err := atomicfile.ReadLimited(l.Root.At(paths.Status), maxStatus)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m.Status, m.StatusProblem = nil, ""
	case err != nil:
		m.Status, m.StatusProblem = nil, "the status line cannot be read: "+err.Error()
	default:
		m.Status, m.StatusProblem = &s, ""
	}
}

// Page finds out what one page shows besides the status. It changes no other part of the model.
func (l Looker) Page(ctx context.Context, name page.Name, m *page.Model) {
	switch name {
	case page.JournalPage:
		m.Journal, m.JournalProblem = l.journal(ctx)
	case page.NetworkPage:
		l.network(ctx, m)
	case page.DisksPage:
		m.Disks, m.DisksProblem = nil, ""
		err := l.ask(ctx, "disks", nil, func(part json.RawMessage) error {
			var d machine.Disk
			err := json.Unmarshal(part, &d)
			m.Disks = append(m.Disks, d)
			return err
		})
		if err != nil {
			m.Disks, m.DisksProblem = nil, err.Error()
		}
	case page.SecretsPage:
		m.Secrets, m.SecretsProblem = nil, ""
		if err := l.ask(ctx, "bundle", nil, func(part json.RawMessage) error {
			return json.Unmarshal(part,
				&m.Secrets)
		}); err != nil {
			m.Secrets, m.SecretsProblem = nil, err.Error()
		}
	case page.ChoicePage:
		m.Choice, m.ChoiceProblem = nil, ""
		a := l.Choose(ctx, choice.Call{Do: choice.Look})
		if m.Choice, m.ChoiceProblem = a.View, a.Error; a.View == nil && a.Error == "" {
			m.ChoiceProblem = "the answer lists no nodes"
		}
		m.Hardware = l.hardware()
	case page.HardwarePage:
		m.Hardware = l.hardware()
	}
}

// call is a call of a verb (verbs.Call), and event an answer (nodeapi.Event). Their packages would bring all services
// and a server of HTTP into this program; a test holds them to those.
type (
	call struct {
		Verb   string   `json:"verb"`
		Order  order    `json:"order"`
		Caller string   `json:"caller"`
		Roles  []string `json:"roles"`
	}
	order struct {
		Arguments map[string]string `json:"arguments,omitempty"`
	}
	event struct {
		Result json.RawMessage `json:"result"`
		Error  string          `json:"error"`
		Done   string          `json:"done"`
	}
)

// role is that of a person who stands before the machine: it may look, and ask other machines whether they answer.
const role = "spore:operator"

// ask has a verb that looks carried out, and hands over each part of its result.
func (l Looker) ask(
	ctx context.Context, verb string, arguments map[string]string, take func(json.RawMessage) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", l.Root.At(paths.LookSocket))
	if err != nil {
		return fmt.Errorf("what looks at the machine does not run yet: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	data, err := json.Marshal(call{Verb: verb, Order: order{arguments}, Caller: "screen", Roles: []string{role}})
	if err != nil {
		return fmt.Errorf("internal error: %w", err)
	}
	if _, err := conn.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("ask for %s: %w", verb, err)
	}
	d := json.NewDecoder(io.LimitReader(conn, maxAnswer))
	for {
		var e event
		if err := d.Decode(&e); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("%s was not answered within %s", verb, bound)
			}
			return fmt.Errorf("the answer to %s was cut off or is too large: %w", verb, err)
		}
		switch {
		case e.Error != "":
			return errors.New(e.Error)
		case e.Done != "":
			return nil
		case e.Result != nil:
			if err := take(e.Result); err != nil {
				return fmt.Errorf("the answer to %s is malformed: %w", verb, err)
			}
		}
	}
}

// Choose hands over what a person chose, or asks what there is to choose (package choice). Why it was not done is in the
// answer.
func (l Looker) Choose(ctx context.Context, c choice.Call) choice.Answer {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	fail := func(what string, err error) choice.Answer { return choice.Answer{Error: what + ": " + err.Error()} }
	conn, err := new(net.Dialer).DialContext(ctx, "unix", l.Root.At(paths.ChoiceSocket))
	if err != nil {
		return fail("what keeps the choice of a node does not run yet", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	data, err := json.Marshal(c)
	if err == nil {
		_, err = conn.Write(append(data, '\n'))
	}
	if err != nil {
		return fail("hand over the choice", err)
	}
	var a choice.Answer
	if err := json.NewDecoder(io.LimitReader(conn, choice.MaxAnswer)).Decode(&a); err != nil {
		return fail("it is not known what became of it, since the answer was cut off: ask again", err)
	}
	return a
}

// transports are all ways into the journal but the kernel's audit records (systemd.journal-fields(7), _TRANSPORT).
// Those have the arguments of programs: who may read them is for cluster.yaml to say (logRights), and a person before
// the machine has no name.
var transports = []string{"driver", "journal", "kernel", "stdout", "syslog"}

// journal reads the last lines of this boot, the newest first.
func (l Looker) journal(ctx context.Context) ([]string, string) {
	args := append(slices.Clone(l.Journal[1:]), "--boot", "--no-pager", "--quiet", "--reverse", "--no-hostname",
		fmt.Sprintf("--lines=%d", maxLines))
	for _, t := range transports {
		args = append(args, "_TRANSPORT="+t)
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.Journal[0], args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err.Error()
	}
	if err := cmd.Start(); err != nil {
		return nil, "the journal cannot be read: " + err.Error()
	}
	data, err := io.ReadAll(io.LimitReader(out, maxJournal))
	if err == nil && len(data) == maxJournal {
		_ = cmd.Process.Kill() // There is more than is shown.
		_ = cmd.Wait()
	} else if werr := cmd.Wait(); err == nil {
		err = werr
	}
	if err != nil {
		return nil, "the journal cannot be read: " + err.Error()
	}
	var lines []string
	for line := range bytes.Lines(data) { // A Scanner would stop at a line of 64 KiB, and hide all that are older.
		if len(lines) == maxLines {
			break
		}
		line = bytes.TrimRight(line, "\r\n")
		lines = append(lines, string(line[:min(len(line), maxLine)]))
	}
	if len(lines) == 0 {
		return nil, "the journal of this boot is empty"
	}
	return lines, ""
}

// network lists how the machine is connected, and asks the gateway and the DNS servers whether they answer.
func (l Looker) network(ctx context.Context, m *page.Model) {
	m.Network, m.NetworkProblem, m.Answers, m.Cards = nil, "", nil, cards()
	var n machine.Network
	if err := l.ask(ctx, "net", nil, func(part json.RawMessage) error { return json.Unmarshal(part, &n) }); err != nil {
		m.NetworkProblem = err.Error()
		return
	}
	m.Network = &n
	asked := map[string]bool{}
	for _, r := range n.Routes {
		if r.Via == "" || r.To != "0.0.0.0/0" && r.To != "::/0" || asked[r.Via] || len(asked) == maxGateways {
			continue
		}
		asked[r.Via] = true
		m.Answers = append(m.Answers, l.probe(ctx, "gateway", r.Via, map[string]string{"kind": machine.Ping,
			"target": r.Via, "count": "1"})...)
	}
	if len(asked) == 0 {
		m.Answers = append(m.Answers, page.Answer{Of: "gateway", Problem: "the machine has no route to other networks"})
	}
	if len(n.DNS) == 0 {
		return
	}
	// The node's own name is one that its servers should know; where it has no domain, the root of names.
	name := "."
	if len(n.Search) > 0 && m.Status != nil && m.Status.Node != "" {
		name = m.Status.Node + "." + n.Search[0]
	}
	m.Answers = append(m.Answers, l.probe(ctx, "DNS", name, map[string]string{"kind": machine.DNS, "target": name,
		"count": "1"})...)
}

// probe asks another machine.
func (l Looker) probe(ctx context.Context, of, to string, arguments map[string]string) (out []page.Answer) {
	err := l.ask(ctx, "probe", arguments, func(part json.RawMessage) error {
		var p machine.Probe
		if err := json.Unmarshal(part, &p); err != nil {
			return err
		}
		a := page.Answer{Of: of, To: p.To, Text: fmt.Sprintf("%.1f ms", p.Milliseconds), Problem: p.Problem}
		if p.Answer != "" {
			a.Text += "  " + p.Answer
		}
		out = append(out, a)
		return nil
	})
	if err != nil && len(out) == 0 {
		out = append(out, page.Answer{Of: of, To: to, Problem: err.Error()})
	}
	return out
}

// cards lists the interfaces as the kernel has them.
func cards() []page.Card {
	list, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var out []page.Card
	for _, i := range list {
		if i.Flags&net.FlagLoopback != 0 {
			continue
		}
		c := page.Card{Name: i.Name, MAC: i.HardwareAddr.String(), Carrier: i.Flags&net.FlagRunning != 0}
		if addresses, err := i.Addrs(); err == nil {
			for _, a := range addresses {
				c.Addresses = append(c.Addresses, a.String())
			}
		}
		out = append(out, c)
	}
	return out
}

// text reads a small file of the kernel; empty where there is none.
func (l Looker) text(path string) string {
	data, err := os.ReadFile(l.Root.At(path))
	if err != nil || len(data) > maxStatus {
		return ""
	}
	return strings.TrimSpace(string(data))
}
