package daemon

import (
	"context"
	"os"
	"strings"

	"spore/agent/screen/console"
)

// watchKeys has pages shown when somebody types on the monitor, which would have them a little later by itself, or on
// the serial line, which is a log otherwise.
func (a *agent) watchKeys(ctx context.Context) {
	go console.Watch(ctx, a.m.Root, console.Monitor, func() { a.showPages(ctx, console.MonitorUnit) })
	words, err := os.ReadFile(a.m.Root.At("/proc/cmdline"))
	if err == nil && console.Line(a.m.Root, strings.TrimSpace(string(words))) {
		go console.Watch(ctx, a.m.Root, console.Serial, func() { a.showPages(ctx, console.SerialUnit) })
	}
}

// showPages starts a unit that shows pages, and waits for nothing: a machine without that terminal has no such unit
// running.
func (a *agent) showPages(ctx context.Context, unit string) {
	if err := a.bus.Start(ctx, unit); err != nil {
		a.m.Say(err.Error())
	}
}
