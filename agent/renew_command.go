package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	"golang.org/x/sys/unix"

	"spore/agent/activate"
	"spore/agent/api"
	"spore/agent/atomicfile"
	"spore/agent/delivery"
	"spore/agent/paths"
	"spore/agent/renewal"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/bundle"
	"spore/services/service"
	"spore/wire/nodeapi"
)

// signerProgram is the program that signs other nodes' certificates, on masters.
const signerProgram = "signer"

// Times of renewal.
const (
	// askBound is the longest that one master may take to answer.
	askBound = 30 * time.Second
	// againAfter is when masters are asked again where a certificate has ended already.
	againAfter = 20 * time.Second
	// turnEvery is how often a program that waits for its turn looks whether it has come, on average.
	turnEvery = 5 * time.Second
	// restartBound is the longest wait for a program to be active again; with quorums that takes as long as the others do.
	restartBound = 10 * time.Minute
	// urgent is how long before its end a certificate is taken into use, whoever else may be down.
	urgent = 3 * 24 * time.Hour
)

// renewCommand looks at the node's bundle and certificates again, takes a newer bundle that the operator sent, has masters
// make what is due, and has the programs take what is new. It goes on for as long as a certificate has ended that a master
// could make.
func renewCommand(ctx context.Context, m *machine, args []string) error {
	if len(args) > 0 {
		return usageError{"usage: spore-agent renew"}
	}
	m.readBoot()
	for {
		t, err := newTaker(m)
		if err != nil || t == nil {
			return err
		}
		again, err := t.renew(ctx)
		if err != nil || !again {
			return err
		}
		m.say(fmt.Sprintf("asking again in %s", againAfter))
		if sleep(ctx, againAfter) != nil {
			return nil // It is told to stop.
		}
	}
}

// renew is one turn. again tells that something has ended and nobody could be asked.
func (t *taker) renew(ctx context.Context) (again bool, err error) {
	t.renews = true
	unanswered := false
	t.asks = func(ctx context.Context, agent pki.Certificate, trusted map[string]string, leaves []pki.Leaf) (map[string]pki.Certificate, map[string]error, error) {
		made, refused, err := t.asker(agent, trusted).Ask(ctx, leaves)
		unanswered = err != nil
		return made, refused, err
	}
	inbox := t.m.root.At(filepath.Join(paths.Inbox, inboxFile))
	data, err := readInbox(inbox)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		t.m.say(fmt.Sprintf("the bundle that was sent was refused: %v", err))
	default:
		t.in.Delivered = append(t.in.Delivered, delivery.Delivered{From: delivery.Network, Data: data})
	}
	// One at the boot medium that is encrypted was asked for at the boot, or is still.
	t.in.Medium = nil
	if _, err := t.take(ctx); err != nil {
		return false, err
	}
	if err := os.RemoveAll(inbox); err != nil { // Or the path unit would come again.
		return false, err
	}
	state := &renewal.File{Path: t.m.root.At(paths.Renewal)}
	if err := t.apply(ctx, state); err != nil {
		return false, err
	}
	s, err := state.Read()
	return unanswered && !s.Ends.IsZero() && !t.m.now().Before(s.Ends), err
}

// asker asks the cluster's masters, in an order of chance, so that not all nodes ask the same one.
func (t *taker) asker(agent pki.Certificate, trusted map[string]string) renewal.Asker {
	masters := slices.DeleteFunc(slices.Clone(t.cluster.Members["control-plane"]), func(n string) bool { return n == t.node.Name })
	mathrand.Shuffle(len(masters), func(i, j int) { masters[i], masters[j] = masters[j], masters[i] })
	client := nodeapi.Client{Addresses: t.m.addressesOf, Identity: func() (nodeapi.Identity, error) {
		return nodeapi.Identity{Certificate: []byte(agent.Certificate), Key: []byte(agent.Key), Authorities: []byte(trusted["agent"])}, nil
	}}
	return renewal.Asker{
		Cluster: t.cluster.ID, Node: t.node.Name, Agent: agent, Masters: masters, Trusted: trusted, Now: t.m.now, Random: rand.Reader,
		Post: func(ctx context.Context, master string, data []byte) ([]byte, error) {
			ctx, cancel := context.WithTimeout(ctx, askBound)
			defer cancel()
			return client.Read(ctx, master, nodeapi.Request{Method: http.MethodPost, Path: nodeapi.RenewPath, Body: bytes.NewReader(data)}, renewal.MaxAnswer)
		},
	}
}

// apply has the programs take what is new.
func (t *taker) apply(ctx context.Context, state *renewal.File) error {
	s, err := state.Read()
	if err != nil || len(s.Pending) == 0 {
		return err
	}
	bus, err := activate.Connect(ctx)
	if err != nil {
		return err
	}
	defer bus.Close()
	client := t.m.apiClient()
	a := renewal.Applier{
		Node: t.node.Name, File: state, Units: systemd{bus}, Say: t.m.say, Sleep: sleep, Every: turnEvery,
		Others: func(program string) []string { return renewal.Others(t.cluster, t.node, program) },
		Urgent: func(string) bool { return !s.Ends.IsZero() && t.m.now().After(s.Ends.Add(-urgent)) },
		Ask: func(ctx context.Context, node string) (r nodeapi.Renewal, err error) {
			ctx, cancel := context.WithTimeout(ctx, askBound)
			defer cancel()
			data, err := client.Read(ctx, node, nodeapi.Request{Path: nodeapi.RenewalPath}, renewal.MaxAnswer)
			if err == nil {
				err = json.Unmarshal(data, &r)
			}
			return r, err
		},
	}
	err = a.Apply(ctx)
	if err != nil && ctx.Err() == nil {
		// It stays pending, and the timer tries again.
		return errors.Join(err, state.Change(func(s *renewal.State) { s.Problem = err.Error() }))
	}
	return err
}

// systemd is how units take what is new.
type systemd struct{ bus *activate.Bus }

func (s systemd) Started(ctx context.Context, unit string) (at uint64, active bool, err error) {
	p, err := s.bus.Conn().GetUnitPropertiesContext(ctx, unit)
	if err != nil {
		return 0, false, fmt.Errorf("look at %s: %w", unit, err)
	}
	switch p["ActiveState"] {
	case "active", "reloading":
		active = true
	case "activating":
	default:
		return 0, false, nil
	}
	at, _ = p["InactiveExitTimestampMonotonic"].(uint64)
	return at, active, nil
}

func (s systemd) Restart(ctx context.Context, unit string) error {
	ctx, cancel := context.WithTimeout(ctx, restartBound)
	defer cancel()
	done := make(chan string, 1)
	if _, err := s.bus.Conn().RestartUnitContext(ctx, unit, "replace", done); err != nil {
		return fmt.Errorf("restart %s: %w", unit, err)
	}
	return s.await(ctx, "restart", unit, done)
}

// await waits for a job.
func (s systemd) await(ctx context.Context, what, unit string, done <-chan string) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s %s: %w", what, unit, ctx.Err())
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("%s %s: %s; see journalctl -u %s", what, unit, result, unit)
		}
		return nil
	}
}

func (s systemd) Reload(ctx context.Context, unit, signal string) error {
	ctx, cancel := context.WithTimeout(ctx, restartBound)
	defer cancel()
	can, err := s.bus.Conn().GetUnitPropertyContext(ctx, unit, "CanReload")
	if err != nil {
		return fmt.Errorf("look at %s: %w", unit, err)
	}
	if yes, _ := can.Value.Value().(bool); yes {
		done := make(chan string, 1)
		if _, err := s.bus.Conn().ReloadUnitContext(ctx, unit, "replace", done); err != nil {
			return fmt.Errorf("reload %s: %w", unit, err)
		}
		if err := s.await(ctx, "reload", unit, done); err != nil {
			return err
		}
	}
	number, ok := signals[signal]
	if !ok {
		return fmt.Errorf("internal error: signal %q", signal)
	}
	if err := s.bus.Conn().KillUnitWithTarget(ctx, unit, dbus.Main, number); err != nil {
		return fmt.Errorf("signal %s: %w", unit, err)
	}
	return nil
}

// signals are those of package renewal's table.
var signals = map[string]int32{"HUP": 1, "USR2": 12}

// signCommand signs for another node: the request on standard input, the answer on standard output. systemd starts it for each
// connection to its socket.
func signCommand(_ context.Context, m *machine, args []string) error {
	if len(args) > 0 {
		return usageError{"usage: spore-agent sign"}
	}
	request, err := io.ReadAll(io.LimitReader(os.Stdin, renewal.MaxRequest+1))
	if err != nil {
		return fmt.Errorf("read a request: %w", err)
	}
	answer, err := m.sign(request)
	if err != nil {
		m.say("a request for certificates was refused: " + err.Error())
		answer = renewal.Refuse(err)
	}
	_, err = os.Stdout.Write(answer)
	return err
}

func (m *machine) sign(request []byte) ([]byte, error) {
	c, _, err := m.quorumMember()
	if err != nil {
		return nil, err
	}
	keys := map[string]string{}
	for _, a := range pki.Authorities() {
		keys[a.Name] = a.Key
	}
	trusted := map[string]string{}
	for _, a := range pki.Authorities() {
		if text, err := m.part.Public(a.Name + ".crt"); err == nil && a.Kind == service.CA {
			trusted[a.Name] = string(text)
		}
	}
	s := renewal.Signer{Cluster: c, Node: m.part.Node, Trusted: trusted, Now: m.now(), Random: rand.Reader, Key: func(authority string) (pki.Hidden, error) {
		key, err := credential(keys[authority])
		return pki.Hidden(key), err
	}}
	return s.Sign(request)
}

// inboxFile is the bundle that the operator sent last.
const inboxFile = "bundle"

// readInbox reads what the API's server, which has no privileges, has left.
func readInbox(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > bundle.MaxSize {
		return nil, errors.New("what was left is no bundle")
	}
	return io.ReadAll(io.LimitReader(f, bundle.MaxSize+1))
}

// renewalRows are what the node answers of renewal.
func (m *machine) renewalRows(c *facts.Cluster, n *facts.Node) []api.Row {
	rows := []api.Row{
		{Method: http.MethodGet, Path: nodeapi.RenewalPath, Who: append(nodeapi.Operators(), nodeapi.Node),
			Handle: api.Plain(renewal.StateHandler(m.root.At(paths.Renewal), m.root.At(paths.Status)))},
		{Method: http.MethodPost, Path: nodeapi.BundlePath, Who: []nodeapi.Role{nodeapi.Admin}, Body: bundle.MaxSize, AtOnce: 1, Handle: m.takeBundle(c, n)},
	}
	if slices.Contains(n.Roles, "control-plane") {
		rows = append(rows, api.Row{Method: http.MethodPost, Path: nodeapi.RenewPath, Who: []nodeapi.Role{nodeapi.Node}, Body: renewal.MaxRequest, AtOnce: 8, Ended: true,
			Handle: api.Plain(renewal.SignHandler(m.root.At(paths.Signer)))})
	}
	return rows
}

// takeBundle checks a bundle that the operator sends and leaves it for root, which checks it again. It is not answered before
// the bundle lies there; whether it was taken is seen in the node's serial.
func (m *machine) takeBundle(c *facts.Cluster, n *facts.Node) func(http.ResponseWriter, *http.Request, nodeapi.Caller) {
	return func(w http.ResponseWriter, r *http.Request, caller nodeapi.Caller) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "the bundle was cut off or is too large", http.StatusBadRequest)
			return
		}
		keys, err := m.signingKeys(c)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		b, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: c.ID, Node: n.Name, Keys: keys})
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		if _, err := atomicfile.Write(m.root.At(filepath.Join(paths.Inbox, inboxFile)), data, 0o600); err != nil {
			m.say(err.Error())
			http.Error(w, n.Name+" cannot keep the bundle; see its journal", http.StatusInternalServerError)
			return
		}
		m.say(fmt.Sprintf("%s has sent bundle %d", caller.Name, b.Serial))
		w.WriteHeader(http.StatusAccepted)
	}
}
