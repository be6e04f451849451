package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"spore/agent/ext4"
	"spore/agent/luks"
	"spore/agent/repart"
	"spore/agent/unlock"
	"spore/agent/wait"
	"spore/cluster/spec"
	"spore/storage/disk"
	"spore/storage/gpt"
)

// DiskBound is the longest wait for a named disk that is not there yet; a shelf of disks spins up for as long.
const DiskBound = 45 * time.Second

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
	// Quotas says that directories are held to a size, for which the file system counts.
	Quotas bool
	// Lock opens encrypted state; nil where nothing is encrypted.
	Lock *unlock.Options
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
	if err := o.endReset(disks); err != nil {
		return Info{}, refuse("%v", err)
	}
	want := PartUUID(o.ClusterID, o.Node)
	p, err := Choose(Request{
		Want: want, Owner: fmt.Sprintf("node %s of cluster %s", o.Node, o.ClusterName), Node: o.Node, Named: o.Named, BootDisk: o.BootDisk, Disks: disks,
		Open: func(d disk.Disk) (Device, error) { return os.Open(d.Path()) },
	})
	if err != nil {
		return Info{}, err
	}
	if p.Found {
		if err := o.refusePlain(p, want); err != nil {
			return Info{}, err
		}
	}
	if p.Repart {
		if err := makeState(ctx, o, p, want); err != nil {
			// The partition may be there all the same, when only growing failed.
			if !p.Found {
				return Info{}, refuse("making the state partition on %s (serial %s): %v", p.Disk.Path(), p.Disk.Serial(), err)
			}
			o.Say("systemd-repart: " + err.Error())
			p.Warning = "growing the state partition failed: " + err.Error()
		}
	}
	info := Info{Kind: Partition, PartUUID: want.String(), Disk: p.Disk.Serial(), Warning: p.Warning}
	if err := o.open(ctx, p, want, &info); err != nil {
		return Info{}, err
	}
	if err := ext4.Check(ctx, info.Device, o.Exec, o.Say); err != nil {
		return Info{}, refuse("the state partition %s (PARTUUID %s): %v; it was not changed. To delete it: %s", info.Device, want, err, resetCommand(o.Node, p.Disk))
	}
	if o.Quotas {
		if err := ext4.CountProjects(ctx, info.Device, o.Exec, o.Say); err != nil {
			info.Warning = joinWarnings(info.Warning, noQuotas(err))
		}
	}
	return info, nil
}

// noQuotas is what is said where quotas hold nobody.
func noQuotas(err error) string { return "the quotas of directories are off: " + err.Error() }

// open finds the partition's device, and opens it where it is encrypted.
func (o Options) open(ctx context.Context, p Plan, want gpt.GUID, info *Info) error {
	device, err := repart.Node(ctx, p.Disk, want)
	if err != nil {
		return refuse("%v", err)
	}
	info.Device = device
	if o.Lock == nil {
		return nil
	}
	err = repart.Quiet(p.Disk, func() error {
		if _, err := repart.Node(ctx, p.Disk, want); err != nil {
			return err
		}
		header, err := encryption(device)
		switch {
		case errors.Is(err, luks.ErrNone):
			if o.Lock.Wanted() {
				return o.plain(p.Disk)
			}
			return nil
		case err != nil:
			return err
		}
		if err := checkCipher(device); err != nil {
			return err
		}
		opened, warning, err := o.Lock.Open(ctx, device, header)
		if err != nil {
			return err
		}
		if warning == "" && !o.Lock.Wanted() {
			warning = "the state is encrypted, although the configuration does not ask for it; it stays so"
		}
		info.Device, info.Encryption, info.Warning = unlock.Device, &opened, joinWarnings(info.Warning, warning)
		return nil
	})
	if err != nil {
		return refuse("the state partition %s (PARTUUID %s): %v; it was not changed", device, want, err)
	}
	return nil
}

// refusePlain refuses state that is not encrypted although the configuration asks for that, before a byte of the disk
// is changed.
//
// Nothing tells the state of before the configuration asked for encryption from a file system that somebody has put
// into its place: PARTUUID and binding can be read on any disk of the node. What is on it would be believed, and what
// the node keeps from then on, its next bundle among that, would lie there for everybody. So nobody's word but that of
// who resets it counts.
func (o Options) refusePlain(p Plan, want gpt.GUID) error {
	if !o.Lock.Wanted() {
		return nil
	}
	f, err := os.Open(p.Disk.Path())
	if err != nil {
		return refuse("the state on %s: %v; it was not changed", p.Disk.Path(), err)
	}
	defer f.Close()
	t, err := gpt.Read(f, p.Disk.Size, p.Disk.SectorSize)
	if err != nil {
		return refuse("the state on %s: %v; it was not changed", p.Disk.Path(), err)
	}
	part, ok := t.ByGUID(want)
	if !ok {
		return refuse("the state on %s is not there any more", p.Disk.Path())
	}
	if _, err := encryptionOf(io.NewSectionReader(f, part.Start, part.Size)); errors.Is(err, luks.ErrNone) {
		return refuse("the state partition %s (PARTUUID %s): %v; it was not changed", p.Disk.Partition(part.Number), want, o.plain(p.Disk))
	}
	return nil // Whatever else is wrong with it is said when it is opened.
}

// plain is what is said of state that should be encrypted and is not.
func (o Options) plain(d disk.Disk) error {
	return fmt.Errorf("it is not encrypted, and the configuration asks for encrypted state (state.encrypt): somebody may have put it there. "+
		"To delete it and make encrypted state, give the node its bundle again, and: %s. To keep it, start an image whose configuration has "+
		"encrypt: none for this node", resetCommand(o.Node, d))
}

// encryption reads the header of encrypted state; the error is luks.ErrNone when it is not encrypted. An ext4 file
// system can have the second copy of an older header in it.
func encryption(device string) (luks.Header, error) {
	f, err := os.Open(device)
	if err != nil {
		return luks.Header{}, err
	}
	defer f.Close()
	return encryptionOf(f)
}

// checkCipher refuses an encrypted partition whose header says of another cipher than those that are made
// (luks.CheckCipher).
func checkCipher(device string) error {
	f, err := os.Open(device)
	if err != nil {
		return err
	}
	defer f.Close()
	return luks.CheckCipher(f)
}

func encryptionOf(r io.ReaderAt) (luks.Header, error) {
	if _, _, err := ext4.Size(r); err == nil {
		return luks.Header{}, luks.ErrNone
	}
	return luks.Read(r)
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

// made is what the marker says.
func made(want gpt.GUID) string { return "the state partition " + want.String() }

// makeState runs systemd-repart with the plan's definitions.
func makeState(ctx context.Context, o Options, p Plan, want gpt.GUID) error {
	r := repart.Options{Disk: p.Disk, Files: p.Definitions, Definitions: o.Definitions, Temp: o.Temp, Seed: want, Exec: o.Exec, Say: o.Say}
	if p.FromScratch {
		r.FromScratch = made(want)
		if err := shred(p.Disk); err != nil {
			return err
		}
	}
	o.Say(fmt.Sprintf("making the state partition on %s (serial %s)", p.Disk.Path(), p.Disk.Serial()))
	if p.Found || !o.Lock.Wanted() {
		return repart.Run(ctx, r)
	}
	key, err := o.Lock.NewKey(ctx)
	if err != nil {
		return err
	}
	defer key.Discard()
	r.Env = []string{optionsVariable + "=--key-file=" + key.File}
	r.Files = encrypted(r.Files)
	return because(repart.Run(ctx, r), key.File)
}
