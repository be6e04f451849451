package daemon

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"spore/agent/bootinfo"
	"spore/agent/clock"
	"spore/agent/ntp"
	"spore/agent/paths"
	"spore/agent/state"
	"spore/agent/status"
	"spore/agent/systemfiles"
	"spore/agent/timesync"
	"spore/agent/wait"
	"spore/storage/atomicfile"
)

const (
	// clockBound is the longest that roles wait for a time server, on a machine whose clock could not be right. timesyncd
	// takes 10 s for each server that does not answer.
	clockBound = 30 * time.Second
	// clockPatience is how long after its start a machine says nothing about time servers that do not answer.
	clockPatience = 120
	// jump is by how much a time server sets a clock that was of no use until then.
	jump = time.Hour
)

// timekeeper is what the daemon knows of the clock.
type timekeeper struct {
	// believed is the latest time that is believed of a clock that no server keeps.
	believed time.Time
	// zero is the time at which the machine was started, by the clock as it was when the agent began.
	zero time.Time
	// waited says that roles have waited for a time server.
	waited bool
	last   clock.State
}

// beginClock looks at how the clock was when the machine started.
func (a *agent) beginClock() {
	if a.m.Boot.ClockSet {
		a.m.Mark(paths.ClockWrong, !a.clockWasSet())
	}
	floor := clock.Floor(time.Unix(a.m.Boot.BuildTime, 0), clock.Read(a.m.Root.At(paths.Clock)))
	a.clock.believed = clock.Believed(floor)
	a.clock.zero = a.startedAt()
	a.clock.last.Wrong = a.clockIsWrong()
}

// clockIsWrong tells whether the clock could not be right, at the start or later, when a bundle came that was made
// after it (node.Machine.RaiseClockTo), and no server has set it since. The API lets people in by that (nodeapi.Clock).
func (a *agent) clockIsWrong() bool {
	_, err := os.Stat(a.m.Root.At(paths.ClockWrong))
	return err == nil
}

// startedAt is the time at which the machine was started, by the clock as it is now: it moves when the clock is set.
func (a *agent) startedAt() time.Time {
	return a.m.Now().Round(0).Add(-time.Duration(status.SinceBoot() * float64(time.Second)))
}

// clockIsKept tells whether a program keeps the clock. It has set it, and the kernel has heard from it in the last
// hours.
func (a *agent) clockIsKept() bool {
	kept, _, err := ntp.Kernel()
	return err == nil && kept && a.clockWasSet()
}

// clockWasSet tells whether a time server has set the clock in this boot. chrony leaves no mark; what it sets, the
// kernel takes for kept.
func (a *agent) clockWasSet() bool {
	if a.timeUnit() == timesync.Chrony {
		kept, _, err := ntp.Kernel()
		return err == nil && kept
	}
	return timesync.Set(a.m.Root.At(timesync.Mark))
}

// timeUnit is the unit that sets the clock.
func (a *agent) timeUnit() string { return timesync.Keeper(a.m.Root.At(timesync.ChronySources)) }

// clockState says what the clock is worth, here and to the programs that ask. When a server has set a clock that was
// wrong, this node asks nobody any more who may ask it.
func (a *agent) clockState(ctx context.Context) *clock.State {
	s := clock.State{Synchronized: a.clockIsKept(), Wrong: a.clockIsWrong()}
	if server := timesync.Server(a.statusText(ctx, timesync.Unit)); server.IsValid() {
		s.From = server.String()
	}
	if s.Synchronized && a.timeUnit() == timesync.Chrony {
		s.By = "chrony"
	}
	if s.Synchronized && s.Wrong {
		s.Wrong = false
		a.m.Mark(paths.ClockWrong, false)
		a.m.Say("a time server has set the clock, which was wrong")
	}
	s.Problem = a.clockProblem(s)
	before := a.clock.last
	a.clock.last = s
	if s.Wrong != before.Wrong {
		a.timeServers(ctx)
		a.rememberClock()
	}
	if s.Synchronized && !before.Synchronized && a.startedAt().Sub(a.clock.zero).Abs() > jump {
		// Certificates that this node made or judged before have dates of another clock.
		if err := a.bus.Start(ctx, "spore-renew.service"); err != nil {
			a.m.Say(err.Error())
		}
	}
	if err := atomicfile.WriteJSON(a.m.Root.At(paths.TimeState), s); err != nil {
		a.m.Say(err.Error())
	}
	return &s
}

// statusText is what a unit says of itself; empty when systemd does not tell.
func (a *agent) statusText(ctx context.Context, unit string) string {
	p, err := a.bus.Conn().GetServicePropertyContext(ctx, unit, "StatusText")
	if err != nil {
		return ""
	}
	text, _ := p.Value.Value().(string)
	return text
}

// asked lists whom that program asks, but for those that DHCP names.
func (a *agent) asked(wrong bool) []string {
	if a.cluster == nil {
		return nil
	}
	node := ""
	if a.node != nil {
		node = a.node.Name
	}
	return a.cluster.TimeServers(node, wrong)
}

// clockProblem says why nobody keeps the clock, once that takes long; at once where it was wrong.
func (a *agent) clockProblem(s clock.State) string {
	servers := strings.Join(a.asked(s.Wrong), ", ")
	switch {
	case s.Synchronized:
		return ""
	case s.Wrong && servers == "":
		return "the clock could not be right when the machine started, and cluster.yaml names no time servers"
	case s.Wrong:
		return "the clock could not be right when the machine started, and no time server has answered yet, of " + servers
	case servers == "" || status.SinceBoot() < clockPatience:
		return ""
	}
	return "no time server answers, of " + servers
}

// timeServers has the program that sets the clock ask whom this node is to ask now.
func (a *agent) timeServers(ctx context.Context) {
	if a.cluster == nil {
		return
	}
	changed, err := systemfiles.WriteTimeServers(systemfiles.Input{Root: a.m.Root, Cluster: a.cluster, Node: a.node, Identity: a.id, Part: bootinfo.ClusterDir, ClockWrong: a.clock.last.Wrong})
	if err == nil && changed {
		err = a.bus.Restart(ctx, a.timeUnit())
	}
	if err != nil {
		a.m.Say(err.Error())
	}
}

// awaitClock has the roles of a machine whose clock is known to be wrong wait for a time server, so that they do not
// start with dates that lie years back. It waits once, and not for long: a node that is cut off has to start, too.
func (a *agent) awaitClock(ctx context.Context) {
	servers := a.asked(true)
	if !a.clock.last.Wrong || a.clock.waited || len(servers) == 0 {
		return
	}
	a.clock.waited = true
	if err := a.bus.Start(ctx, a.timeUnit()); err != nil { // It comes with lateTarget otherwise.
		a.m.Say(err.Error())
	}
	err := wait.Until(ctx, wait.Condition{
		For: fmt.Sprintf("a time server to set the clock, of %s", strings.Join(servers, ", ")), Bound: clockBound, Patience: 5 * time.Second,
		Say: func(text string) {
			a.m.Say(text)
			if err := a.report(ctx); err != nil {
				a.m.Say(err.Error())
			}
		},
		Met: a.clockIsKept,
	})
	if err != nil {
		a.m.Say(err.Error() + "; the roles start with a clock that is wrong")
	}
}

// rememberClock writes the last time seen, where that lasts. A container's clock is its host's.
func (a *agent) rememberClock() {
	if a.m.Boot.BuildTime == 0 || a.line.State == nil || a.line.State.Kind != state.Partition {
		return
	}
	if err := clock.Remember(a.m.Root.At(paths.Clock), a.m.Now(), a.clock.believed, a.clockIsKept()); err != nil {
		a.m.Say(err.Error())
	}
}
