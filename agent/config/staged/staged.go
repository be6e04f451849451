// Package staged takes an update for the next start, from a file or from the spool of the node's API: it is looked
// at, written to the other slot (package slot), and taken at once where that can be (package running). It also tells
// which configuration runs and which is staged.
package staged

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/clock"
	"spore/agent/config/running"
	"spore/agent/detect"
	"spore/agent/firmware"
	"spore/agent/keydb"
	"spore/agent/loader"
	"spore/agent/node"
	"spore/agent/nvcounter"
	"spore/agent/paths"
	"spore/agent/quote"
	"spore/agent/slot"
	"spore/agent/state"
	"spore/agent/status"
	"spore/agent/trial"
	"spore/cluster/facts"
	"spore/services"
	"spore/services/kubernetes/applyset"
	"spore/storage/atomicfile"
	"spore/wire/update"
)

// File takes an update that `spore push --output` made, from a file.
func File(ctx context.Context, m *node.Machine, path string, o slot.Wish, out io.Writer) error {
	m.ReadBoot()
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := take(ctx, m, f, o)
	if r.Error != "" {
		return errors.New(r.Error)
	}
	if r.Lacks != nil && !r.DryRun {
		return fmt.Errorf("the file does not hold all that this node lacks (%d pieces of %d KiB): make it with "+
			"`spore push --output FILE --root`, or push by the network", r.Lacks.Count, r.Lacks.Bytes>>10)
	}
	fmt.Fprintln(out, r.Text())
	if r.Reboot {
		return m.Restart(ctx)
	}
	return nil
}

// Spool takes what lies in the spool, oldest first, and answers beside it.
func Spool(ctx context.Context, m *node.Machine) error {
	m.ReadBoot()
	spool := slot.Spool(m.Root.At(paths.Push))
	for {
		job, err := spool.Next()
		if err != nil || job == nil {
			return err
		}
		r := takeJob(ctx, m, job)
		if err := job.Answer(r); err != nil {
			return err
		}
		m.Say(fmt.Sprintf("pushed by %.64q: %s", job.Wish.By, r.Text()))
		if r.Reboot {
			// The answer has to be on its way before the network ends.
			time.Sleep(2 * time.Second)
			return m.Restart(ctx)
		}
	}
}

// takeJob copies an update to where the API's user cannot change it any more while it is looked at.
func takeJob(ctx context.Context, m *node.Machine, job *slot.Job) update.Answer {
	fail := func(err error) update.Answer { return update.Answer{Error: err.Error()} }
	defer job.Discard()
	if job.Wish.Back {
		return back(ctx, m, job.Wish)
	}
	if _, err := stateForPush(m); err != nil {
		return fail(err)
	}
	f, err := os.OpenFile(m.Root.At(paths.PushCopy), os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fail(fmt.Errorf("keep the update: %w", err))
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := job.CopyTo(f, update.MaxMessage); err != nil {
		return fail(fmt.Errorf("keep the update: %w", err))
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fail(fmt.Errorf("read the update: %w", err))
	}
	return take(ctx, m, f, job.Wish)
}

// stateForPush reads what /var is.
func stateForPush(m *node.Machine) (state.Info, error) {
	var info state.Info
	if err := atomicfile.ReadJSON(m.Root.At(paths.State), &info); err != nil {
		return info, fmt.Errorf("it is not known what /var is: %w", err)
	}
	if info.Kind != state.Partition {
		return info, slot.Refusal{Reason: "this node has no state partition and would forget what was pushed to " +
			"it: " + info.Warning}
	}
	return info, nil
}

// take looks at an update and puts it on the disk.
func take(ctx context.Context, m *node.Machine, f *os.File, o slot.Wish) update.Answer {
	r, err := stage(ctx, m, f, o)
	if err != nil {
		return update.Answer{Error: err.Error()}
	}
	return r
}

func stage(ctx context.Context, m *node.Machine, f *os.File, o slot.Wish) (update.Answer, error) {
	_, c, n, err := m.Node()
	if err != nil {
		return update.Answer{}, err
	}
	if n == nil {
		return update.Answer{}, fmt.Errorf("%w, and takes no update", detect.ErrUnmatched)
	}
	msg, err := slot.OpenMessage(f, c.SigningKeys)
	if err != nil {
		return update.Answer{}, fmt.Errorf("the update is refused: %w; nothing was changed", err)
	}
	h := msg.Head
	if h.Force {
		m.Say(h.String())
	}
	sm, err := machine(ctx, m, c, n)
	if err != nil {
		return update.Answer{}, err
	}
	endCounting := countBy(m, &sm)
	r, err := slot.Stage(sm, msg, o)
	endCounting()
	var refused slot.Refusal
	if errors.As(err, &refused) {
		err = fmt.Errorf("the update is refused: %w; nothing was changed", err)
	}
	if err != nil {
		return update.Answer{}, err
	}
	a := update.Answer{
		Node: n.Name, Serial: h.Serial, ClusterHash: h.ClusterHash, Lacks: r.Lacks, Change: r.Change,
		Entry: r.Entry, Unchanged: r.Unchanged, Note: r.Note, DryRun: o.DryRun,
	}
	if o.DryRun && r.Change != nil {
		if err := tellManifests(m, n, r.Change); err != nil {
			return update.Answer{}, err
		}
	}
	if o.DryRun || r.Lacks != nil {
		return a, nil
	}
	// Of a new system and a new boot loader one is tried at a time. A loader that cannot be renewed holds no update back.
	if err := loader.Step(ctx, m); err != nil {
		m.Say("the boot loader: " + err.Error())
	}
	switch {
	case r.Unchanged:
		return a, running.End(ctx, m, n)
	case o.Reboot:
		a.Reboot = true
		return a, nil
	case o.Later:
		a.Waits = []string{"updates: what the node fetches by itself is not taken while it runs"}
		return a, nil
	case r.Device == "":
		a.Waits = []string{"its root: it is another one than what runs"}
		return a, nil
	}
	p, err := running.Take(ctx, m, r.Device, h.ClusterHash, n)
	if err != nil {
		return a, takeBack(m, sm, r.Entry, err)
	}
	a.Waits = p.Reboot
	if len(p.Reboot) == 0 {
		a.Live, a.Restarted = true, p.Units
	}
	return a, nil
}

// tellManifests tells of the objects of manifests/ that run, and of those of them that stay, where this is a master.
func tellManifests(m *node.Machine, n *facts.Node, to *update.Change) error {
	if !slices.Contains(n.Roles, "control-plane") {
		return nil
	}
	objects, _, err := m.Part.Manifests()
	if err != nil {
		return err
	}
	state, err := applyset.Read(m.Root.At(applyset.File))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // It is not there until the API server answers.
		return err
	}
	to.Manifests, to.Kept, to.MoreKept = facts.Sums(objects), applyset.KeptOf(objects, state), state.MoreStay
	return nil
}

// takeBack takes what was staged off the ESP, so that the next start does not take it either.
func takeBack(m *node.Machine, sm slot.Machine, file string, why error) error {
	err := sm.Remove(file)
	return errors.Join(why, err, running.ChangeRecord(m, func(r *slot.Record) {
		r.State, r.Problem = slot.Failed, why.Error()
	}))
}

// machine is this machine for package slot.
func machine(ctx context.Context, m *node.Machine, c *facts.Cluster, n *facts.Node) (slot.Machine, error) {
	info, err := stateForPush(m)
	if err != nil {
		return slot.Machine{}, err
	}
	sm := slot.Machine{
		Boot: m.Boot, Cluster: c.ID, Node: n.Name, State: info, BootID: m.BootID(), Now: m.Now, Say: m.Say,
		Record: m.Root.At(paths.Update), Work: m.Root.At(paths.UpdateWork),
		Loader: m.Root.At(paths.Loader), Vars: m.Root.At(paths.EFIVars),
		Open: func(path string, whole bool) (slot.Device, error) {
			return slot.OpenDevice(ctx, m.Root, path, whole, m.Say)
		},
	}
	list := services.Of(c)
	sm.Versions = versions(m, list)
	sm.Unsafe = func(newer, older map[string]string) string { return unsafeBack(list, newer, older, n.Roles) }
	sm.Look = func(root, tree, rootHash string) (refused, said []string) { return lookAt(m, root, tree, rootHash) }
	// Without a state the clock is not known to be kept.
	if s, err := clock.ReadState(m.Root.At(paths.TimeState)); err == nil {
		sm.Synchronized = s.Synchronized
	}
	if fw := firmware.Read(os.DirFS(m.Root.At("/"))); fw != nil && fw.Checks() {
		sm.SecureBoot = true
		if sm.Keys, err = keydb.Read(m.Root.At(paths.EFIVars)); err != nil {
			return slot.Machine{}, err
		}
		if sm.Keys.Unread != nil {
			m.Say(sm.Keys.Unread.Error() + "; an update is held to the signer of what runs alone")
		}
	}
	var l status.Line
	if err := atomicfile.ReadJSON(m.Root.At(paths.Status), &l); err == nil {
		sm.Down = trial.NotUp(l)
	}
	disks, err := m.Disks()
	if err != nil {
		return slot.Machine{}, err
	}
	sm.Partition = func(number int) string {
		for _, d := range disks {
			if d.Path() == m.Boot.BootDisk.Path {
				return d.Partition(number)
			}
		}
		return ""
	}
	return sm, nil
}

// countBy gives package slot the counter of the machine's TPM, until the function that it returns is called.
func countBy(m *node.Machine, to *slot.Machine) (end func()) {
	t, err := quote.Open(m.Root.At("/"))
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}
	}
	if err != nil {
		to.NoCounter = err
		return func() {}
	}
	n, err := nvcounter.Open(t)
	if err != nil {
		to.NoCounter = err
	} else {
		to.Counter = n
	}
	return func() { t.Close() }
}
