package state

import (
	"context"
	"fmt"
	"os"

	"spore/agent/repart"
	"spore/storage/gpt"
)

// MakeSlots makes the partitions of the second slot on the boot disk of a node whose state is on another disk. Where state is on
// the boot disk, Run makes them with it. It returns a warning where there is no room. It can be cut off and run again.
func MakeSlots(ctx context.Context, o Options) (warning string, err error) {
	disks, err := o.List()
	if err != nil {
		return "", err
	}
	for _, d := range disks {
		if d.Name != o.BootDisk || d.Optical || d.ReadOnly {
			continue
		}
		f, err := os.Open(d.Path())
		if err != nil {
			return "", err
		}
		table, err := gpt.Read(f, d.Size, d.SectorSize)
		f.Close()
		if err != nil {
			return "", fmt.Errorf("the boot disk %s (serial %s): %w", d.Path(), d.Serial(), err)
		}
		files, warning := slotsOnly(table, d.Size)
		if files == nil {
			return warning, nil
		}
		o.Say(fmt.Sprintf("making the second slot on the boot disk %s (serial %s)", d.Path(), d.Serial()))
		return "", repart.Run(ctx, repart.Options{
			Disk: d, Files: files, Definitions: o.Definitions + ".boot", Temp: o.Temp, Seed: PartUUID(o.ClusterID, o.Node), Exec: o.Exec, Say: o.Say,
		})
	}
	return "", nil
}

// slotsOnly are the files for systemd-repart that add what is missing of the second slot and leave all else as it is; nil when
// there is nothing to add, or no room.
func slotsOnly(t gpt.Table, size int64) (files map[string]string, warning string) {
	slots := missingSlots(t)
	if warning = fit(&slots, repart.Gaps(t, size), true); len(slots) == 0 {
		return nil, warning
	}
	files = map[string]string{}
	for _, p := range t.Partitions {
		switch p.Type {
		case typeESP, typeRoot, typeVerity, typeCluster, typeVar:
			files[fmt.Sprintf("10-partition-%03d.conf", p.Number)] = repart.Partition("Type="+p.Type.String(), fmt.Sprintf("SizeMinBytes=%d", p.Size), fmt.Sprintf("SizeMaxBytes=%d", p.Size))
		}
	}
	for i, s := range slots {
		files[fmt.Sprintf("50-%d-%s.conf", i, s.label)] = repart.Partition("Type="+s.kind.String(), "Label="+s.label,
			fmt.Sprintf("SizeMinBytes=%d", s.size), fmt.Sprintf("SizeMaxBytes=%d", s.size))
	}
	return files, ""
}
