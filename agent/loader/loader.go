// Package loader keeps the boot loader of this machine and its boot options in order, and renews the loader, step by
// step, as an update brought it. Package bootloader has the rules; here is what they need to know of the node: which
// system runs, whether it stays, and how the firmware starts it.
package loader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"spore/agent/bootloader"
	"spore/agent/efi"
	"spore/agent/firmware"
	"spore/agent/keydb"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/slot"
	"spore/agent/state"
	"spore/storage/atomicfile"
	"spore/storage/disk"
	"spore/storage/gpt"
)

// Run does what can be done now.
func Run(ctx context.Context, m *node.Machine) error {
	m.ReadBoot()
	return Step(ctx, m)
}

// Step is Run where it is known how the machine was started.
func Step(ctx context.Context, m *node.Machine) error {
	r, err := bootloader.Read(m.Root.At(paths.Loader))
	if err != nil {
		return err
	}
	brought := r.SHA256 != ""
	if m.Boot.ESP == "" || m.Boot.BootDisk.Path == "" {
		if !brought {
			return nil // Such as a machine that started from the network.
		}
		return errors.New("it is not known which ESP the machine was started from")
	}
	var info state.Info
	if err := atomicfile.ReadJSON(m.Root.At(paths.State), &info); err != nil {
		if !brought && errors.Is(err, fs.ErrNotExist) {
			return nil // This machine matches no node.
		}
		return err
	}
	disks, err := m.Disks()
	if err != nil {
		return err
	}
	bm, err := machine(ctx, m, r, info, disks)
	if err != nil {
		return err
	}
	if brought {
		err = bm.Step()
	}
	if upkeep(m, info, disks) {
		if failed := bm.Upkeep(); failed != nil { // A machine that runs is whole without it.
			m.Say("what starts this machine was not looked after: " + failed.Error())
		}
	}
	return err
}

// upkeep tells whether the machine's boot options and loader are kept in order: those of a node with state, on a disk,
// whose system is not on trial. Then the ESP is left to who tries it, and the firmware has all options already.
func upkeep(m *node.Machine, info state.Info, disks []disk.Disk) bool {
	if info.Kind != state.Partition || efi.Counted(os.DirFS(m.Root.At(paths.EFIVars))) {
		return false
	}
	for _, d := range disks {
		if d.Path() == m.Boot.BootDisk.Path {
			return !d.Optical && !d.ReadOnly
		}
	}
	return false
}

// machine is this machine for package bootloader.
func machine(
	ctx context.Context, m *node.Machine, r bootloader.Record, info state.Info, disks []disk.Disk,
) (bootloader.Machine, error) {
	settled, err := settled(m, r)
	if err != nil {
		return bootloader.Machine{}, err
	}
	bm := bootloader.Machine{
		Disk: m.Boot.BootDisk.Path, ESP: m.Boot.ESP, Vars: m.Root.At(paths.EFIVars), Dir: m.Root.At(paths.Loader),
		BootID: m.BootID(), Settled: settled, Sealed: info.Encryption != nil, Now: m.Now, Say: m.Say,
		Open: func(path string, whole bool) (bootloader.Device, error) {
			return slot.OpenDevice(ctx, m.Root, path, whole, m.Say)
		},
		Tables: func() ([]gpt.Table, error) { return tables(m.Root, disks) },
	}
	if f := firmware.Read(os.DirFS(m.Root.At("/"))); f != nil && f.Checks() {
		bm.SecureBoot = true
		if bm.Keys, err = keydb.Read(m.Root.At(paths.EFIVars)); err != nil {
			return bm, err
		}
		if bm.Keys.Unread != nil {
			m.Say(bm.Keys.Unread.Error() + "; an update is held to the signer of what runs alone")
		}
	}
	bm.Partition = func(number int) string {
		for _, d := range disks {
			if d.Path() == m.Boot.BootDisk.Path {
				return d.Partition(number)
			}
		}
		return ""
	}
	return bm, nil
}

// tables are the partition tables of disks. One without a table has none; one that cannot be read is an error, because
// nobody knows what it has.
func tables(root paths.Root, disks []disk.Disk) ([]gpt.Table, error) {
	var out []gpt.Table
	for _, d := range disks {
		if d.Optical || d.Size == 0 {
			continue // No option is made for a disc, and an empty drive has no partition.
		}
		t, err := table(root.At(d.Path()), d)
		if errors.Is(err, gpt.ErrNone) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the partition table of %s: %w", d.Path(), err)
		}
		out = append(out, t)
	}
	return out, nil
}

func table(path string, d disk.Disk) (gpt.Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return gpt.Table{}, err
	}
	defer f.Close()
	return gpt.Read(f, d.Size, d.SectorSize)
}

// settled tells whether the system that brought the loader runs and has shown that it stays, and no other is staged.
func settled(m *node.Machine, loader bootloader.Record) (bool, error) {
	if !loader.Is(m.Boot.RootHash, m.Boot.ClusterHash) {
		return false, nil
	}
	r, err := slot.ReadRecord(m.Root.At(paths.Update))
	if err != nil {
		return false, err
	}
	if r.BootID == m.BootID() && (r.State == slot.Staging || r.State == slot.Staged) {
		return false, nil
	}
	if !efi.Counted(os.DirFS(m.Root.At(paths.EFIVars))) {
		return true, nil // The loader counts what is on trial.
	}
	return r.Is(m.Boot.RootHash, m.Boot.ClusterHash) && r.State == slot.Kept, nil
}
