// Package running has the running node take a configuration that was just written to a slot, where all of what differs
// can be taken at once (package effect), and takes it back where programs do not come up with it.
package running

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/activate"
	"spore/agent/bootinfo"
	"spore/agent/clusterpart"
	"spore/agent/config/effect"
	"spore/agent/environment"
	"spore/agent/identity"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/slot"
	"spore/agent/timesync"
	"spore/agent/wait"
	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/pki"
	"spore/services"
	"spore/services/kubernetes"
	"spore/storage/atomicfile"
)

const (
	// bound is how long programs may take to come up again with other settings, and liveSettle how long they have to
	// stay up; both are longer on slow machines.
	bound      = time.Minute
	settleTime = 5 * time.Second
	// maxFile bounds a file of a cluster part in bytes.
	maxFile = 64 << 20
)

// Take has the running node take a configuration that was just written to a slot, where all of what differs can be
// taken at once. Otherwise nothing changes, and the plan says what has to wait and why. What does not come up again is
// taken back.
func Take(ctx context.Context, m *node.Machine, device, clusterHash string, n *facts.Node) (effect.Plan, error) {
	dir := m.Root.At(filepath.Join(paths.LiveParts, clusterHash))
	if err := copyPart(device, clusterHash, dir); err != nil {
		return effect.Plan{}, fmt.Errorf("read the cluster part: %w", err)
	}
	p, err := plan(m, m.Part, clusterpart.Part{Dir: dir, Slow: m.Part.Slow}, n.Name)
	if err != nil || len(p.Reboot) > 0 {
		return p, errors.Join(err, os.RemoveAll(dir))
	}
	before, err := shown(m)
	if err != nil {
		return p, err
	}
	if err := show(m, dir); err != nil {
		return p, err
	}
	restarted, err := settle(ctx, m, p.Units)
	if err != nil {
		m.Say("taking the configuration back: " + err.Error())
		back := show(m, before)
		_, again := settle(ctx, m, p.Units)
		if back = errors.Join(back, again); back != nil {
			m.Say(back.Error())
		}
		return p, fmt.Errorf("it was taken back: %w", err)
	}
	p.Units = restarted
	return p, ChangeRecord(m, func(r *slot.Record) { r.Live = true })
}

// End goes back to the configuration that the machine was started with.
func End(ctx context.Context, m *node.Machine, n *facts.Node) error {
	before, err := shown(m)
	if err != nil || before == "" {
		return err
	}
	old, err := inputOf(m.Part, n.Name)
	if err != nil {
		return err
	}
	if err := show(m, ""); err != nil {
		return err
	}
	fresh, err := inputOf(m.Part, n.Name)
	if err != nil {
		return err
	}
	p, err := effect.Compare(old, fresh)
	if err != nil {
		return err
	}
	_, err = settle(ctx, m, p.Units)
	return err
}

// plan compares what two cluster parts say to a node.
func plan(m *node.Machine, old, fresh clusterpart.Part, name string) (effect.Plan, error) {
	was, err := inputOf(old, name)
	if err != nil {
		return effect.Plan{}, err
	}
	is, err := inputOf(fresh, name)
	if err != nil {
		return effect.Plan{}, err
	}
	if trusts(m.Root.At(paths.Trust), is.Keys) {
		was.Keys = is.Keys
	}
	p, err := effect.Compare(was, is)
	if err != nil {
		return p, err
	}
	have := activate.HaveIn(m.Root.At(paths.Secrets))
	for program, refs := range activate.Secrets(is.Cluster, is.Node) {
		row, _ := services.Of(is.Cluster).LookupProgram(program)
		for _, ref := range refs {
			if slices.Contains(p.Units, row.Unit) && !have(program, ref) {
				p.Reboot = append(p.Reboot, fmt.Sprintf("%s: the node's bundle does not hold the secret %s; send it a newer one first (spore bundle --make)", row.Unit, ref))
			}
		}
	}
	return p, nil
}

// trusts tells whether the node trusts already whom a cluster part names, by its bundle: after spore pki rotate-ca
// --live, its image names the authorities before.
func trusts(dir string, keys map[string][]byte) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	named := len(keys)
	if _, is := keys[pki.RevisionFile]; is {
		named--
	}
	for _, e := range entries {
		data, err := atomicfile.ReadLimited(filepath.Join(dir, e.Name()), maxFile)
		if key, is := keys[e.Name()]; err != nil || !is || !bytes.Equal(data, key) {
			return false
		}
	}
	return named > 0 && named == len(entries)
}

func inputOf(p clusterpart.Part, name string) (in effect.Input, err error) {
	if in.Cluster, err = p.Cluster(); err != nil {
		return in, err
	}
	if in.Node, err = p.Node(name); err != nil {
		return in, err
	}
	if in.Hosts, err = p.Hosts(); err != nil {
		return in, err
	}
	if in.Manifests, err = manifestsOf(p); err != nil {
		return in, err
	}
	in.Keys = map[string][]byte{}
	entries, err := os.ReadDir(filepath.Join(p.Dir, "pki"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return in, err
	}
	for _, e := range entries {
		if in.Keys[e.Name()], err = atomicfile.ReadLimited(filepath.Join(p.Dir, "pki", e.Name()), maxFile); err != nil {
			return in, err
		}
	}
	return in, nil
}

// manifestsOf are the files of manifests/ by a hash of what they hold.
func manifestsOf(p clusterpart.Part) (map[string]string, error) {
	objects, _, err := p.Manifests()
	if err != nil {
		return nil, err
	}
	hashes := map[string]hash.Hash{}
	for _, o := range objects {
		if hashes[o.File] == nil {
			hashes[o.File] = sha256.New()
		}
		if err := json.NewEncoder(hashes[o.File]).Encode(o.Object); err != nil {
			return nil, fmt.Errorf("internal error: compare %s: %w", o.File, err)
		}
	}
	out := map[string]string{}
	for name, h := range hashes {
		out[name] = hex.EncodeToString(h.Sum(nil))
	}
	return out, nil
}

// shown is the directory of the configuration that is shown instead of the one that the machine was started with; empty
// when none is.
func shown(m *node.Machine) (string, error) {
	dir, err := os.Readlink(m.Root.At(paths.LiveNow))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return dir, err
}

// show has all programs see the configuration in a directory at the place of the cluster part; the one that the machine
// was started with when it is empty.
func show(m *node.Machine, dir string) error {
	before, err := shown(m)
	if err != nil {
		return err
	}
	at, now := m.Root.At(bootinfo.ClusterDir), m.Root.At(paths.LiveNow)
	if before != "" {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("take the configuration away from %s: %w", at, err)
		}
		if err := os.Remove(now); err != nil {
			return err
		}
	}
	if dir == "" {
		return nil
	}
	if err := unix.Mount(dir, at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("show the configuration in %s: %w", at, err)
	}
	const flags = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NODEV | unix.MS_NOSUID | unix.MS_NOEXEC
	if err := unix.Mount("", at, "", flags, ""); err != nil {
		return errors.Join(fmt.Errorf("show the configuration in %s: %w", at, err), unix.Unmount(at, unix.MNT_DETACH))
	}
	return os.Symlink(dir, now)
}

// settle derives what follows from the configuration that is shown, restarts the units and the agent's daemon, and
// waits until the units are up. It returns those that ran before, or were started: what something else starts at its
// time, and that did not run, is not among them.
func settle(ctx context.Context, m *node.Machine, units []string) (restarted []string, err error) {
	id, err := m.Identity()
	if err != nil {
		return nil, err
	}
	if err := identity.Derive(m, id); err != nil {
		return nil, err
	}
	_, c, n, err := m.Node()
	if err != nil {
		return nil, err
	}
	if err := environment.Write(m.Root.At(paths.Environment), c, n, node.Memory()); err != nil {
		return nil, err
	}
	units = present(units, m.Root.At(timesync.ChronySources))
	bus, err := activate.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer bus.Close()
	triggered := triggeredOf(services.Of(c))
	for _, unit := range units {
		if !slices.Contains(triggered, unit) || !idle(ctx, bus.Conn(), unit) {
			restarted = append(restarted, unit)
		}
	}
	if err := restart(ctx, bus, units, triggered); err != nil {
		return nil, err
	}
	slow := time.Duration(kubernetes.Of(c.Services).Slow())
	down, since := units, time.Time{}
	err = wait.Until(ctx, wait.Condition{For: "programs with other settings", Bound: bound * slow, Every: 250 * time.Millisecond, Met: func() bool {
		down = nil
		for _, unit := range units {
			if !up(ctx, bus.Conn(), unit, slices.Contains(triggered, unit)) {
				down = append(down, unit)
			}
		}
		if len(down) > 0 {
			since = time.Time{}
			return false
		}
		if since.IsZero() {
			since = time.Now()
		}
		return len(units) == 0 || time.Since(since) >= settleTime*slow
	}})
	if err != nil {
		return nil, fmt.Errorf("%s did not come up: %w", strings.Join(down, ", "), err)
	}
	// Its line is made of what it read when it began.
	return restarted, bus.Restart(ctx, "spore-agent.service")
}

// triggeredOf are the services of the configuration's own roles that a timer, socket or path starts.
func triggeredOf(l *services.List) []string {
	var out []string
	for _, name := range l.OwnNames() {
		own, _ := l.Own(name)
		if d, ok := own.(*role.Definition); ok {
			out = append(out, d.Triggered()...)
		}
	}
	return out
}

// restarter restarts units; an *activate.Bus is one.
type restarter interface {
	Restart(ctx context.Context, unit string) error
	TryRestart(ctx context.Context, unit string) error
}

// restart has the units read what is new. What something else starts at its time, such as a backup, does not start now:
// its files are made when it does.
func restart(ctx context.Context, r restarter, units, triggered []string) error {
	for _, unit := range units {
		do := r.Restart
		if slices.Contains(triggered, unit) {
			do = r.TryRestart
		}
		if err := do(ctx, unit); err != nil {
			return err
		}
	}
	return nil
}

// systemd is what is asked; a *dbus.Conn is one.
type systemd interface {
	activate.Services
	GetUnitPropertiesContext(ctx context.Context, unit string) (map[string]any, error)
}

// idle tells whether a unit does not run.
func idle(ctx context.Context, s systemd, unit string) bool {
	p, err := s.GetUnitPropertiesContext(ctx, unit)
	return err == nil && (p["ActiveState"] == "inactive" || p["ActiveState"] == "failed")
}

// up tells whether a unit came up, or did its work and is done. What something else starts is up as well while it waits
// for that, and while it does its work.
func up(ctx context.Context, s systemd, unit string, triggered bool) bool {
	p, err := s.GetUnitPropertiesContext(ctx, unit)
	if err != nil {
		return false
	}
	switch p["ActiveState"] {
	case "active":
		return true
	case "activating":
		return triggered && p["SubState"] != "auto-restart"
	case "inactive":
		return !activate.HasJob(p) && (triggered || activate.Done(ctx, s, unit))
	}
	return false
}

// present are the units of a plan as this image has them: another program may set the clock. sources is where
// timesync.ChronySources is.
func present(units []string, sources string) []string {
	out := slices.Clone(units)
	for i, unit := range out {
		if unit == timesync.Unit {
			out[i] = timesync.Keeper(sources)
		}
	}
	return out
}

// ChangeRecord changes the record of the last configuration, whichever runs.
func ChangeRecord(m *node.Machine, change func(*slot.Record)) error {
	r, err := slot.ReadRecord(m.Root.At(paths.Update))
	if err != nil {
		return err
	}
	change(&r)
	return r.Write(m.Root.At(paths.Update))
}
