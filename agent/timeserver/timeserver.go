// Package timeserver tells other nodes the time, on a node that they ask, and no more than the node's own clock is
// worth. Package ntp has the protocol, and the judgement.
package timeserver

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"spore/agent/clock"
	"spore/agent/node"
	"spore/agent/ntp"
	"spore/agent/paths"
	"spore/agent/wait"
)

// heardEvery is how often the server that timesyncd follows is asked what it is worth.
const heardEvery = 64 * time.Second

// Serve answers the other nodes' questions for the time, on a node that they ask.
func Serve(ctx context.Context, m *node.Machine) error {
	_, c, n, err := m.Node()
	if err != nil || n == nil || !c.ServesTime(n.Name) {
		return err // Nobody asks this one.
	}
	var own []netip.Addr
	for _, ip := range n.IPs {
		a, err := netip.ParseAddr(ip)
		if err != nil {
			return fmt.Errorf("the node's address %q: %w", ip, err)
		}
		own = append(own, a)
	}
	conns, err := ntp.Listen(ctx, own, ntp.Port)
	if err != nil {
		return err
	}
	k := &knowledge{m: m, port: ntp.Port}
	k.look(ctx)
	go k.follow(ctx)
	server := ntp.Server{State: k.state, Now: m.Now, Limit: &ntp.Limit{}}
	return server.Serve(ctx, conns)
}

// knowledge is what the time server knows of its own clock.
type knowledge struct {
	m    *node.Machine
	port uint16

	mu   sync.Mutex
	now  ntp.Clock
	said string
}

func (k *knowledge) state() ntp.State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return ntp.Judge(k.now, k.m.Now())
}

// follow looks again when spore-agent has written something new, and from time to time.
func (k *knowledge) follow(ctx context.Context) {
	changes := wait.Dir(ctx, k.m.Root.At(paths.Time))
	tick := time.NewTicker(heardEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes:
		case <-tick.C:
		}
		k.look(ctx)
	}
}

// look takes in what is known now, and asks the server that the clock comes from.
func (k *knowledge) look(ctx context.Context) {
	s, err := clock.ReadState(k.m.Root.At(paths.TimeState))
	if err != nil {
		// Before spore-agent has written anything, nothing is claimed.
		s = clock.State{Wrong: true}
	}
	c := ntp.Clock{Wrong: s.Wrong, Heard: k.now.Heard} // Nobody else writes it.
	if c.Synchronized, c.MaxError, err = ntp.Kernel(); err != nil {
		k.say(err)
	}
	c.Synchronized = c.Synchronized && s.Synchronized
	if server, err := netip.ParseAddr(s.From); err == nil {
		c.Follows = server
		if c.Heard == nil || c.Heard.From != server || k.m.Now().Sub(c.Heard.At) >= heardEvery/2 {
			h, err := ntp.Ask(ctx, netip.AddrPortFrom(server, k.port), k.m.Now)
			if err == nil {
				c.Heard = &h
			}
			k.say(err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now = c
}

// say says a problem once.
func (k *knowledge) say(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != k.said && text != "" {
		k.m.Say(text)
	}
	k.said = text
}
