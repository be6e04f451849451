package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/atomicfile"
	"spore/agent/dbx"
	"spore/agent/firmware"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/slot"
	"spore/agent/state"
	"spore/agent/status"
	"spore/agent/trial"
	"spore/agent/wait"
	"spore/cluster/facts"
	"spore/storage/flash"
	"spore/wire/update"
)

// espBound is the longest wait for the ESP while another unit takes the node's bundle off it.
const espBound = 30 * time.Second

// stageCommand takes a configuration that `spore push --output` made, from a file.
func stageCommand(ctx context.Context, m *node.Machine, path string, o slot.Wish, out io.Writer) error {
	m.ReadBoot()
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := stageFile(ctx, m, f, o)
	if r.Error != "" {
		return errors.New(r.Error)
	}
	fmt.Fprintln(out, r.Text())
	if o.Reboot && !r.Unchanged {
		return m.Restart(ctx)
	}
	return nil
}

// stageSpool takes what lies in the spool, oldest first, and answers beside it.
func stageSpool(ctx context.Context, m *node.Machine) error {
	m.ReadBoot()
	spool := slot.Spool(m.Root.At(paths.Push))
	for {
		job, err := spool.Next()
		if err != nil || job == nil {
			return err
		}
		r := stageJob(ctx, m, job)
		if err := job.Answer(r); err != nil {
			return err
		}
		m.Say(fmt.Sprintf("pushed by %.64q: %s", job.Wish.By, r.Text()))
		if job.Wish.Reboot && r.Error == "" && !r.Unchanged {
			// The answer has to be on its way before the network ends.
			time.Sleep(2 * time.Second)
			return m.Restart(ctx)
		}
	}
}

// stageJob copies an update to where the API's user cannot change it any more while it is looked at.
func stageJob(ctx context.Context, m *node.Machine, job *slot.Job) slot.Answer {
	fail := func(err error) slot.Answer { return slot.Answer{Error: err.Error()} }
	defer job.Discard()
	if _, err := stateForPush(m); err != nil {
		return fail(err)
	}
	f, err := os.OpenFile(m.Root.At(paths.PushCopy), os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fail(fmt.Errorf("keep the update: %w", err))
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := job.CopyTo(f, update.MaxSize); err != nil {
		return fail(fmt.Errorf("keep the update: %w", err))
	}
	return stageFile(ctx, m, f, job.Wish)
}

// stateForPush reads what /var is.
func stateForPush(m *node.Machine) (state.Info, error) {
	var info state.Info
	if err := atomicfile.ReadJSON(m.Root.At(paths.State), &info); err != nil {
		return info, fmt.Errorf("it is not known what /var is: %w", err)
	}
	if info.Kind != state.Partition {
		return info, slot.Refusal{Reason: "this node has no state partition and would forget what was pushed to it: " + info.Warning}
	}
	return info, nil
}

// stageFile looks at an update and puts it on the disk.
func stageFile(ctx context.Context, m *node.Machine, f *os.File, o slot.Wish) slot.Answer {
	r, err := stageUpdate(ctx, m, f, o)
	if err != nil {
		return slot.Answer{Error: err.Error()}
	}
	return r
}

func stageUpdate(ctx context.Context, m *node.Machine, f *os.File, o slot.Wish) (slot.Answer, error) {
	_, c, n, err := m.Node()
	if err != nil {
		return slot.Answer{}, err
	}
	if n == nil {
		return slot.Answer{}, errors.New("this machine is no node, and takes no configuration")
	}
	info, err := f.Stat()
	if err != nil {
		return slot.Answer{}, err
	}
	src, err := slot.OpenSource(f, info.Size(), c.SigningKeys)
	if err != nil {
		return slot.Answer{}, fmt.Errorf("the update is refused: %w; nothing was changed", err)
	}
	if src.Head.Force {
		m.Say(src.Head.String())
	}
	sm, err := stageMachine(ctx, m, c, n)
	if err != nil {
		return slot.Answer{}, err
	}
	r, err := slot.Stage(sm, src)
	var refused slot.Refusal
	if errors.As(err, &refused) {
		err = fmt.Errorf("the update is refused: %w; nothing was changed", err)
	}
	if err != nil {
		return slot.Answer{}, err
	}
	a := slot.Answer{Node: n.Name, Serial: src.Head.Serial, ClusterHash: src.Head.ClusterHash, Result: r, Reboot: o.Reboot && !r.Unchanged}
	switch {
	case r.Unchanged:
		return a, endLive(ctx, m, n)
	case o.Reboot:
		return a, nil
	}
	p, err := takeLive(ctx, m, r.Device, src.Head.ClusterHash, n)
	if err != nil {
		return a, takeBack(m, sm, r.Entry, err)
	}
	a.Waits = p.Reboot
	if len(p.Reboot) == 0 {
		a.Live, a.Restarted = true, p.Units
	}
	return a, nil
}

// takeBack takes what was staged off the ESP, so that the next start does not take it either.
func takeBack(m *node.Machine, sm slot.Machine, file string, why error) error {
	err := sm.Remove(file)
	return errors.Join(why, err, changeRecord(m, func(r *slot.Record) { r.State, r.Problem = slot.Failed, why.Error() }))
}

// stageMachine is this machine for package slot.
func stageMachine(ctx context.Context, m *node.Machine, c *facts.Cluster, n *facts.Node) (slot.Machine, error) {
	info, err := stateForPush(m)
	if err != nil {
		return slot.Machine{}, err
	}
	sm := slot.Machine{
		Boot: m.Boot, Cluster: c.ID, Node: n.Name, State: info, Record: m.Root.At(paths.Update), BootID: m.BootID(), Now: m.Now, Say: m.Say,
		Open: func(path string, whole bool) (slot.Device, error) { return openDevice(ctx, m, path, whole) },
	}
	if fw := firmware.Read(os.DirFS(m.Root.At("/"))); fw != nil {
		sm.SecureBoot = fw.SecureBoot
		if sm.Revoked, err = dbx.Revoked(m.Root.At("/sys/firmware/efi/efivars")); err != nil {
			return slot.Machine{}, err
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

// openDevice opens a disk of which partitions are in use, or a partition for this process alone. The ESP may be mounted for a
// moment by the unit that takes the bundle.
func openDevice(ctx context.Context, m *node.Machine, path string, whole bool) (slot.Device, error) {
	if whole {
		return flash.OpenShared(m.Root.At(path))
	}
	var d *flash.File
	var openErr error
	err := wait.Until(ctx, wait.Condition{For: path + " to be free", Bound: espBound, Every: time.Second, Say: m.Say, Met: func() bool {
		d, openErr = flash.Open(m.Root.At(path))
		return !errors.Is(openErr, unix.EBUSY)
	}})
	if openErr != nil {
		return nil, openErr
	}
	return d, err
}

// configuration is what the status line says of the configuration that runs; nil where stage1 said nothing.
func configuration(m *node.Machine) *slot.Info {
	r, err := slot.ReadRecord(m.Root.At(paths.Update))
	i := slot.InfoOf(r, m.Boot.RootHash, m.Boot.ClusterHash, m.BootID(), counted(m))
	if i != nil && err != nil {
		i.Problem = err.Error()
	}
	return i
}

// counted tells whether the boot loader counted this start (systemd-boot(7), LoaderBootCountPath).
func counted(m *node.Machine) bool {
	_, err := os.Stat(m.Root.At(efiVars + "/LoaderBootCountPath-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"))
	return err == nil
}

// configurationText says which configuration runs.
func configurationText(i slot.Info) string {
	out := fmt.Sprintf("%.16s…", i.ClusterHash)
	if i.Serial > 0 {
		out = fmt.Sprintf("%d, %s", i.Serial, out)
	}
	if i.Trial {
		out += ", on trial"
	}
	if i.Staged != "" {
		when := "at the next start"
		if i.Live {
			when = "in effect already, and at the next start"
		}
		out += fmt.Sprintf("; %.16s… %s", i.Staged, when)
	}
	return out
}

// statusLine reads the last status line.
func statusLine(m *node.Machine) (status.Line, error) {
	var l status.Line
	data, err := atomicfile.ReadLimited(m.Root.At(paths.Status), 1<<20)
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err != nil {
		return l, fmt.Errorf("read %s: %w", filepath.Base(paths.Status), err)
	}
	return l, nil
}
