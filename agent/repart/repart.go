// Package repart lets systemd-repart (repart.d(5)) make or grow partitions on one disk, so that a power cut at any point
// leaves a disk that the next run takes up again.
package repart

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/wait"
	"spore/storage/atomicfile"
	"spore/storage/blank"
	"spore/storage/disk"
	"spore/storage/gpt"
)

// NodeBound is the longest wait for the device node of a new partition.
const NodeBound = 30 * time.Second

// Options is one run of systemd-repart.
type Options struct {
	Disk disk.Disk
	// Files are the definitions by name, Definitions the directory that they are written to.
	Files       map[string]string
	Definitions string
	// Temp is a directory for temporary files.
	Temp string
	// Env is what systemd-repart has in its environment besides, such as options for mkfs(8).
	Env []string
	// Seed decides about what has no UUID of its own.
	Seed gpt.GUID
	// FromScratch, when not empty, says what is made on a disk that is proved empty, or was when that began: the disk
	// carries it as a marker until it is done.
	FromScratch string
	// Finish, when not nil, does what else has to be done before the disk loses its marker.
	Finish func(ctx context.Context) error
	// Exec runs a program and returns its error with what it printed.
	Exec func(ctx context.Context, env []string, name string, args ...string) error
	// Say reports progress.
	Say func(string)
}

// Run runs it.
func Run(ctx context.Context, o Options) error {
	if err := WriteDefinitions(o.Definitions, o.Files); err != nil {
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
	if o.FromScratch != "" {
		if err := OnDisk(o.Disk, func(w blank.Writer) error { return blank.Mark(w, o.FromScratch) }); err != nil {
			return fmt.Errorf("mark the disk: %w", err)
		}
		empty = "--empty=allow"
	}
	// No discard: the marker lies in what repart takes for free space.
	args := []string{"--dry-run=no", "--no-pager", "--discard=no", empty, "--definitions=" + o.Definitions, "--seed=" + o.Seed.String(), o.Disk.Path()}
	err := o.Exec(ctx, append([]string{"TMPDIR=" + o.Temp}, o.Env...), "systemd-repart", args...)
	if err != nil {
		return err
	}
	if o.Finish != nil {
		if err := o.Finish(ctx); err != nil {
			return err
		}
	}
	if o.FromScratch != "" {
		if err := OnDisk(o.Disk, blank.Unmark); err != nil {
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

// Partition is the definition of one partition.
func Partition(lines ...string) string { return "[Partition]\n" + strings.Join(lines, "\n") + "\n" }

// OnDisk calls fn with the whole disk open for writing.
func OnDisk(d disk.Disk, fn func(blank.Writer) error) error {
	f, err := os.OpenFile(d.Path(), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return fn(f)
}

// Quiet calls fn while udev leaves the disk alone (systemd.io, "Locking Block Device Access"). When repart has written a table
// and closed the disk, udev has the kernel read the table again, which takes the partitions away for a moment.
func Quiet(d disk.Disk, fn func() error) error {
	f, err := os.Open(d.Path())
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", d.Path(), err)
	}
	return fn()
}

// Node waits for the device node of the partition; the table is read again, since repart may have just written it.
func Node(ctx context.Context, d disk.Disk, want gpt.GUID) (string, error) {
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
		For: node + ", the partition " + want.String(), Bound: NodeBound, Every: 100 * time.Millisecond, Changes: wait.Dir(ctx, "/dev"),
		Met: func() bool { _, err := os.Stat(node); return err == nil },
	})
}
