package state

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/ext4"
	"spore/agent/quota"
	"spore/agent/repart"
	"spore/agent/wait"
	"spore/storage/atomicfile"
)

// Binding is the file on the state partition that says whose it is (/var/lib/spore/state.json).
type Binding struct {
	Cluster  string `json:"cluster"`
	Node     string `json:"node"`
	PartUUID string `json:"partUUID"`
}

// bindingFile is where the binding lies below the mount point.
const bindingFile = "lib/spore/state.json"

// maxUtab bounds libmount's table.
const maxUtab = 1 << 20

// maxBinding bounds the binding file; what is on a disk is outside data.
const maxBinding = 4096

// Mounting is how state is mounted.
type Mounting struct {
	// Dir is where.
	Dir string
	// Binding is whose it has to be.
	Binding Binding
	// Limits are the directories in it that are held to a size.
	Limits []quota.Limit
	// Exec runs a program and returns its error with what it printed; Say reports progress.
	Exec ext4.Runner
	Say  func(string)
}

// Mount mounts what info says and checks that it belongs to whom it should. Whatever is wrong with a partition, a tmpfs
// is mounted in its place; what comes back says so and replaces info. An error means that nothing could be mounted.
func Mount(ctx context.Context, info Info, m Mounting) (Info, error) {
	if info.Kind == Partition {
		warning, err := m.partition(ctx, info.Device)
		if err == nil {
			info.Warning = joinWarnings(info.Warning, warning)
			if err := ext4.Grow(info.Device, m.Dir); err != nil {
				info.Warning = joinWarnings(info.Warning, err.Error())
			}
			return info, nil
		}
		info = AsInfo(Refusal{fmt.Sprintf("the state partition %s: %v", info.Device, err)})
	}
	if err := unix.Mount("spore-state", m.Dir, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID, "mode=0755,size=50%"); err != nil {
		return info, fmt.Errorf("mount a tmpfs on %s: %w", m.Dir, err)
	}
	return info, nil
}

// partition mounts the partition and sets the quotas. What is wrong with those alone is a warning.
func (m Mounting) partition(ctx context.Context, device string) (warning string, err error) {
	counts, unknown := countsProjects(device)
	if away(unknown) {
		return "", fmt.Errorf("mount: %w", unknown)
	}
	options := baseOptions
	if counts && len(m.Limits) > 0 {
		options += ",prjquota"
	}
	err = mountDevice(device, m.Dir, options)
	// One that is in use was mounted by somebody else: nothing is wrong with what it counts.
	if err != nil && counts && !errors.Is(err, unix.EBUSY) {
		options = baseOptions
		warning, err = m.withoutQuotas(ctx, device, err)
	}
	if err != nil {
		return "", fmt.Errorf("mount: %w", err)
	}
	if err := Bind(m.Dir, m.Binding); err != nil {
		if uerr := unix.Unmount(m.Dir, 0); uerr != nil {
			return "", fmt.Errorf("%w (and it could not be unmounted: %v)", err, uerr)
		}
		return "", err
	}
	switch {
	case options != baseOptions:
		if err := quota.Set(m.Dir, m.Limits); err != nil {
			warning = noQuotas(err)
		}
	case unknown != nil && len(m.Limits) > 0:
		warning = noQuotas(unknown)
	}
	return warning, nil
}

// withoutQuotas mounts a file system that counts what projects fill and could not be mounted: the kernel mounts none
// whose counts it cannot read. They are worth less than the state, which is mounted without them, whatever else fails;
// the next start counts anew.
func (m Mounting) withoutQuotas(ctx context.Context, device string, why error) (warning string, err error) {
	m.Say(fmt.Sprintf("the file system of %s could not be mounted with what its projects fill: %v", device, why))
	if len(m.Limits) > 0 && mountDevice(device, m.Dir, baseOptions) == nil {
		return noQuotas(why), nil
	}
	failed := cmp.Or(ext4.Repair(ctx, device, m.Exec), ext4.ForgetProjects(ctx, device, m.Exec))
	if failed != nil {
		m.Say(fmt.Sprintf("the file system of %s still counts what its projects fill: %v", device, failed))
	}
	if err := mountDevice(device, m.Dir, baseOptions); err != nil {
		return "", errors.Join(why, failed, err)
	}
	switch {
	case failed != nil:
		return noQuotas(fmt.Errorf("%w; %w", why, failed)), nil
	case len(m.Limits) == 0:
		return "", nil
	}
	return noQuotas(why), nil
}

// baseOptions are the options of ext4 for every state.
const baseOptions = "errors=remount-ro"

// mountDevice mounts the partition, and waits for it where it is away: when repart has written a table and closed the
// disk, udev has the kernel read the table again, and for that the kernel takes the disk's partitions away and brings
// them back.
func mountDevice(device, dir, options string) error {
	return whenThere(device, func() error {
		return unix.Mount(device, dir, "ext4", unix.MS_NODEV|unix.MS_NOSUID|unix.MS_NOATIME, options)
	})
}

// countsProjects waits in the same way.
func countsProjects(device string) (counts bool, err error) {
	err = whenThere(device, func() (err error) {
		counts, err = ext4.CountsProjects(device)
		return err
	})
	return counts, err
}

// whenThere does something with a device, again and again as long as it is away.
func whenThere(device string, do func() error) error {
	var err error
	_ = wait.Until(context.Background(), wait.Condition{
		For: device, Bound: repart.NodeBound, Every: 50 * time.Millisecond,
		Met: func() bool {
			err = do()
			return !away(err)
		},
	})
	return err
}

// away tells whether an error says that a device is not there.
func away(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENXIO) }

// KeepMounted tells systemd, in libmount's table of mount options that the kernel does not keep (utab, usually
// /run/mount/utab), that the mount of device on dir outlives the device's unit (systemd.mount(5),
// x-systemd.device-bound=). systemd would unmount it otherwise when the partition is away for a moment, as in
// mountDevice: what runs would lose its state, and what was to start would not. It has to be there before the mount is.
func KeepMounted(utab, device, dir string) error {
	line := fmt.Sprintf("SRC=%s TARGET=%s ROOT=/ OPTS=x-systemd.device-bound=no\n", device, dir)
	old, err := atomicfile.ReadLimited(utab, maxUtab)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the options of mounts: %w", err)
	}
	if strings.Contains("\n"+string(old), "\n"+line) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(utab), 0o755); err != nil {
		return fmt.Errorf("the options of mounts: %w", err)
	}
	_, err = atomicfile.Write(utab, append(old, line...), 0o644)
	return err
}

// Bind checks the binding of the file system at dir, and writes it when the file system is new.
func Bind(dir string, want Binding) error {
	path := filepath.Join(dir, bindingFile)
	data, err := atomicfile.ReadLimited(path, maxBinding)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := onlyNew(dir); err != nil {
			return err
		}
		return WriteBinding(dir, want)
	case err != nil:
		return fmt.Errorf("its binding: %w", err)
	}
	var got Binding
	if err := json.Unmarshal(data, &got); err != nil {
		return fmt.Errorf("its binding %s cannot be read: %w", bindingFile, err)
	}
	if got.Cluster != want.Cluster || got.Node != want.Node {
		return fmt.Errorf("it says that it belongs to node %.64q of cluster %.64q, and this is node %q of cluster %q", got.Node, got.Cluster, want.Node, want.Cluster)
	}
	return nil
}

// WriteBinding writes the binding so that it survives a power cut. Directories are made one by one, each synced by the
// file system's journal with the file that is synced in it.
func WriteBinding(dir string, b Binding) error {
	data, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("internal error: binding: %w", err)
	}
	return atomicfile.WriteDurable(filepath.Join(dir, bindingFile), append(data, '\n'), 0o644)
}

// onlyNew tells a file system without binding that was never used from one whose binding is lost. The binding is the
// first thing that is written, so anything else than its own directories means that somebody else wrote.
func onlyNew(dir string) error {
	for d, allowed := range map[string][]string{"": {"lost+found", "lib"}, "lib": {"spore"}, "lib/spore": nil} {
		entries, err := os.ReadDir(filepath.Join(dir, d))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			// What an atomic write leaves when it is cut off.
			half := d == "lib/spore" && strings.HasPrefix(e.Name(), ".state.json-")
			if !half && !slices.Contains(allowed, e.Name()) {
				return fmt.Errorf("it holds %s but no binding %s, so it is not known whose it is", filepath.Join(d, e.Name()), bindingFile)
			}
		}
	}
	return nil
}

func joinWarnings(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
