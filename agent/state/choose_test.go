package state

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/spec"
	"spore/storage/blank"
	"spore/storage/disk"
)

func TestPartUUID(t *testing.T) {
	require.Equal(t, PartUUID(strings.ToUpper(clusterID), "edge-01"), want, "the case of the cluster id does not matter")
	require.NotEqual(t, want, PartUUID(clusterID, "edge-02"))
	s := want.String()
	require.Equal(t, byte('8'), s[14], "version 8 (RFC 9562, section 5.8)")
	require.Contains(t, "89ab", string(s[19]))
}

// plan is what a test expects of Choose.
type plan struct {
	found, scratch, repart bool
	slots                  int
	warning                string
}

func TestTheBootDisk(t *testing.T) {
	for name, tc := range map[string]struct {
		make    func(t *testing.T) disk.Disk
		want    plan
		err     string
		refused bool
	}{
		"fresh, with room for all": {func(t *testing.T) disk.Disk { return bootImage(t, 1<<30, "B") }, plan{repart: true, slots: 3}, "", false},
		"with room for state alone": {
			func(t *testing.T) disk.Disk { return bootImage(t, 40<<20+MinSize+10<<20, "B") }, plan{repart: true, warning: "cannot be updated in place"}, "", false,
		},
		"too small":        {func(t *testing.T) disk.Disk { return bootImage(t, 100<<20, "B") }, plan{}, "has no free space of 256 MiB for state", false},
		"no larger at all": {func(t *testing.T) disk.Disk { return bootImage(t, 40<<20, "B") }, plan{}, "has no free space", false},
		"read-only": {
			func(t *testing.T) disk.Disk { d := bootImage(t, 1<<30, "B"); d.ReadOnly = true; return d }, plan{}, "is read-only", false,
		},
		"a disc": {
			func(t *testing.T) disk.Disk { d := bootImage(t, 1<<30, "B"); d.Optical = true; return d }, plan{}, "booted from the disc in", false,
		},
		"without a table": {func(t *testing.T) disk.Disk { return imageDisk(t, 1<<30, "B") }, plan{}, "no partition table that could take state", false},
		"with this node's state to the end": {
			func(t *testing.T) disk.Disk {
				d := bootImage(t, 1<<30, "B")
				addState(t, d, want.String(), "")
				return d
			}, plan{found: true, warning: "cannot be updated in place"}, "", false,
		},
		"with this node's state and room behind it": {
			func(t *testing.T) disk.Disk {
				d := bootImage(t, 1<<30, "B")
				addState(t, d, want.String(), "300MiB")
				return d
			},
			plan{found: true, repart: true, slots: 3}, "", false,
		},
		"with this node's state and one of somebody else": {
			func(t *testing.T) disk.Disk {
				d := bootImage(t, 1<<30, "B")
				addState(t, d, foreign, "300MiB")
				addState(t, d, want.String(), "")
				return d
			}, plan{found: true, warning: "cannot be updated in place"}, "", false,
		},
		"with state of another cluster": {
			func(t *testing.T) disk.Disk {
				d := bootImage(t, 1<<30, "SERIAL")
				addState(t, d, foreign, "300MiB")
				return d
			},
			plan{}, "(serial SERIAL) has state of another cluster or node: partition 5 has the PARTUUID " + foreign + ", and node edge-01 of cluster plant has " + want.String() + "; it was not changed", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := tc.make(t)
			before := checksum(t, d)
			p, err := Choose(request(&d))
			checkPlan(t, p, err, tc.want, tc.err, tc.refused)
			require.Equal(t, before, checksum(t, d), "choosing changes nothing")
		})
	}
}

func TestARefusalNamesTheCommandsThatWouldHelp(t *testing.T) {
	d := bootImage(t, 1<<30, "B")
	addState(t, d, foreign, "300MiB")
	_, err := Choose(request(&d))
	require.ErrorContains(t, err, "spore adopt edge-01 --partition "+foreign)
	require.ErrorContains(t, err, "spore reset edge-01 --disk "+d.Serial())
	info := AsInfo(err)
	require.True(t, info.Refused)
	require.Equal(t, Tmpfs, info.Kind)
	require.Contains(t, info.Warning, "its content will be lost")
}

func TestANamedDisk(t *testing.T) {
	const size = 512 << 20
	zeros := func(t *testing.T) disk.Disk { return imageDisk(t, size, "DATA") }
	with := func(data string, at int64) func(t *testing.T) disk.Disk {
		return func(t *testing.T) disk.Disk { d := zeros(t); writeAt(t, d, data, at); return d }
	}
	gptWith := func(script string) func(t *testing.T) disk.Disk {
		return func(t *testing.T) disk.Disk { d := zeros(t); sfdisk(t, d, "label: gpt\n"+script+"\n"); return d }
	}
	state := "type=" + typeVar.String() + ", uuid="
	for name, tc := range map[string]struct {
		make    func(t *testing.T) disk.Disk
		want    plan
		err     string
		refused bool
	}{
		"empty": {zeros, plan{scratch: true, repart: true}, "", false},
		"with this node's state to the end": {
			gptWith(state + want.String()), plan{found: true}, "", false,
		},
		"with this node's state and room behind it": {
			gptWith("size=300MiB, " + state + want.String()), plan{found: true, repart: true}, "", false,
		},
		"where this node was cut off":  {with(string(blank.Marker(made(want)))+"\x53\xef", blank.MarkerAt), plan{scratch: true, repart: true}, "", false},
		"where another was cut off":    {with(string(blank.Marker(made(PartUUID(clusterID, "edge-02")))), blank.MarkerAt), plan{}, "is not empty", true},
		"with state of another":        {gptWith(state + foreign), plan{}, "spore adopt edge-01", true},
		"with another's partition":     {gptWith("type=linux"), plan{}, "a partition table with 1 partitions that are not state of node edge-01", true},
		"with an empty table":          {gptWith(""), plan{}, "a partition table with 0 partitions", true},
		"with a damaged table":         {damaged, plan{}, "GUID partition table: primary:", true},
		"with ext4":                    {func(t *testing.T) disk.Disk { d := zeros(t); tool(t, "mkfs.ext4", "-q", d.Path()); return d }, plan{}, "it holds an ext2, ext3 or ext4 file system", true},
		"with XFS":                     {with("XFSB", 0), plan{}, "an XFS file system", true},
		"with Btrfs":                   {with("_BHRfS_M", 65536+64), plan{}, "a Btrfs file system", true},
		"encrypted":                    {with("LUKS\xba\xbe\x00\x02", 0), plan{}, "encrypted with LUKS", true},
		"of LVM":                       {with("LABELONE", 512), plan{}, "an LVM physical volume", true},
		"of a RAID":                    {with("\xfc\x4e\x2b\xa9", 4096), plan{}, "a member of a Linux RAID", true},
		"of a Ceph OSD":                {with("bluestore block device\n", 0), plan{}, "a Ceph OSD", true},
		"with an MBR":                  {with("\x55\xaa", 510), plan{}, "an MBR partition table", true},
		"with ISO 9660":                {with("CD001", 32769), plan{}, "ISO 9660", true},
		"with something nobody knows":  {with("x", 12345), plan{}, "there is data at byte 12345", true},
		"with data in the middle only": {with(strings.Repeat("x", 64<<10), size/65*30/4096*4096), plan{}, "there is data at byte", true},
		"with data at the end only":    {with("x", size-1), plan{}, "there is data at byte 536870911", true},
		"read-only":                    {func(t *testing.T) disk.Disk { d := zeros(t); d.ReadOnly = true; return d }, plan{}, "is read-only", true},
		"a drive for discs":            {func(t *testing.T) disk.Disk { d := zeros(t); d.Optical = true; return d }, plan{}, "is a drive for discs", true},
		"too small":                    {func(t *testing.T) disk.Disk { return imageDisk(t, 100<<20, "DATA") }, plan{}, "has only 100 MiB", true},
		"not there":                    {func(t *testing.T) disk.Disk { d := zeros(t); d.Serials = []string{"OTHER"}; return d }, plan{}, `no disk has the serial "DATA"`, true},
		"not readable":                 {func(t *testing.T) disk.Disk { d := zeros(t); d.Name += "x"; return d }, plan{}, "cannot be read", true},
	} {
		t.Run(name, func(t *testing.T) {
			d, boot := tc.make(t), bootImage(t, 1<<30, "BOOT")
			unreadable := strings.HasSuffix(d.Name, "x")
			var before [32]byte
			if !unreadable {
				before = checksum(t, d)
			}
			r := request(&boot, d)
			r.Named = &spec.DiskSelector{Serial: "DATA"}
			p, err := Choose(r)
			checkPlan(t, p, err, tc.want, tc.err, tc.refused)
			if err == nil {
				require.Equal(t, d.Name, p.Disk.Name)
			}
			if !unreadable {
				require.Equal(t, before, checksum(t, d), "choosing changes nothing")
			}
		})
	}
}

// damaged has a table whose both copies have a wrong checksum.
func damaged(t *testing.T) disk.Disk {
	d := imageDisk(t, 512<<20, "DATA")
	sfdisk(t, d, "label: gpt\n")
	writeAt(t, d, "x", 512+60)
	writeAt(t, d, "x", 512<<20-512+60)
	return d
}

func TestTwoDisksThatFitTheSelectorAreRefused(t *testing.T) {
	a, b := imageDisk(t, 512<<20, "DATA"), imageDisk(t, 512<<20, "DATA")
	r := request(nil, a, b)
	r.Named = &spec.DiskSelector{Serial: "DATA"}
	_, err := Choose(r)
	var refusal Refusal
	require.True(t, errors.As(err, &refusal))
	require.ErrorContains(t, err, `2 disks have the serial "DATA"`)
}

func TestANamedBootDiskIsTheBootDisk(t *testing.T) {
	boot := bootImage(t, 1<<30, "BOOT")
	r := request(&boot)
	r.Named = &spec.DiskSelector{Serial: "BOOT"}
	p, err := Choose(r)
	checkPlan(t, p, err, plan{repart: true, slots: 3}, "", false)
}

func TestWithoutAnyDiskThereIsNoPlace(t *testing.T) {
	_, err := Choose(request(nil))
	checkPlan(t, Plan{}, err, plan{}, "was not booted from a disk", false)
}

func checkPlan(t *testing.T, p Plan, err error, want plan, wantErr string, refused bool) {
	t.Helper()
	if wantErr != "" {
		require.ErrorContains(t, err, wantErr)
		var r Refusal
		require.Equal(t, refused, errors.As(err, &r), "refused")
		require.Equal(t, refused, AsInfo(err).Refused)
		return
	}
	require.NoError(t, err)
	slots := 0
	for name := range p.Definitions {
		if strings.HasPrefix(name, "50-") {
			slots++
		}
	}
	require.Equal(t, plan{p.Found, p.FromScratch, p.Repart, want.slots, want.warning}, plan{want.found, want.scratch, want.repart, slots, want.warning})
	require.Contains(t, p.Warning, want.warning)
	require.Equal(t, want.warning == "", p.Warning == "")
}

func TestNobodyWaitsForOneOfTwoDisksToGoAway(t *testing.T) {
	two := []disk.Disk{{Name: "vda", Size: 1 << 30, Serials: []string{"S1"}}, {Name: "vdb", Size: 1 << 30, Serials: []string{"S1"}}}
	start := time.Now()
	info := Run(context.Background(), Options{
		ClusterID: clusterID, Node: "edge-01", Named: &spec.DiskSelector{Serial: "S1"}, Say: func(s string) { t.Log(s) },
		List: func() ([]disk.Disk, error) { return two, nil },
	})
	require.Less(t, time.Since(start), DiskBound/2)
	require.Equal(t, Tmpfs, info.Kind)
	require.True(t, info.Refused)
	require.Contains(t, info.Warning, `2 disks have the serial "S1": /dev/vda`)
}
