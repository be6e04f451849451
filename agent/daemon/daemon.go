// Package daemon is what runs for as long as the machine does: it starts the roles of the node when its addresses, its
// clock and its secrets are there, says on each change how the machine is, and starts what cannot wait for its timer.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"spore/agent/activate"
	"spore/agent/bundle"
	"spore/agent/config/staged"
	"spore/agent/delivery"
	"spore/agent/detect"
	"spore/agent/disks"
	"spore/agent/environment"
	"spore/agent/firmware"
	"spore/agent/identity"
	"spore/agent/nic"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/renewal"
	"spore/agent/screen"
	"spore/agent/screen/console"
	"spore/agent/state"
	"spore/agent/status"
	"spore/agent/wait"
	"spore/agent/watch"
	"spore/agent/watchdog"
	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/services"
	"spore/storage/atomicfile"
)

// Times of the daemon.
const (
	// addressBound is the longest wait for the node's addresses before its roles start all the same.
	addressBound = 30 * time.Second
	// clockEvery is how often the last time seen is written.
	clockEvery = time.Hour
	// probeEvery is how often an address that another machine has is probed again.
	probeEvery = 30 * time.Second
	// coldplugBound is how long devices that no role waits for are left alone while roles have yet to come up.
	coldplugBound = time.Minute
	// lateBound is how long the API and what else no role waits for leave the processor to roles that have yet to come up.
	lateBound = 15 * time.Second
	// lateTarget is what no role waits for.
	lateTarget = "spore-late.target"
)

// agent is the running daemon.
type agent struct {
	m   *node.Machine
	bus *activate.Bus
	id  detect.Identity
	// cluster and node are nil on a machine that does not match any node.
	cluster *facts.Cluster
	node    *facts.Node
	clock   timekeeper
	updates lookout
	line    status.Line
	last    status.Line
	units   []string
	// every are the units that each node runs, roleUnits those of its roles: together they are units.
	every, roleUnits []string
	// rolesUp says that the roles' units are active, complete that all of every have been.
	rolesUp, complete bool
}

// Run is the daemon.
func Run(ctx context.Context, m *node.Machine) error {
	m.ReadBoot()
	a := &agent{m: m}
	var err error
	if a.id, a.cluster, a.node, err = m.Node(); err != nil {
		// The daemon goes on: its line is how the problem is seen.
		a.id.Problem = err.Error()
	}
	if a.cluster == nil {
		a.cluster, _ = m.Part.Cluster()
	}
	if a.bus, err = activate.Connect(ctx); err != nil {
		return err
	}
	defer a.bus.Close()
	a.begin()
	if a.node != nil {
		if err := a.activate(ctx); err != nil {
			m.Say(err.Error())
		}
	}
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		m.Say(err.Error())
	}
	return a.follow(ctx)
}

// begin fills in what does not change while the machine runs.
func (a *agent) begin() {
	l := &a.line
	l.Spore, l.Roles, l.Failed, l.Times = 1, []string{}, []string{}, map[string]float64{}
	if a.cluster != nil {
		l.Cluster = a.cluster.Name
	}
	if a.id.Known() {
		l.Node, l.Matched = a.id.Node, &status.Matched{By: a.id.By, Value: a.id.Value, Phase: a.id.Phase}
	} else {
		l.Problem, l.Advice, l.Seen = a.id.Problem, a.id.Advice, a.id.Seen
	}
	l.NoCloud = a.noCloud()
	l.MachineID, l.BootID, l.BuildTime = a.m.Boot.MachineID, a.m.BootID(), a.m.Boot.BuildTime
	l.BootDisk = cmp.Or(a.m.Boot.BootDisk.Serial, a.m.Boot.BootDisk.Path)
	l.Firmware = firmware.Read(os.DirFS(a.m.Root.At("/")))
	a.beginClock()
	if a.m.Boot.Stage1End > 0 {
		l.Times["kernel"], l.Times["stage1"] = a.m.Boot.Stage1Start, a.m.Boot.Stage1End
	}
	var info state.Info
	if err := atomicfile.ReadJSON(a.m.Root.At(paths.State), &info); err == nil {
		l.State = &info
	}
}

// noCloud is what a hypervisor said. Its network is not taken where the configuration describes one.
func (a *agent) noCloud() *status.NoCloud {
	c := a.id.NoCloud
	if c == nil {
		return nil
	}
	out := &status.NoCloud{From: c.From, InstanceID: c.InstanceID, NotTaken: c.NotTaken, Problem: c.Problem}
	if len(a.id.Network) > 0 && a.id.Known() {
		if own, err := a.m.Part.Node(a.id.Node); err == nil && len(own.Interfaces) > 0 {
			out.NotTaken = append(slices.Clip(out.NotTaken), "network-config: the configuration describes the network of "+own.Name)
		}
	}
	return out
}

// activate writes the environment files and enqueues the targets of the roles that may start.
func (a *agent) activate(ctx context.Context) error {
	if err := environment.Write(a.m.Root.At(paths.Environment), a.cluster, a.node, node.Memory()); err != nil {
		return err
	}
	began := time.Now()
	if err := identity.ProbeMade(ctx, a.m, a.cluster, a.node); err != nil {
		a.m.Say(err.Error())
	}
	_, err := a.readBundle()
	if err != nil {
		a.m.Say(err.Error())
	}
	err = a.startRoles(ctx, addressBound-time.Since(began))
	a.step("activated")
	return err
}

// startRoles enqueues the targets of the roles that may start and have not been started yet.
func (a *agent) startRoles(ctx context.Context, addressBound time.Duration) error {
	dirs := []string{a.m.Root.At("/etc/systemd/system"), a.m.Root.At("/usr/lib/systemd/system")}
	in := activate.Input{
		Cluster: a.cluster, Node: a.node, Identity: a.id, Have: activate.HaveIn(a.m.Root.At(paths.Secrets)),
		Unit: activate.UnitIn(dirs...), After: activate.AfterIn(dirs...),
	}
	if a.line.Bundle != nil {
		in.Serial, in.BundleProblem = a.line.Bundle.Serial, a.line.Bundle.Problem
	}
	if a.line.State != nil {
		in.State = *a.line.State
	}
	may, targets, held := activate.Plan(in)
	running := a.line.Roles
	runs := func(role string) bool { return slices.Contains(running, role) }
	a.line.Held = slices.DeleteFunc(held, func(h activate.Held) bool { return runs(h.Role) })
	var fresh []string
	for i, name := range may {
		if !runs(name) {
			fresh = append(fresh, targets[i])
		}
	}
	a.every = in.Units()
	if len(fresh) == 0 {
		a.watchUnits()
		return activate.Start(ctx, a.bus, a.every)
	}
	var err error
	if a.waits() {
		// What every node runs needs no address of its own, and can tell the operator what is waited for.
		err = activate.Start(ctx, a.bus, a.every)
	}
	a.awaitAddresses(ctx, addressBound)
	a.awaitClock(ctx)
	a.line.Roles = slices.DeleteFunc(slices.Clone(a.node.Roles), func(role string) bool { return !runs(role) && !slices.Contains(may, role) })
	a.watchUnits()
	return errors.Join(err, activate.Start(ctx, a.bus, fresh))
}

// watchUnits has the status line tell how the units of the node's roles are, and those of every node.
func (a *agent) watchUnits() {
	a.roleUnits = nil
	for _, name := range a.line.Roles {
		a.roleUnits = append(a.roleUnits, unitsOf(a.cluster, name)...)
	}
	a.units = slices.Concat(a.every, a.roleUnits)
}

// unitsOf are the units that are active when a role is up. What a timer, socket or path of a role of the
// configuration's own starts is not among them: it runs now and then, and systemd tells when it fails.
func unitsOf(c *facts.Cluster, name string) []string {
	l := services.Of(c)
	row, _ := l.Lookup(name)
	out := []string{row.Target}
	own, _ := l.Own(name)
	if d, ok := own.(*role.Definition); ok {
		return append(out, d.Units...)
	}
	for _, program := range services.RolePrograms(c, row) {
		if !strings.Contains(program.Unit, "@.") { // Those of disks are known when the disks are.
			out = append(out, program.Unit)
		}
	}
	return out
}

// up tells whether all of these units are active in a picture.
func up(p watch.Picture, units []string) bool {
	return !slices.ContainsFunc(units, func(unit string) bool { return p.Units[unit] != "active" })
}

// startLate starts what no role waits for, the API of the node among it.
func (a *agent) startLate(ctx context.Context) {
	if err := activate.Start(ctx, a.bus, append(slices.Clone(a.every), lateTarget)); err != nil {
		a.m.Say(err.Error())
	}
}

// readBundle reads what became of the node's bundle.
func (a *agent) readBundle() (bundle.Info, error) {
	var info bundle.Info
	err := atomicfile.ReadJSON(a.m.Root.At(paths.BundleInfo), &info)
	if errors.Is(err, fs.ErrNotExist) {
		return info, nil // spore-bundle.service failed, and the status says so.
	}
	a.line.Bundle = nil
	if info.Info != (delivery.Info{}) {
		a.line.Bundle = &info.Info
	}
	return info, err
}

// rebundle goes on with a bundle that came after the roles were started: it has programs take other
// secrets that they were given, and starts roles that waited for theirs.
func (a *agent) rebundle(ctx context.Context) error {
	before := a.line.Bundle
	info, err := a.readBundle()
	if err != nil || a.node == nil || before != nil && *before == info.Info {
		return err
	}
	return a.startRoles(ctx, addressBound)
}

// renew starts the renewal where it cannot wait for its timer: a certificate has ended, or programs have yet to take
// what came.
func (a *agent) renew(ctx context.Context) {
	s, err := (&renewal.File{Path: a.m.Root.At(paths.Renewal)}).Read()
	if err == nil && (len(s.Pending) > 0 || !s.Ends.IsZero() && !a.m.Now().Before(s.Ends)) {
		err = a.bus.Start(ctx, "spore-renew.service")
	}
	if err != nil {
		a.m.Say(err.Error())
	}
}

// awaitAddresses waits until the node has its addresses, since its programs listen on them. They start all the same
// when that takes too long: a program may do without, and says so itself.
func (a *agent) awaitAddresses(ctx context.Context, bound time.Duration) {
	done := make(chan struct{})
	defer close(done)
	changed, err := nic.Changes(done)
	if err != nil {
		a.m.Say(err.Error())
	}
	want := identity.ExpectedAddresses(a.m, a.node)
	what := "an address by DHCP"
	switch {
	case len(want) > 0:
		what = fmt.Sprintf("the node's addresses %v", want)
	case len(identity.Conflicts(a.m)) > 0:
		return // Every address that it could have is another machine's.
	}
	err = wait.Until(ctx, wait.Condition{
		For: what, Bound: bound, Changes: changed, Patience: 5 * time.Second,
		Say: func(text string) {
			a.m.Say(text)
			if err := a.report(ctx); err != nil {
				a.m.Say(err.Error())
			}
		},
		Met: func() bool { return haveAddresses(want) },
	})
	if err != nil {
		a.m.Say(err.Error())
	}
}

// haveAddresses tells whether the machine has all of these addresses, and any at all.
func haveAddresses(want []netip.Addr) bool {
	have, err := nic.Addresses()
	if err != nil {
		return true
	}
	for _, w := range want {
		if !slices.Contains(have, w) {
			return false
		}
	}
	return len(have) > 0
}

// waits tells whether roles have to wait for the node's addresses or for its clock.
func (a *agent) waits() bool {
	return a.clock.last.Wrong || !haveAddresses(identity.ExpectedAddresses(a.m, a.node))
}

// follow says how the machine is, on each change, until it is stopped.
func (a *agent) follow(ctx context.Context) error {
	settled := func() bool { return a.line.System == "running" || a.line.System == "degraded" }
	changes := watch.Changes(ctx, a.bus.Conn(), a.m.Say, settled)
	links, err := nic.Changes(ctx.Done())
	if err != nil {
		a.m.Say(err.Error())
	}
	clockTick, probeTick := time.NewTicker(clockEvery), time.NewTicker(probeEvery)
	defer clockTick.Stop()
	defer probeTick.Stop()
	coldplugTimer, lateTimer := time.NewTimer(coldplugBound), time.NewTimer(lateBound)
	defer coldplugTimer.Stop()
	defer lateTimer.Stop()
	late := sync.OnceFunc(func() { a.startLate(ctx) })
	coldplug := sync.OnceFunc(func() {
		if err := a.bus.Start(ctx, "spore-coldplug.service"); err != nil {
			a.m.Say(err.Error())
		}
	})
	bundles := wait.Dir(ctx, a.m.Root.At(paths.Bundle))
	if err := os.MkdirAll(a.m.Root.At(paths.Waiting), 0o755); err != nil {
		a.m.Say(err.Error())
	}
	waiting := wait.Dir(ctx, a.m.Root.At(paths.Waiting))
	a.makeShells()
	shells := wait.Dir(ctx, a.m.Root.At(paths.Shells))
	if err := a.rebundle(ctx); err != nil { // What came before the watch was there.
		a.m.Say(err.Error())
	}
	a.renew(ctx)
	a.rememberClock()
	a.resolvers()
	a.watchKeys(ctx)
	showProblem := sync.OnceFunc(func() { a.showPages(ctx, console.MonitorUnit) })
	for {
		if err := a.report(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if a.rolesUp {
			late()
		}
		if settled() {
			coldplug()
		}
		if len(a.line.Failed) > 0 || a.line.Problem != "" {
			showProblem()
		}
		select {
		case <-ctx.Done():
			a.rememberClock()
			return nil
		case <-lateTimer.C:
			late()
		case <-coldplugTimer.C:
			coldplug()
		case <-changes:
		case <-links:
			time.Sleep(watch.Quiet) // Several changes come together.
			a.resolvers()
		case <-waiting:
			time.Sleep(watch.Quiet)
		case <-shells:
		case <-bundles:
			if err := a.rebundle(ctx); err != nil {
				a.m.Say(err.Error())
			}
			a.renew(ctx)
		case <-probeTick.C:
			a.probeAgain(ctx)
			a.lookForUpdates(ctx)
		case <-clockTick.C:
			a.rememberClock()
		}
	}
}

// report takes the picture and, when it says something new, prints the line.
func (a *agent) report(ctx context.Context) error {
	l := &a.line
	l.Disks = disks.All(a.m)
	l.Configuration, l.Updates = staged.Now(a.m), a.looked()
	a.shells()
	p, err := watch.Take(ctx, a.bus.Conn(), slices.Concat(a.units, disks.OSDUnits(l.Disks)))
	if err != nil {
		return err
	}
	a.rolesUp = up(p, a.roleUnits)
	if a.complete = a.complete || up(p, a.every); !a.complete && p.System == "running" {
		p.System = "starting" // systemd knows nothing of what startLate has yet to start.
	}
	l.System, l.Failed, l.Services = p.System, append([]string{}, p.Failed...), p.Units
	l.Conflicts, l.Waiting = identity.Conflicts(a.m), a.m.Waiting()
	l.Clock, l.Versions = a.clockState(ctx), a.versions()
	l.Watchdog = watchdog.Read(os.DirFS(a.m.Root.At("/")))
	if l.Firmware != nil && l.Firmware.PCR11 == "" {
		// The TPM's driver may come after the agent has begun. What it holds stays the same from then on.
		l.Firmware = firmware.Read(os.DirFS(a.m.Root.At("/")))
	}
	l.Addresses = nil
	if have, err := nic.Addresses(); err == nil {
		for _, h := range have {
			l.Addresses = append(l.Addresses, h.String())
		}
		if len(have) > 0 {
			a.step("network")
		}
	}
	if p.System == "running" || p.System == "degraded" {
		a.step("running")
	}
	own := a.m.Cost(0)
	for name, s := range status.Steps(a.m.Root) {
		l.Times[name] = s.At
		own.CPU += s.CPU
		own.Spawn += s.Spawn
	}
	l.CPU, l.Spawn = status.Milliseconds(own.CPU), status.Milliseconds(own.Spawn)
	if l.Same(a.last) {
		return nil
	}
	a.last = *l
	a.say(*l)
	return nil
}

// say puts the line where people and tests look for it.
func (a *agent) say(l status.Line) {
	text := l.String() + "\n"
	if _, err := atomicfile.Write(a.m.Root.At(paths.Status), []byte(text), 0o644); err != nil {
		a.m.Say(err.Error())
	}
	fmt.Print(text)
	console.Write(a.m.Root, console.Serial, text)
	console.Write(a.m.Root, console.Monitor, screen.Text(l))
}

// step notes the time of something that happens once a boot; the daemon may have been restarted since.
func (a *agent) step(name string) {
	if _, done := status.Steps(a.m.Root)[name]; done {
		return
	}
	if err := status.Record(a.m.Root, name, status.Step{At: status.SinceBoot()}); err != nil {
		a.m.Say(err.Error())
	}
}

// probeAgain probes addresses that another machine had, and uses those that became free.
func (a *agent) probeAgain(ctx context.Context) {
	if a.node == nil || len(identity.Conflicts(a.m)) == 0 {
		return
	}
	freed, err := identity.ProbeTaken(ctx, a.m, a.cluster, a.node)
	if err != nil {
		a.m.Say(err.Error())
	}
	if !freed {
		return
	}
	if err := a.bus.Reload(ctx, "systemd-networkd.service"); err != nil {
		a.m.Say(err.Error())
	}
}
