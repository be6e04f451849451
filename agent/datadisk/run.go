package datadisk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/ext4"
	"spore/agent/luks"
	"spore/agent/repart"
	"spore/agent/wait"
	"spore/cluster/spec"
	"spore/storage/atomicfile"
	"spore/storage/blank"
	"spore/storage/disk"
)

// diskBound is the longest wait for disks that are not there yet; a shelf of disks spins up for as long.
const diskBound = 45 * time.Second

// Attempts to mount a file system, and the pause between them.
const (
	mountTries = 3
	mountPause = time.Second
)

// Options is what Run works with.
type Options struct {
	ClusterID, ClusterName, Node string
	// Use is Kafka, OSD, Metrics, Logs or the name of a role of the configuration's own.
	Use string
	// Disks are all disks of the node.
	Disks []spec.Disk
	// BootDisk is a kernel name such as vda.
	BootDisk string
	// List lists the machine's disks.
	List func() ([]disk.Disk, error)
	// Definitions is the directory for repart's files, Temp one for its temporary files.
	Definitions, Temp string
	// UID and GID are those of the service: a partition without a file system is theirs, and the directory above Mounts
	// where it has to be made.
	UID, GID int
	// Dirs are the directories of services in a file system.
	Dirs []Dir
	// KeyFile holds what opens encrypted disks.
	KeyFile string
	// Mounts is the directory below which file systems are mounted, by the disk's number.
	Mounts string
	// Mount mounts a device on a directory, for everybody, and Unmount takes it away again.
	Mount   func(ctx context.Context, device, dir string) error
	Unmount func(ctx context.Context, dir string) error
	// Exec runs a program and returns its error with what it printed.
	Exec func(ctx context.Context, env []string, name string, args ...string) error
	// Say reports progress.
	Say func(string)
}

// Dir is a directory of a service at the top of a file system, and whose it is.
type Dir struct {
	Name     string
	UID, GID int
}

// Run makes or finds the node's disks of one use. It can be cut off at any point and run again. What is wrong with a
// disk is in its Info and keeps back none of the others.
func Run(ctx context.Context, o Options) ([]Info, error) {
	want := Of(o.Disks, o.Use)
	disks, err := o.await(ctx, want)
	if err != nil {
		return nil, err
	}
	taken := map[string]int{}
	var out []Info
	for i, w := range want {
		r := request{
			use: useOf(o.Use), number: i + 1, clusterID: o.ClusterID, owner: "cluster " + o.ClusterName, node: o.Node, want: w, bootDisk: o.BootDisk, disks: disks,
			open: func(d disk.Disk) (device, error) { return os.Open(d.Path()) },
		}
		info := Info{Use: o.Use, Number: i + 1, Selector: selector(w.Selector)}
		if err := o.take(ctx, r, taken, &info); err != nil {
			info.Problem = err.Error()
			info.Device = ""
			o.Say(info.Problem)
		}
		out = append(out, info)
	}
	return out, nil
}

// await lists the disks once those that are wanted are there, or the wait for them has reached its bound.
func (o Options) await(ctx context.Context, want []spec.Disk) (disks []disk.Disk, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	missing := ""
	_ = wait.Until(ctx, wait.Condition{ // What is missing is said with the disks that there are.
		For: "the disks of this node", Bound: diskBound, Say: func(s string) { o.Say(s + "; missing: " + missing) },
		Changes: wait.Dir(ctx, "/dev", "/run/udev/data"),
		Met: func() bool {
			if disks, err = o.List(); err != nil {
				return true
			}
			missing = ""
			for _, w := range want {
				if _, err := disk.Select(disks, w.Selector); err != nil && !errors.Is(err, disk.ErrAmbiguous) {
					missing = selector(w.Selector)
				}
			}
			return missing == ""
		},
	})
	if err == nil {
		err = ctx.Err()
	}
	return disks, err
}

// take makes or finds one disk.
func (o Options) take(ctx context.Context, r request, taken map[string]int, info *Info) error {
	p, err := choose(r)
	if p.disk.Name != "" {
		info.Disk, info.Serial = p.disk.Name, p.disk.Serial()
	}
	if err != nil {
		return err
	}
	title := r.use.title(r.number)
	if other := taken[p.disk.Name]; other != 0 {
		return fmt.Errorf("%s: its selector names the disk %s (serial %s), which is %s already; correct one of them", title, p.disk.Path(), p.disk.Serial(), r.use.title(other))
	}
	taken[p.disk.Name] = r.number
	if err := o.partition(ctx, r, p); err != nil {
		return fmt.Errorf("%s: making its partition on %s (serial %s): %w", title, p.disk.Path(), p.disk.Serial(), err)
	}
	info.PartUUID = p.want.String()
	node, err := repart.Node(ctx, p.disk, p.want)
	if err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	if !r.use.bare {
		info.Device, info.Mount, err = node, filepath.Join(o.Mounts, strconv.Itoa(r.number)), o.fileSystem(ctx, node, r.number)
		if err != nil {
			info.Mount = ""
		}
	} else {
		info.Device, err = o.bare(ctx, node, r.want.Encrypt, p)
	}
	if err != nil {
		return fmt.Errorf("%s: %s on the disk %s (serial %s): %w", title, node, p.disk.Path(), p.disk.Serial(), err)
	}
	return nil
}

// partition runs systemd-repart where it has something to do.
func (o Options) partition(ctx context.Context, r request, p plan) error {
	if !p.repart {
		return nil
	}
	ro := repart.Options{Disk: p.disk, Files: p.definitions, Definitions: o.Definitions, Temp: o.Temp, Seed: p.want, Exec: o.Exec, Say: o.Say}
	if p.fromScratch {
		o.Say(fmt.Sprintf("making %s on %s (serial %s)", r.use.title(r.number), p.disk.Path(), p.disk.Serial()))
		ro.FromScratch = r.use.made(p.want)
		if err := shred(p.disk); err != nil {
			return err
		}
		if o.Use == OSD {
			ro.Finish = func(ctx context.Context) error {
				return repart.Quiet(p.disk, func() error { return o.begin(ctx, r, p) })
			}
		}
	}
	err := repart.Run(ctx, ro)
	if err != nil && !p.fromScratch { // A partition that could not grow is as good as it was.
		o.Say("systemd-repart: " + err.Error())
		return nil
	}
	return err
}

// shred overwrites what key slots are left on a disk: a reset may have been cut off.
func shred(d disk.Disk) error {
	f, err := os.OpenFile(d.Path(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(luks.DestroyDisk(f, d.Size, d.SectorSize), f.Close())
}

// begin clears where an OSD's label will be, since the proof that a disk is empty is one by sampling and an old label
// must not come to life again, and encrypts.
func (o Options) begin(ctx context.Context, r request, p plan) error {
	node, err := repart.Node(ctx, p.disk, p.want)
	if err != nil {
		return err
	}
	if err := clearBeginning(node); err != nil || !r.want.Encrypt {
		return err
	}
	if err := o.encrypt(ctx, node, p.want); err != nil {
		return err
	}
	// Zeros that were not written through the cipher are noise behind it.
	mapped, err := o.decrypt(ctx, node, p.want)
	if err != nil {
		return err
	}
	return clearBeginning(mapped)
}

func clearBeginning(device string) error {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return blank.Write(f, make([]byte, 4<<20), 0)
}

// bare gives the service a partition, decrypted where it is encrypted.
func (o Options) bare(ctx context.Context, node string, encrypted bool, p plan) (string, error) {
	if encrypted {
		var err error
		if node, err = o.decrypt(ctx, node, p.want); err != nil {
			return "", err
		}
	}
	// What is decrypted keeps its owner: udev's rules set only group and mode of disks (50-udev-default.rules). A
	// partition may be away for a moment, see repart.Quiet, and is given to Ceph by a rule when it is back.
	if err := os.Chown(node, o.UID, o.GID); err != nil && !away(err) {
		return "", err
	}
	return node, nil
}

// fileSystem checks and mounts a file system, and lets it grow.
func (o Options) fileSystem(ctx context.Context, node string, number int) error {
	if err := o.mountPoints(); err != nil {
		return err
	}
	dir := filepath.Join(o.Mounts, strconv.Itoa(number))
	if err := o.checkAndMount(ctx, node, dir); err != nil {
		return err
	}
	if err := o.claim(dir); err != nil {
		if uerr := o.Unmount(ctx, dir); uerr != nil {
			err = fmt.Errorf("%w (and it could not be unmounted: %v)", err, uerr)
		}
		return err
	}
	if err := ext4.Grow(node, dir); err != nil {
		o.Say(err.Error())
	}
	return nil
}

// checkAndMount tries a second and a third time, since the partition may be away for a moment: see repart.Quiet.
func (o Options) checkAndMount(ctx context.Context, node, dir string) (err error) {
	for range mountTries {
		if err = ext4.Check(ctx, node, o.Exec, o.Say); err == nil {
			err = o.Mount(ctx, node, dir)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		o.Say(fmt.Sprintf("%s: %v; trying again", node, err))
		select {
		case <-ctx.Done():
		case <-time.After(mountPause):
		}
	}
	return err
}

// away tells whether an error means that a partition is not there at this moment.
func away(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENXIO) }

// mountPoints makes the directory of the mount points, which is root's: where a disk is missing, the service finds no
// directory and cannot make one, and so never takes the state partition for it. What lies above is the service's own:
// it can move the directory away and lay another there, with whatever in it, and a mount would go where a link leads.
func (o Options) mountPoints() error {
	above := filepath.Dir(o.Mounts)
	if err := os.Mkdir(above, 0o750); err == nil {
		// systemd gives a state directory with the wrong owner to the service with all that is in it.
		if err := os.Lchown(above, o.UID, o.GID); err != nil {
			return err
		}
	} else if !errors.Is(err, os.ErrExist) {
		return err
	}
	home, err := os.OpenRoot(above)
	if err != nil {
		return err
	}
	defer home.Close()
	name := filepath.Base(o.Mounts)
	if err := home.Mkdir(name, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	dir, err := atomicfile.DirIn(home, name)
	if err != nil {
		return fmt.Errorf("%w; remove what lies there", err)
	}
	defer dir.Close()
	// From here on the service cannot change what is in it.
	if err := errors.Join(dir.Chown(0, 0), dir.Chmod(0o755)); err != nil {
		return err
	}
	for number := range Of(o.Disks, o.Use) {
		point := filepath.Join(name, strconv.Itoa(number+1))
		if st, err := home.Lstat(point); err == nil && !st.IsDir() {
			return fmt.Errorf("%s is not a directory to mount a disk on; remove it", filepath.Join(above, point))
		}
	}
	return nil
}

// ErrNotNamed says that the node's file gives a disk to no service.
var ErrNotNamed = errors.New("its file gives it to no service")

// Reset gives a disk to the use for which the node's file selects it. What was on it is lost, key slots first.
func Reset(o Options, d disk.Disk) error {
	disks, err := o.List()
	if err != nil {
		return err
	}
	for _, w := range o.Disks {
		u := useOf(w.Use)
		selected, err := disk.Select(disks, w.Selector)
		if err != nil || w.Use == State || selected.Name != d.Name {
			continue
		}
		ours := PartUUIDs(o.ClusterID, w.Use, d)
		switch {
		case len(ours) == 0:
			return fmt.Errorf("the disk %s has no name of its own; nothing was changed", d.Path())
		case d.Name == o.BootDisk:
			return errors.New("this is the disk that the machine was booted from; nothing was changed")
		}
		// A disk that is mounted, or that a service works on, cannot be opened exclusively.
		f, err := os.OpenFile(d.Path(), os.O_RDWR|os.O_EXCL, 0)
		if err != nil {
			return fmt.Errorf("%s is in use: %w; nothing was changed", d.Path(), err)
		}
		defer f.Close()
		// The marker comes first: what is cut off from then on is made anew at the next boot.
		if err := blank.Mark(f, u.made(ours[0])); err != nil {
			return err
		}
		if err := luks.DestroyDisk(f, d.Size, d.SectorSize); err != nil {
			return err
		}
		return blank.Give(f, d.Size, u.made(ours[0]))
	}
	return fmt.Errorf("%s (serial %s): %w", d.Path(), d.Serial(), ErrNotNamed)
}

// signature names what begins a partition.
func signature(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if what := blank.Signature(f); what != "" {
		return what, nil
	}
	b := make([]byte, 4096)
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, 4096), b); err != nil {
		return "", err
	}
	for _, c := range b {
		if c != 0 {
			return "it holds something unknown", nil
		}
	}
	return "it is empty", nil
}
