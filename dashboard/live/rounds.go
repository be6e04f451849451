package live

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"

	"spore/cluster/facts"
	"spore/dashboard"
	"spore/fleet"
	"spore/fleet/verbs"
	"spore/wire/nodeapi"
)

const (
	// maxMetrics bounds what a node measures, and maxSaid what nodes say while they answer a verb, in bytes.
	maxMetrics, maxSaid = 16 << 20, 16 << 10
)

// rounds asks nodes with a role: first the one that answered last.
type rounds struct {
	c    *fleet.Cluster
	mu   sync.Mutex
	last map[string]string
}

func (v *rounds) first(ctx context.Context, role, name string, o nodeapi.Order) (dashboard.Reply, error) {
	c := *v.c
	v.mu.Lock()
	c.Nodes = preferring(c.Nodes, v.last[role])
	v.mu.Unlock()
	var said lines
	a, err := verbs.First(ctx, &c, role, verbs.Row(name), o, &said)
	if err != nil {
		return dashboard.Reply{}, err
	}
	v.mu.Lock()
	v.last[role] = a.Node.Name
	v.mu.Unlock()
	return dashboard.Reply{Node: a.Node.Name, Results: a.Value.Results, Said: said.all()}, nil
}

// preferring puts a node in front of the others.
func preferring(nodes []facts.Node, name string) []facts.Node {
	out := slices.Clone(nodes)
	slices.SortStableFunc(out, func(a, b facts.Node) int {
		switch {
		case a.Name == name && b.Name != name:
			return -1
		case b.Name == name && a.Name != name:
			return 1
		}
		return 0
	})
	return out
}

// lines keeps what nodes say, as far as there is room.
type lines struct{ text bytes.Buffer }

// Write implements io.Writer, and never fails: what has no room is dropped.
func (l *lines) Write(p []byte) (int, error) {
	l.text.Write(p[:min(len(p), maxSaid-l.text.Len())])
	return len(p), nil
}

func (l *lines) all() []string {
	text := strings.TrimSpace(l.text.String())
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
