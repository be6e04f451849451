package state

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/disk"
	"spore/storage/gpt"
)

func TestTheSecondSlotIsMadeOnTheBootDiskWhenStateIsElsewhere(t *testing.T) {
	d, o := bootImage(t, 1<<30, "BOOT"), options(t)
	o.BootDisk, o.List = d.Name, func() ([]disk.Disk, error) { return []disk.Disk{d}, nil }
	before := readTable(t, d)
	warning, err := MakeSlots(context.Background(), o)
	require.NoError(t, err)
	require.Empty(t, warning)
	require.Contains(t, tool(t, "sgdisk", "-v", d.Path()), "No problems found")
	made := readTable(t, d)
	require.Len(t, made.Partitions, 7)
	require.Equal(t, before.Partitions, made.Partitions[:4], "the image's own partitions are left as they are")
	for i, kind := range []gpt.GUID{typeRoot, typeVerity, typeCluster} {
		require.Equal(t, kind, made.Partitions[4+i].Type)
		require.Equal(t, before.Partitions[1+i].Size, made.Partitions[4+i].Size)
	}
	sum := checksum(t, d)
	_, err = MakeSlots(context.Background(), o)
	require.NoError(t, err)
	require.Equal(t, sum, checksum(t, d), "the next boot has nothing to do")
}

func TestNoSecondSlotIsMade(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*disk.Disk, *Options)
		warning string
	}{
		"where there is no room":        {func(d *disk.Disk, _ *Options) { d.Size = 48 << 20 }, "the boot disk has no room for a second system"},
		"on a disc":                     {func(d *disk.Disk, _ *Options) { d.Optical = true }, ""},
		"on what is read-only":          {func(d *disk.Disk, _ *Options) { d.ReadOnly = true }, ""},
		"where nothing was booted from": {func(_ *disk.Disk, o *Options) { o.BootDisk = "" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := bootImage(t, 1<<30, "BOOT"), options(t)
			o.BootDisk, o.List = d.Name, func() ([]disk.Disk, error) { return []disk.Disk{d}, nil }
			tt.change(&d, &o)
			sum := checksum(t, d)
			warning, err := MakeSlots(context.Background(), o)
			require.NoError(t, err)
			if tt.warning != "" {
				require.Contains(t, warning, tt.warning)
			}
			require.Equal(t, sum, checksum(t, d))
		})
	}
}
