package daemon

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"time"

	"spore/agent/paths"
	"spore/agent/pull/looked"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/storage/pieces"
)

const (
	// updateUnit looks for updates.
	updateUnit = "spore-update.service"
	// updateSpread is the longest random delay of a look: nodes begin at about the same time, since they fetch for each
	// other (package share), and not in the same second.
	updateSpread = 5 * time.Minute
	// firstLook is when a machine looks first, at the latest: it may not run for as long as the time between two looks.
	firstLook = 15 * time.Minute
)

// lookout knows when the node is to look for updates.
type lookout struct {
	// part is where the configuration is that every and id are of.
	part string
	// every is zero where the node takes nothing by itself.
	every time.Duration
	id    string
	next  time.Time
}

// lookForUpdates has a look begin when it is due.
func (a *agent) lookForUpdates(ctx context.Context) {
	l := &a.updates
	if a.node == nil {
		return
	}
	now := a.m.Now()
	// The running node may have taken another configuration.
	if part, _ := os.Readlink(a.m.Root.At(paths.LiveNow)); l.next.IsZero() || part != l.part {
		c, err := a.m.Part.Cluster()
		if err != nil {
			return
		}
		l.read(c, now)
		l.part = part
	}
	if l.every == 0 || now.Before(l.next) {
		return
	}
	l.next = l.after(now)
	if err := a.bus.Start(ctx, updateUnit); err != nil {
		a.m.Say(err.Error())
	}
}

// read takes the settings of a configuration.
func (l *lookout) read(c *facts.Cluster, now time.Time) {
	l.every, l.id = 0, c.ID
	if c.Updates != nil {
		minutes := c.Updates.Every
		if minutes == 0 {
			minutes = spec.DefaultUpdatesEvery
		}
		l.every = time.Duration(minutes) * time.Minute
	}
	l.next = now.Add(firstLook)
	if at := l.after(now); l.every > 0 && at.Before(l.next) {
		l.next = at
	}
}

// after is when the next look begins: at the same times on all nodes of the cluster, which are not those of other
// clusters, and a random delay.
func (l *lookout) after(now time.Time) time.Time {
	if l.every == 0 {
		return now
	}
	sum := pieces.SumOf([]byte(l.id))
	offset := time.Duration(binary.BigEndian.Uint64(sum[:]) % uint64(l.every))
	next := now.Add(-offset).Truncate(l.every).Add(offset + l.every)
	return next.Add(rand.N(min(updateSpread, l.every/2)))
}

// looked is what came of the last look; nil where the node does not look.
func (a *agent) looked() *looked.Last {
	if a.updates.every == 0 {
		return nil
	}
	return looked.Read(a.m.Root.At(paths.Looked))
}
