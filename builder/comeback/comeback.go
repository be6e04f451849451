// Package comeback waits for a node that was told to restart, or to switch itself off. Whoever goes from one member of
// a quorum to the next waits in between, so that never two are away.
package comeback

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"spore/wire/nodeapi"
)

// Wait is one wait for one node.
type Wait struct {
	// Ask asks the node for its status.
	Ask func(ctx context.Context) (nodeapi.Status, error)
	// Say is told for what it waits, whenever that changes.
	Say func(text string)
	// Every is how often it is asked, and Bound how long at most.
	Every, Bound time.Duration
}

// ForStart returns when the node runs in another boot than before, and its roles are up. Its answer is the status then.
// A node that does not say in which boot it is has to be away once.
func (w Wait) ForStart(ctx context.Context, before string) (nodeapi.Status, error) {
	var is nodeapi.Status
	away := false
	err := w.until(ctx, func(s nodeapi.Status, err error) (waitsFor string) {
		is = s
		switch {
		case err != nil:
			away = true
			return "it to answer: " + err.Error()
		case s.BootID == before && (before != "" || !away):
			return "it to go down"
		}
		return starting(s)
	})
	return is, err
}

// ForSilence returns when the node answers no more.
func (w Wait) ForSilence(ctx context.Context) error {
	missed := 0
	return w.until(ctx, func(_ nodeapi.Status, err error) string {
		if err == nil {
			missed = 0
			return "it to go down"
		}
		if missed++; missed < 2 { // One lost packet is not the end.
			return "it to go down"
		}
		return ""
	})
}

// starting says what a node has yet to do before all of its roles are up; empty when they are.
func starting(s nodeapi.Status) string {
	var out []string
	if text := s.NotUp(); text != "" {
		out = append(out, text)
	}
	for _, service := range slices.Sorted(maps.Keys(s.Waiting)) {
		out = append(out, service+" is "+s.Waiting[service])
	}
	if len(out) == 0 && s.System != "running" && s.System != "degraded" {
		out = append(out, "the system is "+s.System)
	}
	if len(out) == 0 {
		return ""
	}
	return "its roles: " + strings.Join(out, ", ")
}

// until asks until nothing is waited for any more.
func (w Wait) until(ctx context.Context, see func(nodeapi.Status, error) string) error {
	ctx, cancel := context.WithTimeout(ctx, w.Bound)
	defer cancel()
	tick := time.NewTicker(w.Every)
	defer tick.Stop()
	said := ""
	for {
		s, err := w.Ask(ctx)
		if ctx.Err() == nil {
			text := see(s, err)
			if text == "" {
				return nil
			}
			if text != said {
				said = text
				w.Say("waits for " + text)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited %s for %s: %w", w.Bound, said, ctx.Err())
		}
	}
}
