package state

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/spec"
	"spore/storage/disk"
	"spore/storage/gpt"
)

var errCut = errors.New("the power was cut")

// cut is a disk whose power goes at a write: it is lost, or its first half arrives, in whole sectors.
type cut struct {
	*os.File
	left int
	half bool
}

func (c *cut) WriteAt(b []byte, off int64) (int, error) {
	if c.left > 0 {
		c.left--
		return c.File.WriteAt(b, off)
	}
	if n := len(b) / 1024 * 512; c.half && n > 0 {
		_, _ = c.File.WriteAt(b[:n], off)
	}
	c.half = false
	return 0, errCut
}

// slots reads where a volume has its key slots.
func slots(t *testing.T, d disk.Disk, at int64) []byte {
	t.Helper()
	f, err := os.Open(d.Path())
	require.NoError(t, err)
	defer f.Close()
	b := make([]byte, 16<<20)
	_, err = f.ReadAt(b, at)
	require.NoError(t, err)
	return b
}

// requireNoKeys makes sure that a volume has no key slot any more.
func requireNoKeys(t *testing.T, d disk.Disk, at int64) {
	t.Helper()
	const header = 16 << 10
	left := slots(t, d, at)[header:]
	require.True(t, bytes.Equal(make([]byte, len(left)), left), "no key slot is left")
}

// eachCut does something to copies of a disk, cut off at each of its writes, until it comes to its end.
func eachCut(t *testing.T, d disk.Disk, do func(table, disk.Disk) error, then func(t *testing.T, d disk.Disk, writes int)) {
	t.Helper()
	for _, half := range []bool{false, true} {
		for writes := 0; ; writes++ {
			c := clone(t, d)
			f, err := os.OpenFile(c.Path(), os.O_RDWR, 0)
			require.NoError(t, err)
			err = do(&cut{f, writes, half}, c)
			require.NoError(t, f.Close())
			if err == nil {
				break
			}
			require.ErrorIs(t, err, errCut)
			then(t, c, writes)
			require.NoError(t, os.Remove(c.Path()))
			require.Less(t, writes, 100)
		}
	}
}

func TestAResetOfTheBootDiskThatIsCutOffIsWholeAfterTheNextBoot(t *testing.T) {
	d := bootImage(t, 400<<20, "BOOT")
	system := readTable(t, d).Partitions
	addState(t, d, want.String(), "")
	before := readTable(t, d)
	p, _ := before.ByGUID(want)
	encrypt(t, d.Path(), p.Start)
	keys := slots(t, d, p.Start)
	o := options(t)
	o.BootDisk = d.Name
	kept, gone := 0, 0
	reset := func(f table, d disk.Disk) error { return giveUpPartitions(f, d, []gpt.Partition{p}) }
	eachCut(t, d, reset, func(t *testing.T, d disk.Disk, writes int) {
		o.BootDisk = d.Name
		require.NoError(t, o.endReset([]disk.Disk{d}))
		plan, err := Choose(request(&d))
		require.NoError(t, err, "after %d writes", writes)
		now := readTable(t, d)
		if plan.Found {
			kept++
			require.Equal(t, before.Partitions, now.Partitions)
			require.True(t, bytes.Equal(keys, slots(t, d, p.Start)), "after %d writes the state is as it was", writes)
			return
		}
		gone++
		require.Equal(t, system, now.Partitions, "the system is as it was")
		requireNoKeys(t, d, p.Start)
		require.NoError(t, o.endReset([]disk.Disk{d}))
	})
	require.GreaterOrEqual(t, kept, 4, "before the mark")
	require.Greater(t, gone, 20)
	t.Logf("%d times the state was as before, %d times there was none", kept, gone)
}

func TestAResetOfANamedDiskThatIsCutOffIsWholeAfterTheNextBoot(t *testing.T) {
	d := imageDisk(t, 400<<20, "DATA")
	sfdisk(t, d, "label: gpt\nstart=2048, type=%s, uuid=%s\n", typeVar, want)
	encrypt(t, d.Path(), 1<<20)
	before, keys := readTable(t, d), slots(t, d, 1<<20)
	kept, gone := 0, 0
	reset := func(f table, d disk.Disk) error { return giveUpDisk(f, d, want) }
	eachCut(t, d, reset, func(t *testing.T, d disk.Disk, writes int) {
		r := request(nil, d)
		r.Named = &spec.DiskSelector{Serial: "DATA"}
		plan, err := Choose(r)
		require.NoError(t, err, "after %d writes", writes)
		if plan.Found {
			kept++
			require.Equal(t, before.Partitions, readTable(t, d).Partitions)
			require.True(t, bytes.Equal(keys, slots(t, d, 1<<20)), "after %d writes the state is as it was", writes)
			return
		}
		gone++
		require.True(t, plan.FromScratch)
		require.NoError(t, shred(plan.Disk))
		requireNoKeys(t, d, 1<<20)
	})
	require.GreaterOrEqual(t, kept, 1, "before the marker")
	require.Greater(t, gone, 20)
}

func TestAnAdoptionThatIsCutOffIsAsBeforeOrDone(t *testing.T) {
	d := bootImage(t, 400<<20, "BOOT")
	addState(t, d, foreign, "300MiB")
	before := readTable(t, d).Partitions
	adopt := func(f table, d disk.Disk) error {
		return editTable(f, d, 5, func(entry []byte) { copy(entry[16:32], want.OnDisk()) })
	}
	kept, done := 0, 0
	eachCut(t, d, adopt, func(t *testing.T, d disk.Disk, writes int) {
		now := readTable(t, d)
		require.Len(t, now.Partitions, len(before))
		_, err := Choose(request(&d))
		if now.Partitions[4].GUID == before[4].GUID {
			kept++
			require.ErrorContains(t, err, "spore adopt edge-01 --partition "+foreign)
			return
		}
		done++
		require.Equal(t, want, now.Partitions[4].GUID, "after %d writes", writes)
		require.NoError(t, err)
	})
	require.Positive(t, kept)
	require.Positive(t, done)
}
