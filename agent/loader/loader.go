// Package loader renews the boot loader of this machine, step by step, as an update brought it. Package bootloader has
// the rules; here is what they need to know of the node: which system runs, whether it stays, and how the firmware
// starts it.
package loader

import (
	"context"
	"errors"
	"os"

	"spore/agent/bootloader"
	"spore/agent/dbx"
	"spore/agent/efi"
	"spore/agent/firmware"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/slot"
	"spore/agent/state"
	"spore/storage/atomicfile"
)

// Run does what can be done now.
func Run(ctx context.Context, m *node.Machine) error {
	m.ReadBoot()
	return Step(ctx, m)
}

// Step is Run where it is known how the machine was started.
func Step(ctx context.Context, m *node.Machine) error {
	dir := m.Root.At(paths.Loader)
	r, err := bootloader.Read(dir)
	if err != nil || r.SHA256 == "" {
		return err
	}
	if m.Boot.ESP == "" || m.Boot.BootDisk.Path == "" {
		return errors.New("it is not known which ESP the machine was started from")
	}
	settled, err := settled(m, r)
	if err != nil {
		return err
	}
	bm := bootloader.Machine{
		Disk: m.Boot.BootDisk.Path, ESP: m.Boot.ESP, Vars: m.Root.At(paths.EFIVars), Dir: dir, BootID: m.BootID(), Settled: settled,
		Now: m.Now, Say: m.Say,
		Open: func(path string, whole bool) (bootloader.Device, error) {
			return slot.OpenDevice(ctx, m.Root, path, whole, m.Say)
		},
	}
	if f := firmware.Read(os.DirFS(m.Root.At("/"))); f != nil {
		bm.SecureBoot = f.SecureBoot
		if bm.Revoked, err = dbx.Revoked(m.Root.At(paths.EFIVars)); err != nil {
			return err
		}
	}
	var info state.Info
	if err := atomicfile.ReadJSON(m.Root.At(paths.State), &info); err != nil {
		return err
	}
	bm.Sealed = info.Encryption != nil
	disks, err := m.Disks()
	if err != nil {
		return err
	}
	bm.Partition = func(number int) string {
		for _, d := range disks {
			if d.Path() == m.Boot.BootDisk.Path {
				return d.Partition(number)
			}
		}
		return ""
	}
	return bm.Step()
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
