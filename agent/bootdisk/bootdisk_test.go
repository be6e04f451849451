package bootdisk_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/blockdev"
	"spore/agent/bootdisk"
	"spore/agent/efi"
	"spore/storage/gpt"
)

const (
	rootHash    = "8074c5d3ae8251d0054edc1eb682d10e546b4b204ca0db99ae306580ee2731e6"
	clusterHash = "045c186d66bee9f2177ad1b4f2b2deb84458c7e9f0f47610898130f5f525a97c"
)

var (
	esp      = gpt.MustParseGUID("deadbeef-1111-4222-8333-444455556666")
	otherESP = gpt.MustParseGUID("deadbeef-9999-4222-8333-444455556666")
)

func wanted(t *testing.T) bootdisk.Wanted {
	w, err := bootdisk.WantedFor(rootHash, clusterHash)
	require.NoError(t, err)
	return w
}

// path is a boot option that names hardware; short one that does not.
var (
	path  = efi.Path{{Kind: 0x101, Data: []byte{0, 3}}}
	short = efi.Path{{Kind: 0x401, Data: make([]byte, 38)}}
)

func TestPartitionUUIDsComeFromTheHashes(t *testing.T) {
	w := wanted(t)
	require.Equal(t, "8074c5d3-ae82-51d0-054e-dc1eb682d10e", w.Root.String())
	require.Equal(t, "546b4b20-4ca0-db99-ae30-6580ee2731e6", w.Verity.String())
	require.Equal(t, "045c186d-66be-e9f2-177a-d1b4f2b2deb8", w.Cluster.String())
	for _, bad := range []string{"", "80", strings.Repeat("z", 64)} {
		_, err := bootdisk.WantedFor(bad, clusterHash)
		require.ErrorContains(t, err, "verity root hash")
	}
}

func TestTheBootedDiskIsChosen(t *testing.T) {
	w := wanted(t)
	disk := func(name string, verdict efi.Verdict, partitions ...gpt.GUID) bootdisk.Seen {
		s := bootdisk.Seen{Disk: blockdev.Disk{Name: name, Serial: "S-" + name, Model: "M-" + name, SysPath: "devices/" + name}, Verdict: verdict}
		for i, g := range partitions {
			s.Table.Partitions = append(s.Table.Partitions, gpt.Partition{Number: i + 1, GUID: g})
		}
		return s
	}
	image := func(name string, verdict efi.Verdict) bootdisk.Seen {
		return disk(name, verdict, esp, w.Root, w.Verity, w.Cluster)
	}
	loader := efi.Boot{LoaderPartition: esp, Option: "Boot0001 stick", Path: path}
	for _, c := range []struct {
		name  string
		seen  []bootdisk.Seen
		boot  efi.Boot
		late  bool
		disk  string
		why   string
		quiet time.Duration
		err   []string
	}{
		{
			name: "nothing is there yet", quiet: bootdisk.QuietForAny, err: []string{"no disk holds the image", w.Root.String()},
		}, {
			name: "only other disks are there yet", seen: []bootdisk.Seen{disk("sda", efi.Exact, esp), disk("sdb", efi.Exact, w.Root, w.Verity)},
			boot: loader, quiet: bootdisk.QuietForAny, err: []string{"no disk holds the image"},
		}, {
			name: "one disk, no firmware", seen: []bootdisk.Seen{image("vda", efi.No)}, disk: "vda", why: "the only disk with the image",
		}, {
			name: "one disk, no firmware, USB may bring another", seen: []bootdisk.Seen{image("vda", efi.No)}, late: true,
			disk: "vda", why: "the only disk with the image", quiet: bootdisk.QuietForCopy,
		}, {
			name: "two disks, no firmware", seen: []bootdisk.Seen{image("vda", efi.No), image("vdb", efi.No)},
			err: []string{"2 disks hold the same image", "/dev/vda", "S-vda", "/dev/vdb", `model "M-vdb"`},
		}, {
			name: "booted from the stick, disk has the same image", seen: []bootdisk.Seen{image("nvme0n1", efi.No), image("sda", efi.Exact)},
			boot: loader, disk: "sda", why: "the disk of boot option Boot0001 stick, Pci(0x3,0x0)",
		}, {
			name: "booted from the disk, stick has the same image", seen: []bootdisk.Seen{image("nvme0n1", efi.Exact), image("sda", efi.No)},
			boot: loader, late: true, disk: "nvme0n1", why: "the disk of boot option",
		}, {
			name: "booted from the stick, which is not there yet", seen: []bootdisk.Seen{image("nvme0n1", efi.No)},
			boot: loader, late: true, disk: "nvme0n1", why: "though not the disk of boot option", quiet: bootdisk.QuietForBetter,
		}, {
			name: "booted from the stick, disk has another image", seen: []bootdisk.Seen{disk("nvme0n1", efi.No, otherESP), image("sda", efi.Exact)},
			boot: loader, disk: "sda", why: "the disk of boot option",
		}, {
			name: "the loader's partition tells, the option does not", seen: []bootdisk.Seen{disk("sda", efi.No, otherESP, w.Root, w.Verity, w.Cluster), image("sdb", efi.No)},
			boot: efi.Boot{LoaderPartition: esp, Path: short}, disk: "sdb", why: "the only disk with the image",
		}, {
			name: "a short option fits both copies", seen: []bootdisk.Seen{image("sda", efi.No), image("sdb", efi.No)},
			boot: efi.Boot{LoaderPartition: esp, Path: short}, err: []string{"2 disks hold the same image and the firmware does not say", "S-sda", "S-sdb"},
		}, {
			name: "the option fits both copies", seen: []bootdisk.Seen{image("sda", efi.Exact), image("sdb", efi.Exact), image("sdc", efi.No)},
			boot: loader, err: []string{"2 disks hold the same image", "boot option fits each", "sda", "sdb"},
		}, {
			name: "the option names the controller of one", seen: []bootdisk.Seen{image("sda", efi.Controller), image("nvme0n1", efi.No)},
			boot: loader, disk: "sda", why: "where boot option Boot0001 stick is", quiet: bootdisk.QuietForCopy,
		}, {
			name: "the option names the controller of both", seen: []bootdisk.Seen{image("sda", efi.Controller), image("sdb", efi.Controller)},
			boot: loader, quiet: bootdisk.QuietForCopy, err: []string{"does not tell them apart", "sda", "sdb"},
		}, {
			name: "the option names neither", seen: []bootdisk.Seen{image("sda", efi.No), image("sdb", efi.No)},
			boot: loader, quiet: bootdisk.QuietForBetter, err: []string{"2 disks hold the same image and none is the disk of boot option"},
		}, {
			name: "the loader was on a disk without the image", seen: []bootdisk.Seen{disk("sda", efi.Exact, otherESP), image("sdb", efi.No)},
			boot: efi.Boot{LoaderPartition: otherESP, Path: short}, disk: "sdb", quiet: bootdisk.QuietForCopy, why: "the boot loader's partition deadbeef-9999",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := bootdisk.Decide(c.seen, w, c.boot, c.late)
			require.Equal(t, c.quiet, d.Quiet)
			require.Equal(t, c.quiet > 0, d.WaitFor != "", "whoever waits says for what")
			require.Equal(t, c.quiet == 0 && c.err == nil, d.Certain())
			if c.err != nil {
				require.Error(t, d.Err)
				for _, part := range c.err {
					require.ErrorContains(t, d.Err, part)
				}
				return
			}
			require.NoError(t, d.Err)
			require.Equal(t, c.disk, c.seen[d.Disk].Disk.Name)
			require.Contains(t, d.Why, c.why)
		})
	}
}

func TestTheESPIsTheLoadersOrTheFirst(t *testing.T) {
	s := bootdisk.Seen{Table: gpt.Table{Partitions: []gpt.Partition{{Number: 1}, {Number: 2, Type: gpt.ESP, GUID: esp}, {Number: 3, Type: gpt.ESP, GUID: otherESP}}}}
	p, ok := s.ESP(otherESP)
	require.True(t, ok)
	require.Equal(t, 3, p.Number)
	p, ok = s.ESP(gpt.GUID{})
	require.True(t, ok)
	require.Equal(t, 2, p.Number)
	_, ok = bootdisk.Seen{}.ESP(esp)
	require.False(t, ok)
}
