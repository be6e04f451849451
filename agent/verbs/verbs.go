// Package verbs is the half of the node's API that has rights: what a person asks this node to do is carried out by a
// process of root for each call, which gets the order through a socket from the API's server (agent/answers). The order
// is data from outside: it is checked here again, by the same table (nodeapi.Verbs). Who asks is what the server says:
// whoever takes that over may do what an administrator may.
//
// Verbs that look and verbs that act have units, and so sandboxes, of their own: spore-look@.service and
// spore-act@.service. What a verb does is a package below this one.
package verbs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

// usualBound is how long a verb may take that says nothing of it.
const usualBound = time.Minute

// grace is how long the last event has on its way to the caller before what follows it (Run.After).
const grace = 500 * time.Millisecond

// maxName is how much of a call the name of a node takes at most, in bytes.
const maxName = 66

// maxCall is how much of a call is read, in bytes: an order, who asks, and for which nodes he may.
const maxCall = nodeapi.MaxOrder + 4<<10 + nodeapi.MaxLimit*maxName

// Call is what comes through the socket: a line of JSON.
type Call struct {
	Verb  string        `json:"verb"`
	Order nodeapi.Order `json:"order"`
	// Caller is the name in the certificate of whoever asks, and Roles are its roles.
	Caller string         `json:"caller"`
	Roles  []nodeapi.Role `json:"roles"`
	// Nodes are those that the certificate is limited to; with none, it holds for all.
	Nodes []string `json:"nodes,omitempty"`
}

// Socket is where calls of a kind are handed over.
func Socket(kind nodeapi.Kind) string {
	if kind == nodeapi.Acts {
		return paths.ActSocket
	}
	return paths.LookSocket
}

// Run is one call as a verb sees it.
type Run struct {
	Machine *node.Machine
	Cluster *facts.Cluster
	Node    *facts.Node
	Order   nodeapi.Order
	// Caller is the name in the certificate of whoever asks.
	Caller string
	// By is whoever asks, as far as the server says it: the name, the roles, and the nodes that the certificate is limited
	// to.
	By nodeapi.Caller

	mu    sync.Mutex
	out   io.Writer
	after func() error
	// goesOn is true of a verb that acts: who listens does not matter to it.
	goesOn bool
}

// For is a call on a machine that is known, whose answer goes to out.
func For(m *node.Machine, c *facts.Cluster, n *facts.Node, o nodeapi.Order, out io.Writer) *Run {
	return &Run{Machine: m, Cluster: c, Node: n, Order: o, out: out, goesOn: true}
}

// After has something done when the caller has been told what was done: what takes the way of the answer with it, such
// as a restart of the machine. It is not done where the verb fails.
func (r *Run) After(do func() error) { r.after = do }

// Argument returns the value of an argument, or what stands for one that was left out.
func (r *Run) Argument(name, otherwise string) string {
	if v := r.Order.Arguments[name]; v != "" {
		return v
	}
	return otherwise
}

// Say tells the caller what is done now, or for whom the node waits.
func (r *Run) Say(format string, a ...any) error {
	return r.write(nodeapi.Event{Say: fmt.Sprintf(format, a...)})
}

// Result gives the caller a part of the result.
func (r *Run) Result(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("internal error: %w", err)
	}
	return r.write(nodeapi.Event{Result: data})
}

// maxPart is up to which size, in bytes of JSON, Results puts several into one part.
const maxPart = 256 << 10

// Results gives the caller a list, as many in a part as fit. One alone has to fit into an event (nodeapi.MaxEvent).
func Results[T any](r *Run, list []T) error {
	var part []json.RawMessage
	size := 0
	for _, one := range list {
		text, err := json.Marshal(one)
		if err != nil {
			return fmt.Errorf("internal error: %w", err)
		}
		if size > 0 && size+len(text) > maxPart {
			if err := r.Result(part); err != nil {
				return err
			}
			part, size = nil, 0
		}
		part, size = append(part, text), size+len(text)
	}
	if len(part) == 0 {
		return nil
	}
	return r.Result(part)
}

func (r *Run) write(e nodeapi.Event) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("internal error: %w", err)
	}
	if len(data) > nodeapi.MaxEvent-1 {
		return fmt.Errorf("a part of the answer has more than %d bytes", nodeapi.MaxEvent)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.out.Write(append(data, '\n')); err != nil && !r.goesOn {
		return fmt.Errorf("answer: %w", err)
	}
	return nil // What acts goes on when nobody listens any more.
}

// Handler carries out a verb, and returns what was done, in words for a person. With Order.DryRun it returns what would
// be done, and changes nothing. The order was checked.
type Handler func(ctx context.Context, r *Run) (done string, err error)

// Serve reads one call and answers it. A verb that looks ends when the caller has gone; one that acts goes on.
func Serve(ctx context.Context, m *node.Machine, kind nodeapi.Kind, handlers map[string]Handler, in io.Reader, out io.Writer) error {
	r := &Run{Machine: m, out: out, goesOn: kind == nodeapi.Acts}
	done, err := serve(ctx, r, kind, handlers, in)
	if err != nil {
		return r.write(nodeapi.Event{Error: err.Error()})
	}
	// An event without anything is no end. A caller that has gone is no reason to leave out the rest.
	err = r.write(nodeapi.Event{Done: cmp.Or(done, "done")})
	if r.after != nil {
		time.Sleep(grace)
		err = errors.Join(err, r.after())
	}
	return err
}

func serve(ctx context.Context, r *Run, kind nodeapi.Kind, handlers map[string]Handler, in io.Reader) (string, error) {
	from := bufio.NewReaderSize(io.LimitReader(in, maxCall+1), maxCall+1)
	line, err := from.ReadBytes('\n')
	if err != nil {
		return "", errors.New("the call was cut off or is too large")
	}
	call, err := ParseCall(line)
	if err != nil {
		return "", err
	}
	verb, found := nodeapi.FindVerb(call.Verb)
	handle := handlers[call.Verb]
	switch {
	case !found || verb.Kind != kind || handle == nil:
		return "", fmt.Errorf("there is no verb %.64q here", call.Verb)
	case !(nodeapi.Caller{Roles: call.Roles}).Is(verb.Who...):
		return "", fmt.Errorf("%s is not for this certificate", verb.Name)
	}
	if err := verb.Check(call.Order); err != nil {
		return "", err
	}
	if r.Cluster, r.Node, err = r.Machine.Self(); err != nil {
		return "", err
	}
	r.Order, r.Caller = call.Order, call.Caller
	r.By = nodeapi.Caller{Name: call.Caller, Roles: call.Roles, Nodes: call.Nodes}
	if kind == nodeapi.Acts {
		end, err := alone(r.Machine.Root.At(paths.Acts), verb)
		if err != nil {
			return "", err
		}
		defer end()
	}
	bound := verb.Bound
	if bound == 0 {
		bound = usualBound
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	if kind == nodeapi.Looks {
		go func() { // Nothing follows the call: a read returns when the other side has gone.
			_, _ = io.Copy(io.Discard, in)
			cancel()
		}()
	}
	done, err := handle(ctx, r)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%s was not done within %s: %w", verb.Name, bound, err)
	}
	return done, err
}

// alone holds a verb that acts to its number at once (Verb.AtOnce), whoever still listens to those that began before.
// Verbs of one family, as etcd-remove and etcd-restore, count together: each changes what the other looked at.
func alone(dir string, v nodeapi.Verb) (end func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("look what is under way: %w", err)
	}
	family, _, _ := strings.Cut(v.Name, "-")
	for n := range max(v.AtOnce, 1) {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%s.%d", family, n)), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("look what is under way: %w", err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		_ = f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("look what is under way: %w", err)
		}
	}
	return nil, fmt.Errorf("%s is under way already, and goes on whoever listens; nothing was done. See spore trail", family)
}

// Without keeps verbs of other families from beginning until end is called. It is an error when one is under way.
func (r *Run) Without(families ...string) (end func(), err error) {
	var ends []func()
	end = func() {
		for _, e := range ends {
			e()
		}
	}
	for _, f := range families {
		e, err := alone(r.Machine.Root.At(paths.Acts), nodeapi.Verb{Name: f})
		if err != nil {
			end()
			return nil, err
		}
		ends = append(ends, e)
	}
	return end, nil
}

// ParseCall reads a call.
func ParseCall(line []byte) (Call, error) {
	var c Call
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Call{}, fmt.Errorf("the call is malformed: %w", err)
	}
	return c, nil
}
