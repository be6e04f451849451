package lan

import (
	"slices"
	"time"
)

const (
	// addressSize and headerSize are those of Ethernet, in bytes.
	addressSize = 6
	headerSize  = 14
	// maxLearned bounds the addresses that are known; they are learned anew beyond it.
	maxLearned = 8192
	// lookAgain is how often the ends of cables are looked up at most.
	lookAgain = 100 * time.Millisecond
)

// port is one end of a cable as the switch sees it.
type port interface {
	// send gives a frame away, which the sender uses again afterwards.
	send(frame []byte)
	close()
}

// address is a hardware address on a segment: "" is the network of all cards, a node's name that of its gateway.
type address struct {
	segment string
	mac     [addressSize]byte
}

// ethernet is the switch.
type ethernet struct {
	names  func() []string
	open   func(name string) port
	ports  map[string]port
	at     map[address]string
	looked time.Time
}

func newSwitch(names func() []string, open func(name string) port) *ethernet {
	return &ethernet{names: names, open: open, ports: map[string]port{}, at: map[address]string{}}
}

// take forwards a frame that came from an end of a cable. What is shorter than a header goes nowhere.
func (w *ethernet) take(from string, frame []byte, now time.Time) {
	if len(frame) < headerSize {
		return
	}
	node, gateway := nodeOf(from)
	segment := ""
	if gateway {
		segment = node
	}
	w.learn(address{segment, [addressSize]byte(frame[addressSize:])}, from)
	for _, to := range w.targets(from, node, gateway, [addressSize]byte(frame), now) {
		w.port(to).send(frame)
	}
}

func (w *ethernet) learn(a address, at string) {
	if len(w.at) >= maxLearned {
		clear(w.at)
	}
	w.at[a] = at
}

// targets are the ends that a frame goes to.
func (w *ethernet) targets(from, node string, gateway bool, to [addressSize]byte, now time.Time) []string {
	all := to[0]&1 == 1
	if !all {
		if !gateway && w.at[address{node, to}] != "" {
			return []string{Gateway(node)}
		}
		if at := w.at[address{"", to}]; at != "" {
			other, _ := nodeOf(at)
			if at == from || gateway && other != node {
				return nil
			}
			return []string{at}
		}
	}
	var out []string
	for _, name := range w.cards(now) {
		other, _ := nodeOf(name)
		if name != from && (!gateway || other == node) {
			out = append(out, name)
		}
	}
	if all && !gateway {
		out = append(out, Gateway(node))
	}
	return out
}

// cards are the ends of cables that are no gateways.
func (w *ethernet) cards(now time.Time) []string {
	if now.Sub(w.looked) >= lookAgain {
		w.looked = now
		there := w.names()
		for name, p := range w.ports {
			if !slices.Contains(there, name) {
				p.close()
				delete(w.ports, name)
			}
		}
		for _, name := range there {
			w.port(name)
		}
	}
	var out []string
	for name := range w.ports {
		if _, gateway := nodeOf(name); !gateway {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (w *ethernet) port(name string) port {
	p := w.ports[name]
	if p == nil {
		p = w.open(name)
		w.ports[name] = p
	}
	return p
}

func (w *ethernet) close() {
	for _, p := range w.ports {
		p.close()
	}
}
