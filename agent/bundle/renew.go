package bundle

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"spore/agent/activate"
	"spore/agent/delivery"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/renewal"
	"spore/agent/wait"
	"spore/pki"
	"spore/services"
	"spore/wire/nodeapi"
)

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

// Renew looks at the node's bundle and certificates again, takes a newer bundle that the operator sent, has masters
// make what is due, and has the programs take what is new. It goes on for as long as a certificate has ended that a
// master could make.
func Renew(ctx context.Context, m *node.Machine) error {
	m.ReadBoot()
	for {
		t, err := newTaker(m)
		if err != nil || t == nil {
			return err
		}
		again, err := t.renew(ctx)
		if err != nil || !again {
			return err
		}
		m.Say(fmt.Sprintf("asking again in %s", againAfter))
		if wait.Sleep(ctx, againAfter) != nil {
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
	inbox := t.m.Root.At(filepath.Join(paths.Inbox, inboxFile))
	data, err := readInbox(inbox)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		t.m.Say(fmt.Sprintf("the bundle that was sent was refused: %v", err))
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
	state := &renewal.File{Path: t.m.Root.At(paths.Renewal)}
	if err := t.apply(ctx, state); err != nil {
		return false, err
	}
	s, err := state.Read()
	return unanswered && !s.Ends.IsZero() && !t.m.Now().Before(s.Ends), err
}

// asker asks the cluster's masters, in an order of chance, so that not all nodes ask the same one.
func (t *taker) asker(agent pki.Certificate, trusted map[string]string) renewal.Asker {
	masters := slices.DeleteFunc(slices.Clone(t.cluster.Members["control-plane"]), func(n string) bool { return n == t.node.Name })
	mathrand.Shuffle(len(masters), func(i, j int) { masters[i], masters[j] = masters[j], masters[i] })
	client := nodeapi.Client{Addresses: t.m.AddressesOf, Identity: func() (nodeapi.Identity, error) {
		return nodeapi.Identity{Certificate: []byte(agent.Certificate), Key: []byte(agent.Key), Authorities: []byte(trusted["agent"])}, nil
	}}
	return renewal.Asker{
		Cluster: t.cluster.ID, Node: t.node.Name, Agent: agent, Masters: masters, Trusted: trusted, Now: t.m.Now, Random: rand.Reader,
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
	client := t.m.Client()
	a := renewal.Applier{
		Services: services.Of(t.cluster), Node: t.node.Name, File: state, Units: systemd{bus}, Say: t.m.Say, Sleep: wait.Sleep, Every: turnEvery,
		Others: func(program string) []string { return renewal.Others(t.cluster, t.node, program) },
		Urgent: func(string) bool { return !s.Ends.IsZero() && t.m.Now().After(s.Ends.Add(-urgent)) },
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
