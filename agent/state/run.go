package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"spore/agent/atomicfile"
	"spore/agent/disk"
	"spore/agent/stage1/gpt"
	"spore/agent/wait"
	"spore/cluster/spec"
)

// Bounds of the waits.
const (
	// DiskBound is for a named disk that is not there yet; a shelf of disks spins up for as long.
	DiskBound = 45 * time.Second
	// NodeBound is for the device node of a new partition.
	NodeBound = 30 * time.Second
)

// Options is what Run works with.
type Options struct {
	ClusterID, ClusterName, Node string
	Named                        *spec.DiskSelector
	// BootDisk is a kernel name such as vda.
	BootDisk string
	// List lists the disks.
	List func() ([]disk.Disk, error)
	// Definitions is the directory for repart's files, Temp one for its temporary files.
	Definitions, Temp string
	// Exec runs a program and returns its error with what it printed.
	Exec func(ctx context.Context, env []string, name string, args ...string) error
	// Say reports progress.
	Say func(string)
}

// Run makes or finds the node's state partition and checks it. It can be cut off at any point and run again. What comes
// back is never an error: a machine without state still says so and serves what needs none.
func Run(ctx context.Context, o Options) Info {
	info, err := run(ctx, o)
	if err != nil {
		return AsInfo(err)
	}
	return info
}

func run(ctx context.Context, o Options) (Info, error) {
	disks, err := o.disks(ctx)
	if err != nil {
		return Info{}, refuse("%v", err)
	}
	want := PartUUID(o.ClusterID, o.Node)
	p, err := Choose(Request{
		Want: want, Owner: fmt.Sprintf("node %s of cluster %s", o.Node, o.ClusterName), Named: o.Named, BootDisk: o.BootDisk, Disks: disks,
		Open: func(d disk.Disk) (Device, error) { return os.Open(d.Path()) },
	})
	if err != nil {
		return Info{}, err
	}
	if p.Repart {
		if err := repart(ctx, o, p, want); err != nil {
			// The partition may be there all the same, when only growing failed.
			if !p.Found {
				return Info{}, refuse("making the state partition on %s (serial %s): %v", p.Disk.Path(), p.Disk.Serial(), err)
			}
			o.Say("systemd-repart: " + err.Error())
			p.Warning = "growing the state partition failed: " + err.Error()
		}
	}
	device, err := deviceOf(ctx, p.Disk, want)
	if err != nil {
		return Info{}, refuse("%v", err)
	}
	if err := check(ctx, o, device); err != nil {
		return Info{}, refuse("the state partition %s (PARTUUID %s): %v; it was not changed. To delete it: spore-agent state reset %s %s", device, want, err, p.Disk.Path(), want)
	}
	return Info{Kind: Partition, Device: device, PartUUID: want.String(), Disk: p.Disk.Serial(), Warning: p.Warning}, nil
}

// disks lists the disks once the named one is there, or the wait for it has reached its bound.
func (o Options) disks(ctx context.Context) ([]disk.Disk, error) {
	var disks []disk.Disk
	var listErr error
	if o.Named == nil {
		return o.List()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := wait.Until(ctx, wait.Condition{
		For: fmt.Sprintf("the disk for state (%s%s%s)", o.Named.Serial, o.Named.WWN, o.Named.ByID), Bound: DiskBound, Say: o.Say,
		Changes: wait.Dir(ctx, "/dev", "/run/udev/data"),
		Met: func() bool {
			if disks, listErr = o.List(); listErr != nil {
				return true
			}
			_, err := disk.Select(disks, *o.Named)
			return err == nil || errors.Is(err, disk.ErrAmbiguous)
		},
	})
	if err != nil {
		o.Say(err.Error()) // Choose says it again, with the disks that there are.
	}
	return disks, listErr
}

// repart runs systemd-repart with the plan's definitions.
func repart(ctx context.Context, o Options, p Plan, want gpt.GUID) error {
	if err := WriteDefinitions(o.Definitions, p.Definitions); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Temp, 0o700); err != nil {
		return err
	}
	// repart formats through a loop device; its module is not loaded by opening /dev/loop-control where udev is small.
	if _, err := os.Stat("/sys/module/loop"); err != nil {
		if err := o.Exec(ctx, nil, "modprobe", "loop"); err != nil {
			o.Say("modprobe loop: " + err.Error())
		}
	}
	empty := "--empty=refuse"
	if p.FromScratch {
		if err := onDisk(p.Disk, func(w Writer) error { return writeMarker(w, want) }); err != nil {
			return fmt.Errorf("mark the disk: %w", err)
		}
		empty = "--empty=allow"
	}
	o.Say(fmt.Sprintf("making the state partition on %s (serial %s)", p.Disk.Path(), p.Disk.Serial()))
	// No discard: the marker lies in what repart takes for free space.
	err := o.Exec(ctx, []string{"TMPDIR=" + o.Temp}, "systemd-repart", "--dry-run=no", "--no-pager", "--discard=no", empty,
		"--definitions="+o.Definitions, "--seed="+want.String(), p.Disk.Path())
	if err != nil {
		return err
	}
	if p.FromScratch {
		if err := onDisk(p.Disk, clearMarker); err != nil {
			return fmt.Errorf("clear the mark on the disk: %w", err)
		}
	}
	return nil
}

// WriteDefinitions makes dir hold exactly the files.
func WriteDefinitions(dir string, files map[string]string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("write repart definitions: %w", err)
	}
	for name, data := range files {
		if _, err := atomicfile.Write(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func onDisk(d disk.Disk, fn func(Writer) error) error {
	f, err := os.OpenFile(d.Path(), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return fn(f)
}

// deviceOf waits for the device node of the partition; the table is read again, since repart may have just written it.
func deviceOf(ctx context.Context, d disk.Disk, want gpt.GUID) (string, error) {
	f, err := os.Open(d.Path())
	if err != nil {
		return "", err
	}
	defer f.Close()
	table, err := gpt.Read(f, d.Size, d.SectorSize)
	if err != nil {
		return "", fmt.Errorf("read the partition table of %s: %w", d.Path(), err)
	}
	p, ok := table.ByGUID(want)
	if !ok {
		return "", fmt.Errorf("the disk %s (serial %s) has no partition with the PARTUUID %s after systemd-repart ran", d.Path(), d.Serial(), want)
	}
	node := d.Partition(p.Number)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return node, wait.Until(ctx, wait.Condition{
		For: node + ", the state partition", Bound: NodeBound, Every: 100 * time.Millisecond, Changes: wait.Dir(ctx, "/dev"),
		Met: func() bool { _, err := os.Stat(node); return err == nil },
	})
}

// check looks at the superblock and runs e2fsck where it says that something is wrong. A journal that only has to be
// replayed is left to the kernel.
func check(ctx context.Context, o Options, device string) error {
	f, err := os.Open(device)
	if err != nil {
		return err
	}
	sb, err := readSuperblock(f)
	f.Close()
	if err != nil {
		return err
	}
	if sb.clean {
		return nil
	}
	o.Say("checking the file system of " + device)
	err = o.Exec(ctx, nil, "e2fsck", "-p", device)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() < 4 { // e2fsck(8): 1 and 2 mean that everything was put right.
		return nil
	}
	if err != nil {
		return fmt.Errorf("e2fsck could not repair it: %w", err)
	}
	return nil
}
