package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/dbx"
	"spore/agent/firmware"
	"spore/agent/nvcounter"
	"spore/agent/paths"
	"spore/agent/quote"
	"spore/agent/slot"
	"spore/agent/state"
	"spore/agent/status"
	"spore/agent/trial"
	"spore/agent/wait"
	"spore/cluster/facts"
	"spore/storage/atomicfile"
	"spore/storage/flash"
	"spore/wire/update"
)

// espBound is the longest wait for the ESP while another unit takes the node's bundle off it.
const espBound = 30 * time.Second

const stageUsage = "usage: spore-agent stage-config [--reboot] FILE, or stage-config --spool"

// stageCommand takes a configuration that `spore push` made, from a file or from the API of the node.
func stageCommand(ctx context.Context, m *machine, args []string) error {
	flags := flag.NewFlagSet("stage-config", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var o slot.Wish
	flags.BoolVar(&o.Reboot, "reboot", false, "")
	spool := flags.Bool("spool", false, "")
	if err := flags.Parse(args); err != nil || *spool != (flags.NArg() == 0) || flags.NArg() > 1 {
		return usageError{stageUsage}
	}
	m.readBoot()
	if *spool {
		return m.stageSpool(ctx)
	}
	f, err := os.Open(flags.Arg(0))
	if err != nil {
		return err
	}
	defer f.Close()
	r := m.stageFile(ctx, f, o)
	if r.Error != "" {
		return errors.New(r.Error)
	}
	fmt.Println(r.Text())
	if o.Reboot && !r.Unchanged {
		return m.restart(ctx)
	}
	return nil
}

// stageSpool takes what lies in the spool, oldest first, and answers beside it.
func (m *machine) stageSpool(ctx context.Context) error {
	spool := slot.Spool(m.root.At(paths.Push))
	for {
		job, err := spool.Next()
		if err != nil || job == nil {
			return err
		}
		r := m.stageJob(ctx, job)
		if err := job.Answer(r); err != nil {
			return err
		}
		m.say(fmt.Sprintf("pushed by %.64q: %s", job.Wish.By, r.Text()))
		if job.Wish.Reboot && r.Error == "" && !r.Unchanged {
			// The answer has to be on its way before the network ends.
			time.Sleep(2 * time.Second)
			return m.restart(ctx)
		}
	}
}

// stageJob copies an update to where the API's user cannot change it any more while it is looked at.
func (m *machine) stageJob(ctx context.Context, job *slot.Job) slot.Answer {
	fail := func(err error) slot.Answer { return slot.Answer{Error: err.Error()} }
	defer job.Discard()
	if _, err := m.stateForPush(); err != nil {
		return fail(err)
	}
	f, err := os.OpenFile(m.root.At(paths.PushCopy), os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fail(fmt.Errorf("keep the update: %w", err))
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := job.CopyTo(f, update.MaxSize); err != nil {
		return fail(fmt.Errorf("keep the update: %w", err))
	}
	return m.stageFile(ctx, f, job.Wish)
}

// stateForPush reads what /var is.
func (m *machine) stateForPush() (state.Info, error) {
	var info state.Info
	if err := atomicfile.ReadJSON(m.root.At(paths.State), &info); err != nil {
		return info, fmt.Errorf("it is not known what /var is: %w", err)
	}
	if info.Kind != state.Partition {
		return info, slot.Refusal{Reason: "this node has no state partition and would forget what was pushed to it: " + info.Warning}
	}
	return info, nil
}

// stageFile looks at an update and puts it on the disk.
func (m *machine) stageFile(ctx context.Context, f *os.File, o slot.Wish) slot.Answer {
	r, err := m.stageUpdate(ctx, f, o)
	if err != nil {
		return slot.Answer{Error: err.Error()}
	}
	return r
}

func (m *machine) stageUpdate(ctx context.Context, f *os.File, o slot.Wish) (slot.Answer, error) {
	_, c, n, err := m.node()
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
		m.say(src.Head.String())
	}
	sm, err := m.stageMachine(ctx, c, n)
	if err != nil {
		return slot.Answer{}, err
	}
	endCounting := m.countBy(&sm)
	r, err := slot.Stage(sm, src)
	endCounting()
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
		return a, m.endLive(ctx, n)
	case o.Reboot:
		return a, nil
	}
	p, err := m.takeLive(ctx, r.Device, src.Head.ClusterHash, n)
	if err != nil {
		return a, m.takeBack(sm, r.Entry, err)
	}
	a.Waits = p.Reboot
	if len(p.Reboot) == 0 {
		a.Live, a.Restarted = true, p.Units
	}
	return a, nil
}

// takeBack takes what was staged off the ESP, so that the next start does not take it either.
func (m *machine) takeBack(sm slot.Machine, file string, why error) error {
	err := sm.Remove(file)
	return errors.Join(why, err, m.changeRecord(func(r *slot.Record) { r.State, r.Problem = slot.Failed, why.Error() }))
}

// countBy gives package slot the counter of the machine's TPM, until the function that it returns is called.
func (m *machine) countBy(to *slot.Machine) (end func()) {
	t, err := quote.Open(m.root.At("/"))
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

// stageMachine is this machine for package slot.
func (m *machine) stageMachine(ctx context.Context, c *facts.Cluster, n *facts.Node) (slot.Machine, error) {
	info, err := m.stateForPush()
	if err != nil {
		return slot.Machine{}, err
	}
	sm := slot.Machine{
		Boot: m.boot, Cluster: c.ID, Node: n.Name, State: info, Record: m.root.At(paths.Update), BootID: m.bootID(), Now: m.now, Say: m.say,
		Open: func(path string, whole bool) (slot.Device, error) { return m.openDevice(ctx, path, whole) },
	}
	if fw := firmware.Read(os.DirFS(m.root.At("/"))); fw != nil {
		sm.SecureBoot = fw.SecureBoot
		if sm.Revoked, err = dbx.Revoked(m.root.At("/sys/firmware/efi/efivars")); err != nil {
			return slot.Machine{}, err
		}
	}
	var l status.Line
	if err := atomicfile.ReadJSON(m.root.At(paths.Status), &l); err == nil {
		sm.Down = trial.NotUp(l)
	}
	disks, err := m.disks()
	if err != nil {
		return slot.Machine{}, err
	}
	sm.Partition = func(number int) string {
		for _, d := range disks {
			if d.Path() == m.boot.BootDisk.Path {
				return d.Partition(number)
			}
		}
		return ""
	}
	return sm, nil
}

// openDevice opens a disk of which partitions are in use, or a partition for this process alone. The ESP may be mounted for a
// moment by the unit that takes the bundle.
func (m *machine) openDevice(ctx context.Context, path string, whole bool) (slot.Device, error) {
	if whole {
		return flash.OpenShared(m.root.At(path))
	}
	var d *flash.File
	var openErr error
	err := wait.Until(ctx, wait.Condition{For: path + " to be free", Bound: espBound, Every: time.Second, Say: m.say, Met: func() bool {
		d, openErr = flash.Open(m.root.At(path))
		return !errors.Is(openErr, unix.EBUSY)
	}})
	if openErr != nil {
		return nil, openErr
	}
	return d, err
}

func (m *machine) bootID() string {
	data, err := os.ReadFile(m.root.At(paths.BootID))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// configuration is what the status line says of the configuration that runs; nil where stage1 said nothing.
func (m *machine) configuration() *slot.Info {
	r, err := slot.ReadRecord(m.root.At(paths.Update))
	i := slot.InfoOf(r, m.boot.RootHash, m.boot.ClusterHash, m.bootID(), m.counted())
	if i != nil && err != nil {
		i.Problem = err.Error()
	}
	return i
}

// counted tells whether the boot loader counted this start (systemd-boot(7), LoaderBootCountPath).
func (m *machine) counted() bool {
	_, err := os.Stat(m.root.At(efiVars + "/LoaderBootCountPath-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"))
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
func (m *machine) statusLine() (status.Line, error) {
	var l status.Line
	data, err := atomicfile.ReadLimited(m.root.At(paths.Status), 1<<20)
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err != nil {
		return l, fmt.Errorf("read %s: %w", filepath.Base(paths.Status), err)
	}
	return l, nil
}
